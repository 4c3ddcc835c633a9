package membroker

import (
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

const states = broker.StateWaiting + 1

// queue is a queue's record. Each job is in jobs and in the place of its
// state: a bag, or a timeline for the states that times order.
type queue struct {
	store  *Store
	name   string
	policy broker.Policy
	jobs   index
	keys   map[string]*bag // by Body.Key
	seq    int64

	bags  [states]bag              // pending, active, waiting
	times [states]timeline[*job]   // scheduled, retry by due time; completed, dead, cancelled by end
	ready [broker.Priorities]ready // the pending ones in turn

	suppressed int64 // of the dead ones

	workers map[string]*worker // those that exist
	ended   map[string]*worker // whose IDs are dead
	orphans []*worker          // ended ones that still hold jobs

	unique     map[string]hold // by unique key
	remembered map[string]past // IDs given by callers whose jobs are gone
	lapses     timeline[any]   // what Prune removes at its time; see overdue

	waiters []*waiter // in the order they came
	woken   int       // waiters of this queue that were woken and have not come back
	keeper  *waiter   // whose timer runs for this queue's next due job
	alarm   int64     // when that fires; never without a keeper
	touched bool
}

func newQueue(s *Store, name string) *queue {
	q := &queue{
		store:      s,
		name:       name,
		jobs:       newIndex(s.seed),
		keys:       make(map[string]*bag),
		workers:    make(map[string]*worker),
		ended:      make(map[string]*worker),
		unique:     make(map[string]hold),
		remembered: make(map[string]past),
		lapses:     newTimeline[any](),
		alarm:      never,
	}
	for _, state := range broker.States() {
		if timed(state) {
			q.times[state] = newTimeline[*job]()
		}
	}
	return q
}

// timed reports whether the jobs of a state are ordered by a time.
func timed(s broker.State) bool {
	return s.Final() || s == broker.StateScheduled || s == broker.StateRetry
}

// count is the number of jobs in a state.
func (q *queue) count(s broker.State) int {
	if timed(s) {
		return q.times[s].len()
	}
	return q.bags[s].len()
}

// add takes a new job in.
func (q *queue) add(j *job, event broker.TransitionEvent, to broker.State, at int64) {
	q.jobs.add(j)
	if j.Key != "" {
		q.addKey(j)
	}
	q.move(j, event, to, at)
}

// addKey puts a job among those of its key.
func (q *queue) addKey(j *job) {
	keyed := q.keys[j.Key]
	if keyed == nil {
		keyed = &bag{kind: byKey}
		q.keys[j.Key] = keyed
	}
	keyed.add(j)
}

// move is the one way for a job from state to state; at is when it is due or
// ended, in the states that times order. A job that stays in its state keeps
// its position in the bag, so that a listing does not miss it (§23).
func (q *queue) move(j *job, event broker.TransitionEvent, to broker.State, at int64) {
	from := j.state
	q.check(from, event, to)
	q.leave(j)
	if from != to && !timed(from) && from != broker.StateNone {
		q.bags[from].remove(j)
	}
	if from != to && !timed(to) {
		q.bags[to].add(j)
	}
	q.seq++
	j.state, j.at, j.seq = to, at, q.seq
	if to == broker.StatePending {
		q.ready[j.Priority-1].pushBack(j)
	}
	if timed(to) {
		q.times[to].add(at, j.seq, j)
	}
	if j.suppressed() {
		q.suppressed++
	}
	q.touch()
}

// leave undoes what entering a state did beside the bags. A dead job's head is
// replaced after it.
func (q *queue) leave(j *job) {
	if j.suppressed() {
		q.suppressed--
	}
	switch j.state {
	case broker.StatePending:
		q.ready[j.Priority-1].remove(j)
	case broker.StateActive:
		j.holder.release(q, j)
	case broker.StateWaiting:
		j.held = nil
	}
	if timed(j.state) {
		q.times[j.state].remove(j.at, j.seq)
	}
	if j.lapse != 0 {
		q.lapses.remove(j.lapse, j.seq)
		j.lapse = 0
	}
}

// toFront gives jobs that just became pending the first turns, in their order
// (§16).
func (q *queue) toFront(jobs []*job) {
	for i := len(jobs) - 1; i >= 0; i-- {
		r := &q.ready[jobs[i].Priority-1]
		r.remove(jobs[i])
		r.pushFront(jobs[i])
	}
}

// finish moves a job whose head says that it ended to a final state, or drops
// it when nothing is to be kept (§11).
func (q *queue) finish(j *job, event broker.TransitionEvent, to broker.State, now instant) {
	q.freeKey(j)
	keep := q.retention(j)
	switch {
	case to == broker.StateDead:
		q.move(j, event, to, now.ceil)
	case keep > 0:
		q.move(j, event, to, now.ceil)
		j.lapse = now.plus(keep)
		q.lapses.add(j.lapse, j.seq, j)
	default:
		q.check(j.state, event, to)
		q.drop(j, now, stays)
	}
}

// retention is how long the record of a completed or cancelled job is kept.
func (q *queue) retention(j *job) time.Duration {
	if j.Retention > 0 {
		return j.Retention
	}
	return q.policy.RetainCompleted.Age
}

// drop removes every trace of a job but what is to be remembered of it: moved is
// the epoch at which it left for elsewhere, or stays.
func (q *queue) drop(j *job, now instant, moved int64) {
	q.freeKey(j)
	q.leave(j)
	if !timed(j.state) {
		q.bags[j.state].remove(j)
	}
	if keyed := q.keys[j.Key]; keyed != nil {
		if keyed.remove(j); keyed.len() == 0 {
			delete(q.keys, j.Key)
		}
	}
	q.jobs.remove(j)
	j.state = broker.StateNone
	if j.GivenID {
		q.remember(j.id, now, moved)
	}
}

// check holds every step to the table of legal ones.
func (q *queue) check(from broker.State, event broker.TransitionEvent, to broker.State) {
	if !broker.Legal(from, event, to) {
		panic(fmt.Sprintf("membroker: %v may not lead from %v to %v", event, from, to))
	}
}
