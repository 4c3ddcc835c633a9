package membroker

import (
	"context"
	"time"

	"github.com/google/btree"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/journal"
)

// lapse says that something is to be removed at a time in microseconds.
type lapse struct {
	at   int64
	what lapsed
	name string
}

type lapsed int8

// What lapses.
const (
	lapsedRecord lapsed = iota // the record of a completed or cancelled job
	lapsedID                   // a remembered ID
	lapsedWindow               // the window of a unique key
	lapsedWorker               // an ended worker
	lapsedMark
	lapsedKey // the starts of a key without jobs
)

// lapses are in the order of their times.
type lapses struct{ *btree.BTreeG[lapse] }

func newLapses() lapses {
	return lapses{btree.NewG(degree, func(a, b lapse) bool {
		if a.at != b.at {
			return a.at < b.at
		}
		return a.what < b.what || a.what == b.what && a.name < b.name
	})}
}

// set makes a thing lapse at another time than before; 0 stands for never.
func (l lapses) set(what lapsed, name string, before, at int64) {
	if before != 0 {
		l.Delete(lapse{before, what, name})
	}
	if at != 0 {
		l.ReplaceOrInsert(lapse{at, what, name})
	}
}

// each removes what has lapsed, while the budget lasts. It returns the rest of the budget,
// below zero if the budget was too small.
func (l lapses) each(now time.Time, budget int, remove func(lapse)) int {
	for x, ok := l.Min(); ok && x.at <= now.UnixMicro(); x, ok = l.Min() {
		if budget--; budget < 0 {
			break
		}
		l.Delete(x)
		remove(x)
	}
	return budget
}

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
	left := b.store.lapses.each(now, req.Max, func(x lapse) {
		b.store.note(journal.Marks, "", x.name)
		delete(b.store.marks, x.name)
		got.Other++
	})
	got.More = got.More || left < 0
	return got, nil
}

// prune removes what has lapsed, then the records that the policy's retention no longer keeps,
// the oldest first.
func (q *queue) prune(budget int, got *broker.Pruned, now time.Time) {
	budget = q.lapses.each(now, budget, func(x lapse) { q.removeLapsed(x, got, now) })
	for j := q.surplus(now); j != nil && budget >= 0; j = q.surplus(now) {
		if budget--; budget >= 0 {
			q.pruneJob(j, got, now)
		}
	}
	got.More = got.More || budget < 0
}

// removeLapsed removes the thing that a lapse is about.
func (q *queue) removeLapsed(x lapse, got *broker.Pruned, now time.Time) {
	switch x.what {
	case lapsedRecord:
		q.pruneJob(q.jobs[x.name], got, now)
		return
	case lapsedID:
		q.note(journal.Remembered, x.name)
		delete(q.remembered, x.name)
	case lapsedWindow:
		q.setHold(x.name, hold{})
	case lapsedWorker:
		w := q.workers[x.name]
		q.note(journal.Workers, x.name)
		if w.Held > 0 { // its jobs wait for a reclaim: look again
			q.forgetWorker(w, now)
			return
		}
		delete(q.workers, x.name)
	case lapsedKey:
		q.forget(q.lane(x.name))
		return
	}
	got.Other++
}

func (q *queue) pruneJob(j *job, got *broker.Pruned, now time.Time) {
	switch j.State {
	case broker.StateCompleted:
		got.Completed++
	case broker.StateCancelled:
		got.Cancelled++
	case broker.StateDead:
		got.Dead++
	}
	q.check(j.State, broker.OnPrune, broker.StateNone)
	q.drop(j, now, stays)
}

// surplus returns the first record that the queue's policy no longer keeps, or nil.
func (q *queue) surplus(now time.Time) *job {
	if most := q.policy.RetainCompleted.Count; most > 0 && int64(q.len(broker.StateCompleted)+q.len(broker.StateCancelled)) > most {
		return q.firstOf(broker.StateCompleted, broker.StateCancelled)
	}
	keep := q.policy.RetainDead
	if first, ok := q.states[broker.StateDead].Min(); ok {
		tooOld := keep.Age > 0 && reached(now, later(first.of.FinishedAt, keep.Age))
		if tooOld || keep.Count > 0 && int64(q.len(broker.StateDead)) > keep.Count {
			return first.of
		}
	}
	return nil
}
