package main

import (
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

// totalsView is what a queue did since it was made, as --json writes it.
type totalsView struct {
	Enqueued  int64   `json:"enqueued"`
	Claimed   int64   `json:"claimed"`
	Completed int64   `json:"completed"`
	Failed    int64   `json:"failed"`
	Retried   int64   `json:"retried"`
	Dead      int64   `json:"dead"`
	Crashed   int64   `json:"crashed"`
	Cancelled int64   `json:"cancelled"`
	Expired   int64   `json:"expired"`
	Waits     int64   `json:"waits"`
	Waited    float64 `json:"waited_seconds"`
	Runs      int64   `json:"runs"`
	Ran       float64 `json:"ran_seconds"`
}

func viewTotals(t broker.Totals) totalsView {
	return totalsView{t.Enqueued, t.Claimed, t.Completed, t.Failed, t.Retried, t.Dead, t.Crashed, t.Cancelled, t.Expired,
		t.Waits, float64(t.WaitedMicros) / 1e6, t.Runs, float64(t.RanMicros) / 1e6}
}

// workView is what a queue did lately, as --json writes it.
type workView struct {
	Span      float64  `json:"span_seconds"`
	Enqueued  float64  `json:"enqueued_per_second"`
	Completed float64  `json:"completed_per_second"`
	Failures  float64  `json:"failure_rate"`
	MeanWait  float64  `json:"mean_wait_seconds"`
	MeanRun   float64  `json:"mean_run_seconds"`
	GoneIn    *float64 `json:"gone_in_seconds,omitempty"`
}

func viewWork(w inspect.Work, backlog int64) *workView {
	v := &workView{w.Span.Seconds(), w.PerSecond(w.Enqueued), w.PerSecond(w.Completed), w.FailureRate(),
		w.MeanWait().Seconds(), w.MeanRun().Seconds(), nil}
	if gone, ok := w.Gone(backlog); ok {
		seconds := gone.Seconds()
		v.GoneIn = &seconds
	}
	return v
}

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
