package membroker

import (
	"context"

	"github.com/seed81422ce9/jobs/broker"
)

// What Prune finds in a queue's lapses, beside completed and cancelled jobs
// and ended workers.
type (
	givenID string // a remembered ID
	window  string // the key of a unique window
)

// Prune removes up to Max lapsed things per queue, and up to Max lapsed marks.
// §23.
func (b *Broker) Prune(ctx context.Context, req broker.PruneRequest) (broker.Pruned, error) {
	now, err := b.begin(ctx, "prune", req.Now, req.Check())
	if err != nil {
		return broker.Pruned{}, err
	}
	defer b.end()
	var got broker.Pruned
	for _, name := range req.Queues {
		if q := b.store.queues[name]; q != nil {
			q.prune(req.Max, &got, now)
		}
	}
	b.store.pruneMarks(req.Max, &got, now)
	return got, nil
}

func (q *queue) prune(budget int, got *broker.Pruned, now instant) {
	for ; ; budget-- {
		what := q.overdue(now)
		if what == nil {
			return
		}
		if budget == 0 {
			got.More = true
			return
		}
		if j, ok := what.(*job); ok {
			switch j.state {
			case broker.StateCompleted:
				got.Completed++
			case broker.StateCancelled:
				got.Cancelled++
			case broker.StateDead:
				got.Dead++
			}
			q.check(j.state, broker.OnPrune, broker.StateNone)
			q.drop(j, now, stays)
			continue
		}
		got.Other += q.pruneLapsed(what, now)
	}
}

// overdue is the next thing to prune, or nil: what has lapsed, then the
// records that retention no longer keeps, those that ended first going first.
func (q *queue) overdue(now instant) any {
	if e, ok := q.lapses.first(); ok && now.reached(e.at) {
		return e.what
	}
	completed, cancelled, dead := q.times[broker.StateCompleted], q.times[broker.StateCancelled], q.times[broker.StateDead]
	if most := q.policy.RetainCompleted.Count; most > 0 && int64(completed.len()+cancelled.len()) > most {
		e, ok := completed.first()
		if c, found := cancelled.first(); found && (!ok || c.at < e.at || c.at == e.at && c.seq < e.seq) {
			e = c
		}
		return e.what
	}
	if e, ok := dead.first(); ok {
		keep := q.policy.RetainDead
		tooOld := keep.Age > 0 && now.reached(e.at+broker.DurationMicros(keep.Age))
		if tooOld || keep.Count > 0 && int64(dead.len()) > keep.Count {
			return e.what
		}
	}
	return nil
}

// pruneLapsed removes the first of the queue's lapses and what it is about,
// unless that has been renewed since. It returns how much it removed.
func (q *queue) pruneLapsed(what any, now instant) int {
	e, _ := q.lapses.first()
	q.lapses.remove(e.at, e.seq)
	switch what := what.(type) {
	case givenID:
		if now.reached(q.remembered[string(what)].until) {
			delete(q.remembered, string(what))
			return 1
		}
	case window:
		if h, ok := q.unique[string(what)]; ok && now.reached(h.until) {
			delete(q.unique, string(what))
			return 1
		}
	case *worker:
		if what.held.len() == 0 {
			delete(q.ended, what.id)
			return 1
		}
		what.until = now.plus(remembersEnded) // its jobs wait for a reclaim: look again
		q.seq++
		q.lapses.add(what.until, q.seq, what)
	}
	return 0
}
