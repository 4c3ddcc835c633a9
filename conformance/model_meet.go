package conformance

import (
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// meeting is what happens to a new job whose unique key is held.
type meeting struct {
	want   error // the refusal
	holder string
	into   *modelJob // the job that it replaces
	repeat bool      // the job has replaced that one before
	before string    // the job behind which it is stored
}

// meet decides what happens to a job whose key is held. It reports whether the job
// is stored.
func (q *modelQueue) meet(n *broker.NewJob, met *meeting) (stored bool) {
	u := n.Body.Unique
	k := q.keys[u.Key]
	holder := q.jobs[k.holder]
	if holder != nil && holder.Unique.Key != u.Key {
		holder = nil // a later job with its ID
	}
	switch to := q.behind(k.holder); {
	case to != nil:
		met.into, met.holder = to, to.ID
	case holder != nil && holder.State == broker.StateActive && k.mode == untilDone && u.Mode == untilDone &&
		u.Conflict != broker.ConflictReplace:
		met.before = k.holder
		return true
	case holder == nil || holder.State == broker.StateDead || !holder.State.Editable():
		met.want, met.holder = broker.ErrDuplicate, k.holder
	default:
		met.into, met.holder = holder, holder.ID
	}
	return false
}

// behind returns the job behind another one, or nil.
func (q *modelQueue) behind(id string) *modelJob {
	for _, j := range q.jobs {
		if j.State == broker.StateWaiting && j.Holder == broker.Behind(id) {
			return j
		}
	}
	return nil
}

// replace gives j the content of n, and with ConflictDebounce its time. If j is due
// and some call has seen that, the receipt says pending.
func (m *model) replace(q *modelQueue, n *broker.NewJob, j *modelJob, r *broker.Receipt) error {
	j.CopyContent(&n.Body)
	q.remembered[n.ID] = modelPast{surely: m.now.Add(q.span()), perhaps: m.now.Add(q.span()), left: stays, into: j.ID}
	due := j.waits() && j.ready(m.now)
	if n.Body.Unique.Conflict == broker.ConflictDebounce {
		at := m.now
		if n.Delay > 0 {
			at = m.now.Add(n.Delay)
		} else if !n.RunAt.IsZero() {
			at = n.RunAt
		}
		if latest := j.CreatedAt.Add(n.Body.Unique.Latest); latest.Before(at) {
			at = latest
		}
		switch later := at.After(m.now); {
		case j.State == broker.StateWaiting:
			if j.HeldFrom, j.RunAt = broker.StatePending, (time.Time{}); later {
				j.HeldFrom, j.RunAt = broker.StateScheduled, at
			}
		case j.State == broker.StateRetry && !(due && r.State != broker.StateRetry):
		case later:
			j.Head = j.Head.Moved()
			m.wait(j, broker.StateScheduled, at)
		case j.State == broker.StateScheduled && !due:
			j.Head = j.Head.Moved()
			m.pending(j, false)
		}
	}
	state, at := j.State, j.RunAt
	if j.waits() && j.ready(m.now) && r.State == broker.StatePending {
		state, at = broker.StatePending, time.Time{}
	}
	if r.State != state || !r.RunAt.Equal(at) {
		return fmt.Errorf("enqueue of %s into %s: %v due %v, want %v due %v", n.ID, j.ID, r.State, r.RunAt, state, at)
	}
	return nil
}

// park puts a new job, which is pending or scheduled, behind an active one.
func (m *model) park(q *modelQueue, j *modelJob, before string) {
	j.HeldFrom, j.State, j.Holder = j.State, broker.StateWaiting, broker.Behind(before)
	k := q.keys[j.Unique.Key]
	k.end = time.Time{}
	q.keys[j.Unique.Key] = k
}

// follow puts a job that was behind another one into the queue.
func (m *model) follow(j *modelJob) {
	from, at := j.HeldFrom, j.RunAt
	j.Head, j.Holder, j.HeldFrom = j.Head.Moved(), "", broker.StateNone
	if m.pending(j, false); from == broker.StateScheduled {
		m.wait(j, from, at)
	}
	m.followed = append(m.followed, j)
}

// inOneCall runs f, which applies the answer to a call. If a job ended in the call, the job behind it
// has no order among the other jobs that the call made pending.
func (m *model) inOneCall(f func() error) error {
	begun := m.count + 1
	m.followed = nil
	err := f()
	for _, j := range m.followed {
		if j.State == broker.StatePending {
			j.first, j.last = begun, m.count+1
		}
	}
	return err
}

// conflict gives a unique job a conflict mode other than refusal.
func (s *sequence) conflict(j *broker.NewJob) {
	u := &j.Body.Unique
	if u.Key == "" || s.limits.NoMove || s.chance(40) {
		return
	}
	u.Conflict = broker.UniqueConflict(1 + s.r.IntN(3))
	if u.Conflict != broker.ConflictReplace && u.Mode == window || u.Conflict == broker.ConflictKeepLast {
		u.Mode = untilDone
	}
	if u.Conflict == broker.ConflictDebounce {
		u.Latest = j.Delay + time.Duration(1+s.r.IntN(60))*time.Second
	}
	j.Body.Headers = map[string]string{"of": j.ID}
}
