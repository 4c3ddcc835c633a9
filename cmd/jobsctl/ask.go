package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// confirm asks whether to go on with what cannot be undone. Where there is
// nobody to ask, only --yes agrees.
func (a *app) confirm(grave bool, format string, args ...any) error {
	if !grave || a.yes {
		return nil
	}
	fmt.Fprintf(a.err, "Really "+format+"? [y/N] ", args...)
	answer, err := bufio.NewReader(a.in).ReadString('\n')
	if err != nil && answer == "" {
		fmt.Fprintln(a.err)
		return errUnconfirmed
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errUnconfirmed
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
