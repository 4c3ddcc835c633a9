package main

import (
	"bufio"
	"fmt"
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

// progress shows how far long work is, on a terminal.
func (a *app) progress(format string, args ...any) {
	if f, ok := a.err.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		fmt.Fprintf(a.err, "\r\x1b[K"+format, args...)
	}
}
