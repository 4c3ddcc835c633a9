package membroker

import (
	"math"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/journal"
)

// hold is a unique key's holder (§19).
type hold struct {
	id    string
	mode  broker.UniqueMode
	until time.Time // when the key becomes free; zero: when the job frees it
	next  string    // the job that waits behind the holder, or did (§41)
}

// holderOf returns which job holds a unique key.
func (q *queue) holderOf(key string, now time.Time) (id string, held bool) {
	h, ok := q.unique[key]
	return h.id, ok && (h.until.IsZero() || now.Before(h.until))
}

// takeKey gives a job its unique key, which no other job holds.
func (q *queue) takeKey(j *job, now time.Time) {
	h := hold{id: j.ID, mode: j.Unique.Mode}
	if j.Unique.TTL > 0 {
		h.until = later(now, j.Unique.TTL)
	}
	q.setHold(j.Unique.Key, h)
}

// setHold sets the holder of a unique key. The zero hold frees the key.
func (q *queue) setHold(key string, h hold) {
	q.note(journal.Unique, key)
	q.lapses.set(lapsedWindow, key, q.unique[key].lapse(), h.lapse())
	if q.unique[key] = h; h == (hold{}) {
		delete(q.unique, key)
	}
}

// lapse returns when a window ends, which may outlive its job; other holders free their key.
func (h hold) lapse() int64 {
	if h.mode == broker.UniqueWindow {
		return broker.Micros(h.until)
	}
	return 0
}

// freeKey frees the unique key of a job that ends or, if the mode says so, starts. A window
// stays until its time is over. A job that waits behind gets the key (§41).
func (q *queue) freeKey(j *job) {
	u := j.Unique
	if u.Key != "" && u.Mode != broker.UniqueWindow && q.unique[u.Key].id == j.ID {
		q.dropKey(u.Key)
	}
}

// past is what is remembered of an ID whose job is gone, or was never stored.
type past struct {
	until time.Time
	moved int64  // the epoch at which the job was moved to another store, or stays
	into  string // the job that it replaced (§39)
}

// stays is the past.moved of a job that was not moved: no epoch is higher, so a restore is
// refused as well.
const stays int64 = math.MaxInt64

// remember makes the queue refuse an ID for its duplicate span from now on (§1).
func (q *queue) remember(id string, now time.Time, p past) {
	span := q.policy.DuplicateSpan
	if span == 0 {
		span = broker.DefaultDuplicateSpan
	}
	p.until = later(now, span)
	q.note(journal.Remembered, id)
	q.lapses.set(lapsedID, id, broker.Micros(q.remembered[id].until), broker.Micros(p.until))
	q.remembered[id] = p
}

// exists reports whether an ID is refused. A job that was moved to another store may come back
// with a higher epoch (§29).
func (q *queue) exists(n *broker.NewJob, now time.Time) bool {
	if q.jobs[n.ID] != nil {
		return true
	}
	p, ok := q.remembered[n.ID]
	return ok && now.Before(p.until) && (n.Restore == nil || n.Restore.Head.Epoch <= p.moved)
}

// meet replaces the content of the job that holds a new job's unique key, or of the job behind
// that holder (§39, §40). It reports false if the new job must be stored behind the holder.
func (q *queue) meet(j *job, n *broker.NewJob, holder string, r *broker.Receipt, now time.Time) (met bool, err error) {
	h := q.unique[j.Unique.Key]
	to := q.jobs[holder]
	if to != nil && to.Unique.Key != j.Unique.Key {
		to = nil // a later job with the ID of the holder, which is gone
	}
	if next := q.behind(h); next != nil {
		to = next
	} else if to != nil && to.State == broker.StateActive && h.mode == broker.UniqueUntilDone && j.Unique.Mode == broker.UniqueUntilDone &&
		j.Unique.Conflict != broker.ConflictReplace {
		return false, nil
	}
	if r.Holder = holder; to == nil || !replaceable(to) {
		return true, broker.Duplicate(j.ID, holder)
	}
	if r.Holder = to.ID; to.Type != j.Type {
		return true, broker.Duplicate(j.ID, to.ID)
	}
	q.change(to, func() { to.CopyContent(&j.Body) })
	if j.Unique.Conflict == broker.ConflictDebounce {
		q.postpone(to, earlier(dueAt(n.Delay, n.RunAt, now), later(to.CreatedAt, j.Unique.Latest)), now)
	}
	q.remember(j.ID, now, past{moved: stays, into: to.ID})
	r.ID, r.State, r.RunAt, r.Replaced = to.ID, to.State, to.RunAt, true
	return true, nil
}

// replaceable reports whether a job has not started, or waits behind another one.
func replaceable(j *job) bool {
	_, behind := broker.IsBehind(j.Holder)
	return behind || j.State != broker.StateDead && j.State.Editable()
}

// postpone gives a debounced job its new time (§40).
func (q *queue) postpone(j *job, due, now time.Time) {
	switch {
	case j.State == broker.StateRetry:
	case j.State == broker.StateWaiting:
		j.HeldFrom, j.RunAt = broker.StatePending, time.Time{}
		if due.After(now) {
			j.HeldFrom, j.RunAt = broker.StateScheduled, due
		}
	case due.After(now) || j.State == broker.StateScheduled && j.RunAt.After(now):
		q.reschedule(j, due, now)
	}
}

// follow stores a new job behind an active one (§41).
func (q *queue) follow(j *job, holder string, due, now time.Time) {
	from, at := broker.StatePending, time.Time{}
	if due.After(now) {
		from, at = broker.StateScheduled, due
	}
	q.add(j, broker.OnEnqueue, broker.StateWaiting, at)
	j.Holder, j.HeldFrom = broker.Behind(holder), from
	h := q.unique[j.Unique.Key]
	h.until, h.next = time.Time{}, j.ID
	q.setHold(j.Unique.Key, h)
}

// behind returns the job that waits behind the holder of a key, or nil.
func (q *queue) behind(h hold) *job {
	if j := q.jobs[h.next]; j != nil && j.Holder == broker.Behind(h.id) {
		return j
	}
	return nil
}

// dropKey takes a key from its holder. It gives the key to the job behind the holder, if any,
// which becomes pending or scheduled (§41).
func (q *queue) dropKey(key string) {
	h := q.unique[key]
	q.setHold(key, hold{})
	if j := q.behind(h); j != nil {
		q.setHold(key, hold{id: j.ID, mode: h.mode})
		j.Head = j.Moved()
		q.move(j, broker.OnArrival, j.HeldFrom, j.RunAt)
	}
}
