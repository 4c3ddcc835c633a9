package main

import (
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/inspect"
)

// workCells are DONE/S, FAILED, WAIT, RUN and GONE IN.
func workCells(w inspect.Work, backlog int64) []any {
	gone := cell{"", int64(0)}
	if d, ok := w.Gone(backlog); ok && backlog > 0 && w.Known() {
		gone = cell{span(d), int64(d)}
	}
	return []any{perSecond(w, w.Completed), failureRate(w), mean(w.MeanWait(), w.Waits), mean(w.MeanRun(), w.Runs), gone}
}

// perSecond is a rate, blank where it is not known.
func perSecond(w inspect.Work, n int64) cell {
	if !w.Known() {
		return cell{"", int64(0)}
	}
	rate := w.PerSecond(n)
	key := int64(rate * 1e6)
	switch {
	case rate == 0:
		return cell{"0", key}
	case rate < 0.1:
		return cell{fmt.Sprintf("%.2g", rate), key}
	case rate < 10:
		return cell{fmt.Sprintf("%.1f", rate), key}
	}
	return cell{fmt.Sprintf("%.0f", rate), key}
}

// failureRate is in per cent, blank where nothing ran.
func failureRate(w inspect.Work) cell {
	rate := w.FailureRate() * 100
	switch key := int64(rate * 1e6); {
	case w.Completed+w.Failed+w.Crashed == 0:
		return cell{"", int64(0)}
	case rate == 0:
		return cell{"0%", key}
	case rate < 1:
		return cell{"<1%", key}
	default:
		return cell{fmt.Sprintf("%.0f%%", rate), key}
	}
}

// mean is a mean time of so many, blank where there was none.
func mean(d time.Duration, n int64) cell {
	switch {
	case n == 0:
		return cell{"", int64(0)}
	case d < 10*time.Millisecond:
		return cell{fmt.Sprintf("%.1fms", d.Seconds()*1000), int64(d)}
	case d < time.Second:
		return cell{fmt.Sprintf("%dms", d.Milliseconds()), int64(d)}
	case d < time.Minute:
		return cell{fmt.Sprintf("%.1fs", d.Seconds()), int64(d)}
	}
	return cell{span(d), int64(d)}
}
