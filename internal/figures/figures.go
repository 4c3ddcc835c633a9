// Package figures has the numbers about queues that the command and the dashboard show:
// how fast jobs come and go between two readings, and the JSON form that both use.
package figures

import (
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

// Totals is what a queue did since it was made, or in a period, as JSON.
type Totals struct {
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

// TotalsOf returns the JSON form of totals.
func TotalsOf(t broker.Totals) Totals {
	return Totals{t.Enqueued, t.Claimed, t.Completed, t.Failed, t.Retried, t.Dead, t.Crashed, t.Cancelled, t.Expired,
		t.Waits, float64(t.WaitedMicros) / 1e6, t.Runs, float64(t.RanMicros) / 1e6}
}

// Work is what a queue did lately, as JSON. GoneIn is missing while the backlog does
// not shrink. Wait and Run are missing if no server reported any.
type Work struct {
	Span      float64  `json:"span_seconds"`
	Enqueued  float64  `json:"enqueued_per_second"`
	Completed float64  `json:"completed_per_second"`
	Failures  float64  `json:"failure_rate"`
	MeanWait  float64  `json:"mean_wait_seconds"`
	MeanRun   float64  `json:"mean_run_seconds"`
	Wait      *Spread  `json:"wait_seconds,omitempty"`
	Run       *Spread  `json:"run_seconds,omitempty"`
	GoneIn    *float64 `json:"gone_in_seconds,omitempty"`
}

// Spread has percentiles in seconds: half of all durations were at most P50, 95 % at
// most P95, and 99 % at most P99.
type Spread struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

// SpreadOf returns the percentiles of times, or nil if none were counted.
func SpreadOf(t inspect.Times) *Spread {
	if t.Count() == 0 {
		return nil
	}
	return &Spread{t.Quantile(0.50).Seconds(), t.Quantile(0.95).Seconds(), t.Quantile(0.99).Seconds()}
}

// WorkOf returns the JSON form of what a queue did. backlog is the number of its pending
// jobs.
func WorkOf(w inspect.Work, backlog int64) *Work {
	v := &Work{w.Span.Seconds(), w.PerSecond(w.Enqueued), w.PerSecond(w.Completed), w.FailureRate(),
		w.MeanWait().Seconds(), w.MeanRun().Seconds(), SpreadOf(w.Latency.WaitTimes), SpreadOf(w.Latency.RunTimes), nil}
	if gone, ok := w.Gone(backlog); ok {
		seconds := gone.Seconds()
		v.GoneIn = &seconds
	}
	return v
}

// Period is what a queue did in a period, as JSON, and what it had at the end.
type Period struct {
	Work
	Until   time.Time `json:"until"`
	Totals  Totals    `json:"totals"` // of the period
	Pending int64     `json:"pending"`
	Active  int64     `json:"active"`
	Retry   int64     `json:"retry"`
	Dead    int64     `json:"dead"`
	Paused  bool      `json:"paused"`
}

// PeriodOf returns the JSON form of a period.
func PeriodOf(p inspect.Period) Period {
	u := p.Until
	return Period{*WorkOf(p.Work, u.Pending), u.At.UTC(), TotalsOf(p.Totals), u.Pending, u.Active, u.Retry, u.Dead, u.Paused}
}

// Queue is a queue as JSON; ages are in seconds.
type Queue struct {
	Queue   string             `json:"queue"`
	Paused  bool               `json:"paused"`
	Counts  map[string]int64   `json:"counts"`
	Oldest  map[string]float64 `json:"oldest_seconds"`
	Pending map[int]float64    `json:"oldest_pending_seconds,omitempty"` // by priority
	Totals  Totals             `json:"totals"`
	Lately  *Work              `json:"lately,omitempty"`
	Now     time.Time          `json:"now"`
}

// Suppressed is the name under which Queue.Counts has the number of suppressed dead jobs.
// The number of dead jobs does not include them.
const Suppressed = "suppressed"

// QueueOf returns the JSON form of a queue, with what it did lately, if that is known.
func QueueOf(q inspect.QueueInfo, lately map[string]inspect.Work) Queue {
	v := Queue{Queue: q.Name, Paused: q.Policy.Paused, Counts: map[string]int64{}, Oldest: map[string]float64{},
		Pending: map[int]float64{}, Totals: TotalsOf(q.Totals), Now: q.Now.UTC()}
	if w, ok := lately[q.Name]; ok {
		v.Lately = WorkOf(w, q.Counts[broker.StatePending])
	}
	for _, s := range broker.States() {
		if s == broker.StateWaiting && q.Counts[s] == 0 {
			continue // the state is shown only while there are waiting jobs
		}
		v.Counts[s.String()] = q.Listed(s)
		if age := q.Age(s); age > 0 {
			v.Oldest[s.String()] = age.Seconds()
		}
	}
	if q.Suppressed > 0 {
		v.Counts[Suppressed] = q.Suppressed
	}
	for p := range q.OldestPending {
		v.Pending[int(p)] = q.AgePending(p).Seconds()
	}
	return v
}
