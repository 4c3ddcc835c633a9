package main

import (
	"time"

	"github.com/schollz/progressbar/v3"
)

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
