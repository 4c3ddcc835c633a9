package membroker

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/btree"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/journal"
)

// job is a stored job, with its positions in the lists of its queue. Its bytes, headers and
// errors are never changed, only replaced by others. So they can be copied for callers after
// the store is unlocked.
type job struct {
	broker.Job
	lane    *lane // of its Key
	born    int64 // its position among the jobs of its Key
	at, seq int64 // its position in the list of its state
	lapse   int64 // of a completed or cancelled job: when the record is removed
}

// queue is a queue with its jobs. A job that leaves a state leaves its lists in the same
// step.
type queue struct {
	store  *Store
	name   string
	policy broker.Policy

	jobs   map[string]*job
	states [broker.StateWaiting + 1]list[*job] // in the order of job.rank, then of seq
	keyed  list[*job]                          // the jobs with a Key, by key, then in the order of their enqueue
	seq    int64                               // the highest position given so far; a job at the end gets the next higher one
	front  int64                               // the lowest position given so far, negative; a job at the front gets the next lower one
	most   int                                 // the highest number of jobs since the map was made

	lanes   *btree.BTreeG[named]           // by key
	keyless *lane                          // of the jobs without a key
	turns   [broker.Priorities]list[*lane] // of the lanes with pending jobs of a priority; see lane.go
	late    list[*lane]                    // lanes whose rate allows no start before a time
	looked  time.Time                      // when a claim last looked at late

	starts, retries broker.Bucket // for the policy's rates

	suppressed int64 // how many dead jobs are suppressed
	bytes      int64 // payload and headers of the jobs that count for MaxBytes (see weighs)
	totals     broker.Totals

	workers map[string]*worker // live and ended workers

	unique     map[string]hold // by unique key
	remembered map[string]past // IDs that callers gave, whose jobs are gone
	lapses     lapses          // what Prune removes at its time

	waiters []*waiter // claims that wait, the oldest first
	touched bool      // it is in Store.touched
}

func newQueue(s *Store, name string) *queue {
	q := &queue{store: s, name: name, jobs: make(map[string]*job), keyed: newList[*job](), workers: make(map[string]*worker),
		unique: make(map[string]hold), remembered: make(map[string]past), lapses: newLapses(), late: newList[*lane](),
		lanes:   btree.NewG(degree, func(a, b named) bool { return a.key < b.key }),
		keyless: &lane{rules: broker.Policy{Weight: 1}, until: never}}
	for s := range q.states {
		q.states[s] = newList[*job]()
	}
	for p := range q.turns {
		q.turns[p] = newList[*lane]()
	}
	return q
}

func (q *queue) len(s broker.State) int { return q.states[s].Len() }

// rank returns the number that orders the jobs of a state: pending jobs by lane and priority,
// other jobs by the time when they are due or when they ended.
func (j *job) rank() int64 {
	switch {
	case j.State == broker.StatePending:
		return j.lane.rank(j.Priority)
	case j.State.Final():
		return broker.Micros(j.FinishedAt)
	case timed(j.State):
		return broker.Micros(j.RunAt)
	}
	return 0
}

func (j *job) entry() entry    { return entry{at: j.at, seq: j.seq, of: j} }
func (j *job) keyEntry() entry { return entry{at: j.lane.no, seq: j.born, of: j} }

// add stores a new job.
func (q *queue) add(j *job, event broker.TransitionEvent, to broker.State, due time.Time) {
	q.jobs[j.ID] = j
	q.note(journal.Bodies, j.ID)
	q.most = max(q.most, len(q.jobs))
	j.lane = q.laneOf(j.Key)
	if q.move(j, event, to, due); event == broker.OnEnqueue {
		q.tally().Enqueued++
	}
	if j.born = j.seq; j.Key != "" {
		q.keyed.ReplaceOrInsert(j.keyEntry())
	}
}

// move moves a job to the end of another state's list. No other function changes the state of
// a stored job. due is when the job is due, zero in states without such a time.
func (q *queue) move(j *job, event broker.TransitionEvent, to broker.State, due time.Time) {
	q.check(j.State, event, to)
	q.note(journal.Jobs, j.ID)
	q.leave(j)
	q.seq++
	j.State, j.RunAt, j.seq = to, due, q.seq
	j.at = j.rank()
	q.states[to].ReplaceOrInsert(j.entry())
	q.count(j, 1)
	if event == broker.OnClaim {
		q.started(j)
	}
	q.settled(j)
}

// change makes a change to a stored job that is no transition.
func (q *queue) change(j *job, do func()) {
	q.note(journal.Bodies, j.ID)
	q.note(journal.Jobs, j.ID)
	q.count(j, -1)
	do()
	q.count(j, 1)
}

// settled updates the lane and the queue after a job changed its state. A head that no longer
// keeps its key back is not the head any more.
func (q *queue) settled(j *job) {
	if l := j.lane; l.head == j && q.passes(j) {
		l.head = nil
		q.noteLane(l)
	}
	q.place(j.lane)
	q.touch()
}

// check panics on a transition that the table of transitions does not have.
func (q *queue) check(from broker.State, event broker.TransitionEvent, to broker.State) {
	if !broker.Legal(from, event, to) {
		panic(fmt.Sprintf("membroker: %v may not lead from %v to %v", event, from, to))
	}
}

