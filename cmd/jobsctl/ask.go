package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// confirm asks whether to go on with what cannot be undone, or is large. Where
// there is nobody to ask, only --yes agrees.
func (a *app) confirm(ctx context.Context, ask bool, format string, args ...any) error {
	if !ask || a.yes {
		return nil
	}
	question := fmt.Sprintf("Really "+format, args...)
	if a.place != "" {
		question += " in the context " + plain(a.place)
	}
	fmt.Fprint(a.err, question+"? [y/N] ")
	answer := make(chan string, 1)
	go func() { // which goes on reading, if the question is left unanswered; the program ends then
		text, _ := bufio.NewReader(a.in).ReadString('\n') // what cannot be read is no answer
		answer <- text
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(a.err)
		return errInterruptedEarly
	case text := <-answer:
		if text == "" {
			fmt.Fprintln(a.err)
		}
		switch strings.ToLower(strings.TrimSpace(text)) {
		case "y", "yes":
			return nil
		}
		return errUnconfirmed
	}
}

// isTerminal reports whether a person sees what is written there, or types
// what is read.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// onTerminal returns w if it is a terminal, and else what swallows all.
func onTerminal(w io.Writer) io.Writer {
	if isTerminal(w) {
		return w
	}
	return io.Discard
}
