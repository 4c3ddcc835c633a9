package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/internal/readable"
)

// table aligns names and values.
type table struct{ w *tabwriter.Writer }

func (a *app) table(name, value string) table {
	t := table{tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)}
	t.row(name, value)
	return t
}

func (t table) row(name, value string) {
	fmt.Fprintln(t.w, strings.TrimRight(plain(name)+"\t"+plain(value), "\t"))
}

// field adds a row, unless the value is empty.
func (t table) field(name, value string) {
	if value != "" {
		t.row(name, value)
	}
}

func (t table) end() error { return t.w.Flush() }

// Formatting of untrusted text, times, durations and numbers.
var (
	plain = readable.Plain
	short = readable.Cut
	clock = readable.Clock
	span  = readable.Span

	number = readable.Number[int]
	plural = readable.Count[int]
)

// saidElsewhere matches the beginning of an error that only repeats the job's state.
var saidElsewhere = regexp.MustCompile(`^(?:` + jobs.SkipRetry.Error() + `|cancelled|retry after [0-9][0-9a-zµ.]*): `)

// cause returns an error's text for a list, without the part that only repeats the job's state.
func cause(message string) string {
	return strings.TrimSuffix(saidElsewhere.ReplaceAllString(message, ""), ": "+jobs.SkipRetry.Error())
}

// count formats a number; zero is blank.
func count(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// workColumns are the columns of workCells.
var workColumns = append(append([]column{
	{head: "DONE/S", rank: 2, seen: true},
	{head: "FAILED", rank: 1, seen: true},
}, latencyColumns...), column{head: "GONE IN", rank: 7, seen: true})

// workCells returns cells with how many jobs completed and failed, how long they took,
// and when the backlog will be gone.
func workCells(w inspect.Work, backlog int64) []any {
	gone := cell{key: int64(0)}
	if d, ok := w.Gone(backlog); ok && backlog > 0 && w.Known() {
		gone = cell{text: span(d), key: int64(d)}
	}
	return append(append([]any{perSecond(w, w.Completed), failureRate(w)}, latencyCells(w.Latency)...), gone)
}

// latencyColumns are the columns of latencyCells. A narrow terminal shows the 95th
// percentiles, then the medians.
var latencyColumns = []column{
	{head: "WAIT P50", rank: 10, seen: true},
	{head: "WAIT P95", rank: 8, seen: true},
	{head: "WAIT P99", rank: 12, seen: true},
	{head: "RUN P50", rank: 11, seen: true},
	{head: "RUN P95", rank: 9, seen: true},
	{head: "RUN P99", rank: 13, seen: true},
}

// latencyCells returns percentiles of waits and runs, blank where workers reported
// none.
func latencyCells(l inspect.Latency) (cells []any) {
	for _, t := range []inspect.Times{l.WaitTimes, l.RunTimes} {
		for _, share := range []float64{0.50, 0.95, 0.99} {
			cells = append(cells, took(t.Quantile(share), t.Count()))
		}
	}
	return cells
}

// perSecond returns the cell of a rate, blank if it is unknown.
func perSecond(w inspect.Work, n int64) cell {
	rate := w.PerSecond(n)
	text := fmt.Sprintf("%.0f", rate)
	switch {
	case !w.Known():
		return cell{key: int64(0)}
	case rate == 0:
		text = "0"
	case rate < 0.1:
		text = fmt.Sprintf("%.2g", rate)
	case rate < 10:
		text = fmt.Sprintf("%.1f", rate)
	}
	return cell{text: text, key: int64(rate * 1e6)}
}

// failureRate returns a cell in percent, blank if nothing ran.
func failureRate(w inspect.Work) cell {
	rate := w.FailureRate() * 100
	text := fmt.Sprintf("%.0f%%", rate)
	switch {
	case w.Completed+w.Failed+w.Crashed == 0:
		text = ""
	case rate > 0 && rate < 1:
		text = "<1%"
	}
	return cell{text: text, key: int64(rate * 1e6)}
}

// took returns the cell of a duration measured over n jobs, blank if n is 0.
func took(d time.Duration, n int64) cell {
	text := span(d)
	switch {
	case n == 0:
		return cell{key: int64(0)}
	case d < 10*time.Millisecond:
		text = fmt.Sprintf("%.1fms", d.Seconds()*1000)
	case d < time.Second:
		text = fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		text = fmt.Sprintf("%.1fs", d.Seconds())
	}
	return cell{text: text, key: int64(d)}
}