// leave removes a job from the list and the counts of its state. Change the job's Head only
// after leave, which uses Head.Suppressed to correct the count of suppressed jobs.
func (q *queue) leave(j *job) {
	q.count(j, -1)
	q.states[j.State].Delete(j.entry())
	switch j.State {
	case broker.StateActive: // the lease ends
		q.workers[j.Worker].Held--
		j.Worker = ""
	case broker.StateWaiting:
		j.Holder, j.HeldFrom = "", broker.StateNone
	case broker.StateCompleted, broker.StateCancelled:
		q.lapses.set(lapsedRecord, j.ID, j.lapse, 0)
	}
}

// toFront moves jobs that just became pending to the front, in their order (§16). It need not
// note their records, since move already did.
func (q *queue) toFront(jobs ...*job) {
	for _, j := range slices.Backward(jobs) {
		q.states[broker.StatePending].Delete(j.entry())
		q.front--
		j.seq = q.front
		q.states[broker.StatePending].ReplaceOrInsert(j.entry())
	}
}

// finish moves a job, whose head already says that it ended, to a final state. It drops the
// job if its record is not kept (§11).
func (q *queue) finish(j *job, event broker.TransitionEvent, to broker.State, now time.Time) {
	q.freeKey(j)
	keep := q.retention(j)
	if to != broker.StateDead && keep == 0 {
		q.check(j.State, event, to)
		q.drop(j, now, stays)
		return
	}
	if q.move(j, event, to, time.Time{}); to != broker.StateDead {
		q.lapseAt(j, later(now, keep))
	}
}

// retention returns how long the record of a completed or cancelled job is kept.
func (q *queue) retention(j *job) time.Duration {
	if j.Retention > 0 {
		return j.Retention
	}
	return q.policy.RetainCompleted.Age
}

func (q *queue) lapseAt(j *job, at time.Time) {
	j.lapse = broker.Micros(at)
	q.lapses.set(lapsedRecord, j.ID, 0, j.lapse)
}

// drop removes a job, and remembers its ID if a caller gave it. moved is the epoch at which
// the job was moved to another store, or stays.
func (q *queue) drop(j *job, now time.Time, moved int64) {
	q.freeKey(j)
	q.note(journal.Bodies, j.ID)
	q.note(journal.Jobs, j.ID)
	q.leave(j)
	j.State = broker.StateNone
	q.settled(j)
	q.keyed.Delete(j.keyEntry())
	q.forget(j.lane)
	if delete(q.jobs, j.ID); len(q.jobs) == 0 && q.most > 1000 { // after a burst of jobs: a map does not shrink by itself
		q.jobs, q.most = make(map[string]*job), 0
	}
	if j.GivenID {
		q.remember(j.ID, now, past{moved: moved})
	}
}

// newJob copies what a caller enqueues, and rounds its times as the store keeps them (§2).
func newJob(n *broker.NewJob) *job {
	j := &job{Job: broker.Job{Queue: n.Queue, ID: n.ID, Body: n.Body}}
	j.Payload, j.Headers = bytes.Clone(n.Body.Payload), maps.Clone(n.Body.Headers)
	j.Timeout, j.Retention, j.Unique.TTL = upTo(j.Timeout), upTo(j.Retention), upTo(j.Unique.TTL)
	j.DueAfter = upTo(j.DueAfter)
	j.Backoff.Base, j.Backoff.Max = upTo(j.Backoff.Base), upTo(j.Backoff.Max)
	j.Deadline = up(j.Deadline)
	return j
}

// ownHead copies a head that a caller gave.
func ownHead(h broker.Head) broker.Head {
	h.Result, h.Kept = bytes.Clone(h.Result), h.Kept.Clone()
	h.Errors.Entries = slices.Clone(h.Errors.Entries)
	for i := range h.Errors.Entries {
		h.Errors.Entries[i].At = up(h.Errors.Entries[i].At)
	}
	return h
}

// detach replaces the data that jobs share with the store by copies for the caller.
func detach(jobs []broker.Job) {
	for i := range jobs {
		j := &jobs[i]
		j.Payload, j.Headers, j.Result, j.Kept = bytes.Clone(j.Payload), maps.Clone(j.Headers), bytes.Clone(j.Result), j.Kept.Clone()
		j.Errors.Entries = slices.Clone(j.Errors.Entries)
	}
}

// size returns the bytes that count for Bytes and MaxBytes: payload and headers (§13).
func (j *job) size() int {
	size := len(j.Payload)
	for k, v := range j.Headers {
		size += len(k) + len(v)
	}
	return size
}

// Times are stored in whole microseconds, rounded up, so that nothing happens early (§15).

func up(t time.Time) time.Time { return broker.FromMicros(broker.Micros(t)) }

func upTo(d time.Duration) time.Duration {
	return time.Duration(broker.DurationMicros(d)) * time.Microsecond
}

// later returns the stored time that is d after t.
func later(t time.Time, d time.Duration) time.Time { return up(t).Add(upTo(d)) }

// reached reports whether a stored time has come. What is valid until that time has lapsed.
func reached(now, at time.Time) bool { return !now.Before(at) }

// earlier returns the earlier of two times; zero stands for none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
