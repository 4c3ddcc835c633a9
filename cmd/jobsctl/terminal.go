package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/seed81422ce9/jobs/broker"
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
		if word := strings.ToLower(strings.TrimSpace(text)); word != "y" && word != "yes" {
			return errUnconfirmed
		}
		return nil
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

// terminalWidth returns the width of the terminal out, or 0 if out is not a terminal or its width is
// unknown.
func terminalWidth(out any) int {
	if f, ok := out.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			return width
		}
	}
	return 0
}

// progress shows on a terminal how far a long operation is, and how long it will take.
type progress struct {
	*progressbar.ProgressBar
	total int
}

// progress starts a progress bar for total jobs; 0 means that the number is unknown.
func (a *app) progress(what string, total int) progress {
	length := -1
	if total > 0 {
		length = total + 1 // a full bar would disappear
	}
	return progress{progressbar.NewOptions(length, progressbar.OptionSetWriter(onTerminal(a.err)), progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("jobs"), progressbar.OptionSetWidth(20),
		progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionSetPredictTime(true),
		progressbar.OptionSetSpinnerChangeInterval(0)), total}
}

// at shows that n jobs are done.
func (p progress) at(n int) {
	if p.total > 0 {
		n = min(n, p.total)
	}
	_ = p.Set(n) // a failed write to the terminal does no harm
}

func (p progress) end() { _ = p.Finish() }

// largeSearch is the number of jobs from which a search announces its size. Smaller searches end before
// the user wonders what happens.
const largeSearch = 10_000

// search shows the progress of a search through the jobs of a state.
type search struct {
	progress
	sizes, looked []int // of each queue; a size of 0 is unknown
}

// search begins a search for the jobs that f selects, and announces its size. what is
// the text of the progress bar.
func (a *app) search(what string, f *filter) *search {
	s := &search{sizes: make([]int, len(f.infos)), looked: make([]int, len(f.infos))}
	total := 0
	state, err := broker.ParseState(f.state)
	if err == nil && !f.byStateAlone() && f.worker+f.key == "" {
		for n, info := range f.infos {
			s.sizes[n] = int(info.Counts[state])
			total += s.sizes[n]
		}
	}
	if total >= largeSearch && !a.saidSearch {
		a.saidSearch = true
		upTo, order := "", ""
		if f.olderThan+f.newerThan > 0 || f.typ+f.reason != "" { // the store may have an index
			upTo = "up to "
		}
		if state.Final() {
			order = ", the newest first"
		}
		fmt.Fprintf(a.err, "Looking through %s%s %s jobs%s.\n", upTo, number(total), state, order)
	}
	if total == 0 { // the size is unknown
		s.progress = progress{ProgressBar: progressbar.DefaultSilent(1)} // one of unknown length would turn a spinner, which races
		return s
	}
	s.progress = a.progress(what, total)
	return s
}

// of returns a function that records how many jobs of a queue were examined.
func (s *search) of(queue int) func(int) {
	return func(looked int) {
		s.looked[queue] = min(looked, s.sizes[queue])
		all := 0
		for _, n := range s.looked {
			all += n
		}
		s.at(all)
	}
}
