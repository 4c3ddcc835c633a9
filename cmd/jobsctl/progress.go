package main

import (
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress shows on a terminal how far long work is, and how long it will take.
type progress struct {
	*progressbar.ProgressBar
	total int
}

// progress begins to show work on total jobs; zero stands for a number that is
// not known.
func (a *app) progress(what string, total int) progress {
	length := -1
	if total > 0 {
		length = total + 1 // a full bar would end by itself
	}
	return progress{progressbar.NewOptions(length, progressbar.OptionSetWriter(onTerminal(a.err)), progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("jobs"), progressbar.OptionSetWidth(20),
		progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionSetPredictTime(true),
		progressbar.OptionSetSpinnerChangeInterval(0)), total}
}

// at says that n jobs are done.
func (p progress) at(n int) {
	if p.total > 0 {
		n = min(n, p.total)
	}
	_ = p.Set(n) // what cannot be written to a terminal is not missed
}

// end takes it away.
func (p progress) end() { _ = p.Finish() }
