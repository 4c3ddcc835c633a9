package membroker

import (
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// worker is a worker's standing in one queue (§6).
type worker struct {
	id      string
	info    broker.WorkerInfo
	until   int64 // when its leases run out; once it ended, when that is forgotten
	ended   bool
	held    bag
	cancels int // held jobs that were asked to cancel

	number   int64          // of its last settle here (§10)
	verdicts []broker.State // of that settle's items: where they went, none where the lease was lost
}

// remembersEnded is for how long the ID of a worker that ended is refused:
// longer than any call of that worker can be under way.
const remembersEnded = 24 * time.Hour

// lease gives a job to a worker. The job is in no other's hands.
func (w *worker) lease(j *job) {
	j.holder = w
	w.held.add(j)
	if j.cancelRequested {
		w.cancels++
	}
}

// release takes a job out of its holder's hands.
func (w *worker) release(q *queue, j *job) {
	j.holder = nil
	w.held.remove(j)
	if j.cancelRequested {
		w.cancels--
	}
	if w.ended && w.held.len() == 0 {
		q.orphans = slices.DeleteFunc(q.orphans, func(o *worker) bool { return o == w })
	}
}

// endWorker makes a worker's ID dead. What it still holds stays its own until
// it is settled or reclaimed (§8, §10).
func (q *queue) endWorker(w *worker, now instant) {
	delete(q.workers, w.id)
	q.ended[w.id] = w
	*w = worker{id: w.id, ended: true, until: now.plus(remembersEnded), held: w.held, cancels: w.cancels}
	q.seq++
	q.lapses.add(w.until, q.seq, w)
	if w.held.len() > 0 {
		q.orphans = append(q.orphans, w)
	}
	for _, waiting := range slices.Clone(q.waiters) {
		if waiting.worker == w.id {
			waiting.signal()
		}
	}
}

// holderOf is the worker with an ID, whether it exists or ended; or nil.
func (q *queue) holderOf(id string) *worker {
	if w := q.workers[id]; w != nil {
		return w
	}
	return q.ended[id]
}

func gone(op, queue string) error { return broker.About(broker.ErrWorkerGone, op, queue, "") }
