package conformance

import (
	"fmt"
	"math"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// model is the contract as a store in plain maps. Each of its methods takes a
// request and the answer of the store under test, returns what is wrong with the
// answer, and changes the model as the store must have changed. Where the contract
// leaves a choice, the model follows the answer.
type model struct {
	now    time.Time
	queues map[string]*modelQueue
	marks  map[string]*broker.Marked
	turns  bool  // one handle makes all claims, so that the turns of keys can be checked
	count  int64 // the current moment: an even number when a job became pending, an odd one between two of these

	followed []*modelJob // jobs that this call freed because the one before them ended
}

type modelQueue struct {
	name       string
	jobs       map[string]*modelJob
	keys       map[string]modelKey
	remembered map[string]modelPast
	workers    map[string]*modelWorker
	policy     broker.Policy
	flow       modelFlow
	totals     modelTotals
}

type modelKey struct {
	holder string
	mode   broker.UniqueMode
	end    time.Time // zero if the key ends with the job
}

// modelPast is a remembered ID. It is certainly refused until surely, and may be refused until perhaps.
// A job that comes back with a later epoch than left is not refused.
type modelPast struct {
	surely, perhaps time.Time
	left            int64  // the epoch at which the job was moved to another store, or stays
	into            string // the job that this one replaced, if any
}

type modelWorker struct {
	until    time.Time
	ended    bool
	number   int64
	verdicts []broker.Verdict // the answer to the settle with that number
}

// modelJob is a job with its position in the order of its priority. The moment at
// which it became pending lies between first and last: they are equal if it is
// known exactly. For a job that fell due, first is the first call that could see
// it, and last the first claim that must have seen it.
type modelJob struct {
	broker.Job
	front       bool
	loose       bool // it became pending while it was its key's head; its position can be any
	first, last int64
	ends        time.Time // of the record of a completed or cancelled job
	unsure      bool      // held when it was due, so HeldFrom may be pending
}

const unseen = math.MaxInt64

func (m *model) queue(name string) *modelQueue {
	q := m.queues[name]
	if q == nil {
		q = &modelQueue{name: name, jobs: map[string]*modelJob{}, keys: map[string]modelKey{},
			remembered: map[string]modelPast{}, workers: map[string]*modelWorker{}, flow: newModelFlow()}
		m.queues[name] = q
	}
	return q
}

// pass advances time, and finds the jobs that fall due.
func (m *model) pass(d time.Duration) {
	m.now = m.now.Add(d)
	for _, q := range m.queues {
		for _, j := range q.jobs {
			if j.waits() && !j.RunAt.After(m.now) && j.first == unseen {
				j.first = m.count + 1
			}
		}
	}
}

func (j *modelJob) waits() bool {
	return j.State == broker.StateScheduled || j.State == broker.StateRetry
}

// ready reports whether a claim can give the job.
func (j *modelJob) ready(now time.Time) bool {
	return j.State == broker.StatePending || j.waits() && !j.RunAt.After(now)
}

// before reports whether j must be claimed before o.
func (j *modelJob) before(o *modelJob) bool {
	switch {
	case j.Priority != o.Priority:
		return j.Priority < o.Priority
	case j.Key != o.Key || j.loose || o.loose:
		return false // keys take turns
	case j.front || o.front:
		return j.front && !o.front // the front has no order of its own
	case j.waits() && o.waits():
		return j.RunAt.Before(o.RunAt) && j.first <= o.first // otherwise a call may have seen o before j was there
	}
	return j.last < o.first
}

// place describes a job's position in its queue, for a failure.
func (j *modelJob) place() string {
	s := fmt.Sprintf("%s: %v, priority %d, front %t", j.ID, j.State, j.Priority, j.front)
	if j.waits() {
		s += ", due " + show(j.RunAt).String()
	}
	return s + fmt.Sprintf(", pending since moment %d to %d", j.first, j.last)
}

// pending puts the job at the back or the front of its queue.
func (m *model) pending(j *modelJob, front bool) {
	m.count += 2
	j.State, j.RunAt, j.front, j.first, j.last = broker.StatePending, time.Time{}, front, m.count, m.count
}

// wait makes the job due at at.
func (m *model) wait(j *modelJob, state broker.State, at time.Time) {
	j.State, j.RunAt, j.front, j.first, j.last = state, at, false, unseen, unseen
	if !at.After(m.now) { // it is due already
		j.first = m.count + 1
	}
}

// end puts a job into a final state, with all consequences.
func (m *model) end(q *modelQueue, j *modelJob, state broker.State) {
	j.State, j.RunAt, j.Worker, j.Holder, j.HeldFrom, j.CancelRequested = state, time.Time{}, "", "", broker.StateNone, false
	q.let(j)
	if j.Unique.Mode != window {
		m.freeKey(q, j)
	}
	if state == broker.StateDead {
		return
	}
	if j.ends = m.now.Add(q.keeps(j)); !j.ends.After(m.now) {
		m.forget(q, j, m.now, stays)
	}
}

// keeps returns the retention of a completed or cancelled job.
func (q *modelQueue) keeps(j *modelJob) time.Duration {
	if j.Retention > 0 {
		return j.Retention
	}
	return q.policy.RetainCompleted.Age
}

const stays = math.MaxInt64

// forget removes a record that the store removed between since and now. left is the epoch at which the
// job was moved to another store, or the constant stays if it was not.
func (m *model) forget(q *modelQueue, j *modelJob, since time.Time, left int64) {
	if j.Unique.Mode != window {
		m.freeKey(q, j)
	}
	delete(q.jobs, j.ID)
	if q.flow.heads[j.Key] == j {
		delete(q.flow.heads, j.Key)
	}
	if j.GivenID {
		span := q.span()
		q.remembered[j.ID] = modelPast{surely: since.Add(span), perhaps: m.now.Add(span), left: left}
	}
}

// span returns how long IDs are remembered.
func (q *modelQueue) span() time.Duration {
	if span := q.policy.DuplicateSpan; span > 0 {
		return span
	}
	return broker.DefaultDuplicateSpan
}

// freeKey frees a job's unique key, or gives it to the job behind.
func (m *model) freeKey(q *modelQueue, j *modelJob) {
	k := q.keys[j.Unique.Key]
	if k.holder != j.ID {
		return
	}
	delete(q.keys, j.Unique.Key)
	if next := q.behind(j.ID); next != nil {
		q.keys[j.Unique.Key] = modelKey{holder: next.ID, mode: k.mode}
		m.follow(next)
	}
}

// holder returns the ID of the job that holds a unique key, or "".
func (q *modelQueue) holder(key string, now time.Time) string {
	k := q.keys[key]
	if !k.end.IsZero() && !now.Before(k.end) {
		return ""
	}
	return k.holder
}

func (m *model) hold(q *modelQueue, j *modelJob) {
	k := modelKey{holder: j.ID, mode: j.Unique.Mode}
	if j.Unique.TTL > 0 {
		k.end = m.now.Add(j.Unique.TTL)
	}
	q.keys[j.Unique.Key] = k
}

// depth returns the least and the greatest number of jobs that can count towards MaxDepth.
func (q *modelQueue) depth(now time.Time) (least, most int64) {
	for _, j := range q.jobs {
		switch {
		case j.State == broker.StatePending || j.State == broker.StateScheduled || j.State == broker.StateWaiting:
			least++
			most++
		case j.State == broker.StateRetry && j.ready(now):
			most++ // counts once some call has seen that it is due
		}
	}
	return least, most
}

func (m *model) enqueue(jobs []broker.NewJob, receipts []broker.Receipt) error {
	for i, n := range jobs {
		q, r := m.queue(n.Queue), receipts[i]
		least, most := q.depth(m.now)
		room, key := takes(&n)
		full := q.policy.MaxDepth > 0 && most >= q.policy.MaxDepth && room
		var want error
		holder, unsure, met := "", false, meeting{}
		known := q.remembered[n.ID]
		if n.Restore != nil && n.Restore.Head.Epoch > known.left {
			known = modelPast{} // the job comes back from another store
		}
		keyMost := q.policy.OfKey(q.flow.own[n.Body.Key]).MaxDepth
		switch other := q.jobs[n.ID]; {
		case q.policy.Ordered != broker.OrderNone && n.Restore == nil && (n.Body.Key == "" || n.Body.Priority != broker.PriorityNormal):
			want = broker.ErrInvalid
		case n.Restore != nil && other != nil && other.State == broker.StateWaiting:
			want, holder = broker.ErrWrongState, other.Holder
		case other == nil && m.now.Before(known.surely) && known.into != "" && n.Meets():
			met.into, met.repeat = &modelJob{Job: broker.Job{ID: known.into}}, true
			holder = known.into
		case other != nil || m.now.Before(known.surely):
			want, holder = broker.ErrDuplicate, n.ID
		case m.now.Before(known.perhaps):
			unsure = true
		case n.Meets() && q.holder(n.Body.Unique.Key, m.now) != "" && !q.meet(&n, &met):
			want, holder = met.want, met.holder
		case full && least >= q.policy.MaxDepth:
			want = broker.ErrQueueFull
		case full:
			unsure = true
		case room && keyMost > 0 && q.keyDepth(n.Body.Key) >= keyMost:
			want = broker.ErrQueueFull
		case key && met.before == "" && q.holder(n.Body.Unique.Key, m.now) != "":
			want, holder = broker.ErrDuplicate, q.holder(n.Body.Unique.Key, m.now)
		}
		if unsure && r.Err != nil {
			continue
		}
		if want == nil && met.before != "" {
			holder = met.before
		}
		if err := answer(n.ID, r.Err, want); err != nil {
			return err
		}
		if r.Holder != holder {
			return fmt.Errorf("enqueue of %s: holder %q, want %q", n.ID, r.Holder, holder)
		}
		if into := met.into; want == nil && (r.Replaced != (into != nil) || into != nil && r.ID != into.ID) {
			return fmt.Errorf("enqueue of %s: replaced %t, ID %s, want %+v", n.ID, r.Replaced, r.ID, met)
		}
		if want != nil || met.repeat {
			continue
		}
		if met.into != nil {
			if err := m.replace(q, &n, met.into, &r); err != nil {
				return err
			}
			continue
		}
		j := &modelJob{Job: broker.Job{Queue: n.Queue, ID: n.ID, Body: n.Body, CreatedAt: m.now}}
		at := n.RunAt
		if n.Delay > 0 {
			at = m.now.Add(n.Delay)
		}
		if m.pending(j, false); at.After(m.now) {
			m.wait(j, broker.StateScheduled, at)
		}
		if q.jobs[n.ID] = j; n.Restore == nil {
			q.totals.Enqueued++
		}
		if met.before != "" {
			m.park(q, j, met.before)
		}
		if n.Restore != nil {
			m.restore(q, j, n.Restore, at)
		}
		if r.State != j.State || !r.RunAt.Equal(j.RunAt) {
			return fmt.Errorf("enqueue of %s: %v due %v, want %v due %v", n.ID, r.State, r.RunAt, j.State, j.RunAt)
		}
		if key && met.before == "" {
			m.hold(q, j)
		}
	}
	return nil
}

// answer compares an error with the one that the contract requires.
func answer(id string, got, want error) error {
	if (want == nil) != (got == nil) || !isError(got, want) {
		return fmt.Errorf("%s: error %v, want %v", id, got, want)
	}
	return nil
}
