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
	u := j.Unique
	q.note(journal.Unique, u.Key)
	h := hold{id: j.ID, mode: u.Mode}
	if u.TTL > 0 {
		h.until = later(now, u.TTL)
	}
	if q.unique[u.Key] = h; u.Mode == broker.UniqueWindow { // a window may outlive the job
		q.lapses.at(h.until, lapsedWindow, u.Key)
	}
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
func (q *queue) remember(id string, now time.Time, moved int64) {
	q.rememberInto(id, now, past{moved: moved})
}

func (q *queue) rememberInto(id string, now time.Time, p past) {
	span := q.policy.DuplicateSpan
	if span == 0 {
		span = broker.DefaultDuplicateSpan
	}
	p.until = later(now, span)
	q.remembered[id] = p
	q.note(journal.Remembered, id)
	q.lapses.at(p.until, lapsedID, id)
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
