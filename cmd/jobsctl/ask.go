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

// confirm asks the user before an action that cannot be undone or that changes many
// jobs. Without a user to ask, only --yes confirms.
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
	go func() { // keeps reading if the question stays unanswered; the program then ends
		text, _ := bufio.NewReader(a.in).ReadString('\n') // a read error counts as no answer
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

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// onTerminal returns w if it is a terminal, and otherwise a writer that discards
// everything.
func onTerminal(w io.Writer) io.Writer {
	if isTerminal(w) {
		return w
	}
	return io.Discard
}
