package figures

import (
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

// Rates has the counts and totals of each queue in about the last ten seconds, as Add
// recorded them.
type Rates map[string][]sample

type sample struct {
	at     time.Time // by the store's clock
	counts map[broker.State]int64
	totals broker.Totals
}

// rateSpan is long enough for a steady number, and short enough to show a change soon.
const rateSpan = 10 * time.Second

// Add records the counts and totals of all queues. It forgets queues that are gone.
func (r Rates) Add(queues []inspect.QueueInfo) {
	there := make(map[string]bool, len(queues))
	for _, q := range queues {
		there[q.Name] = true
		at := q.AsOf
		if at.IsZero() {
			at = q.Now
		}
		past := r[q.Name]
		if n := len(past); n > 0 && !at.After(past[n-1].at) { // the counts are no newer than the last ones, or the clock was set back
			past = past[:n-1]
			if len(past) > 0 && !at.After(past[len(past)-1].at) {
				past = nil
			}
		}
		for len(past) > 1 && at.Sub(past[1].at) >= rateSpan {
			past = past[1:]
		}
		counts := make(map[broker.State]int64, len(q.Counts))
		for state := range q.Counts {
			counts[state] = q.Listed(state)
		}
		r[q.Name] = append(past, sample{at, counts, q.Totals})
	}
	for name := range r {
		if !there[name] {
			delete(r, name)
		}
	}
}

// Of returns by how much a count changes in a second. ok reports whether that is known.
func (r Rates) Of(queue string, state broker.State) (perSecond float64, ok bool) {
	past := r[queue]
	if len(past) < 2 {
		return 0, false
	}
	first, last := past[0], past[len(past)-1]
	return float64(last.counts[state]-first.counts[state]) / last.at.Sub(first.at).Seconds(), true
}

// Work returns what a queue did in that time. It returns zero after one call of Add.
func (r Rates) Work(queue string) (w inspect.Work) {
	past := r[queue]
	if len(past) < 2 {
		return w
	}
	first, last := past[0], past[len(past)-1]
	return inspect.Work{Span: last.at.Sub(first.at), Totals: last.totals.Since(first.totals)}
}
