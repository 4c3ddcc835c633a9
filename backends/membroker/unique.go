package membroker

import (
	"math"

	"github.com/seed81422ce9/jobs/broker"
)

// hold is a unique key's holder (§21).
type hold struct {
	id    string
	mode  broker.UniqueMode
	until int64 // never: as long as the job has it
}

// heldBy says which job holds a unique key.
func (q *queue) heldBy(key string, now instant) (id string, held bool) {
	h, ok := q.unique[key]
	return h.id, ok && !now.reached(h.until)
}

// takeKey gives a job its unique key, which nobody else holds.
func (q *queue) takeKey(j *job, now instant) {
	u := j.Unique
	if u.Key == "" {
		return
	}
	h := hold{id: j.id, mode: u.Mode, until: never}
	if u.TTL > 0 {
		h.until = now.plus(u.TTL)
	}
	q.unique[u.Key] = h
	if u.Mode == broker.UniqueWindow { // which outlives the job
		q.seq++
		q.lapses.add(h.until, q.seq, window(u.Key))
	}
}

// freeKey frees the key of a job that ends or, by its mode, starts. A window
// lasts for its time.
func (q *queue) freeKey(j *job) {
	u := j.Unique
	if u.Key != "" && u.Mode != broker.UniqueWindow && q.unique[u.Key].id == j.id {
		delete(q.unique, u.Key)
	}
}

// past is what is remembered of an ID whose job is gone.
type past struct {
	until int64
	moved int64 // the epoch at which it left for elsewhere, or stays
}

const stays int64 = math.MaxInt64

// remember refuses an ID for the queue's duplicate span from now on (§1).
func (q *queue) remember(id string, now instant, moved int64) {
	span := q.policy.DuplicateSpan
	if span == 0 {
		span = broker.DefaultDuplicateSpan
	}
	until := now.plus(span)
	q.remembered[id] = past{until: until, moved: moved}
	q.seq++
	q.lapses.add(until, q.seq, givenID(id))
}

// exists reports whether an ID is refused: to a job that left, in its own time,
// it is not.
func (q *queue) exists(j *job, n *broker.NewJob, now instant) bool {
	if q.jobs.find(j.id, j.hash) != nil {
		return true
	}
	p, ok := q.remembered[j.id]
	return ok && !now.reached(p.until) && (n.Restore == nil || n.Restore.Head.Epoch <= p.moved)
}
