package membroker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/journal"
)

// worker is what one queue knows of a worker (§6): its description, until when its leases
// hold, and how many there are.
type worker struct {
	broker.WorkerInfo
	ended  bool  // its ID is ended
	forget int64 // when an ended ID is forgotten

	number   int64  // of its last settle here (§10)
	verdicts []byte // the new states of that settle's items; StateNone if the lease was lost
}

// worker returns the worker with an ID, alive or ended, or nil.
func (q *queue) worker(id string) *worker {
	if q == nil {
		return nil
	}
	return q.workers[id]
}

func gone(op, queue string) error { return broker.About(broker.ErrWorkerGone, op, queue, "") }

// give gives a worker the lease of a job, which is active and has no lease.
func (q *queue) give(j *job, w *worker) {
	j.Worker = w.ID
	w.Held++
}

// leased returns the active jobs in the order of their leases. These are only the jobs that the
// servers of this process run.
func (q *queue) leased() (jobs []*job) {
	for e := range q.states[broker.StateActive].from(start) {
		jobs = append(jobs, e.of)
	}
	return jobs
}

// endWorker ends a worker's ID. Its leases hold until they are settled or reclaimed (§8,
// §10).
func (q *queue) endWorker(w *worker, now time.Time) {
	q.note(journal.Workers, w.ID)
	*w = worker{WorkerInfo: broker.WorkerInfo{ID: w.ID, Held: w.Held}, ended: true}
	q.forgetWorker(w, now)
	q.workers[w.ID] = w
	for _, waiting := range slices.Clone(q.waiters) {
		if waiting.worker == w.ID {
			waiting.wake()
		}
	}
}

// forgetWorker sets when an ended ID is forgotten.
func (q *queue) forgetWorker(w *worker, now time.Time) {
	w.forget = broker.Micros(later(now, broker.EndedWorkerSpan))
	q.lapses.set(lapsedWorker, w.ID, 0, w.forget)
}

// Renew registers a worker or extends its leases in all the named queues. If one of them has
// ended the worker, it does so in none of them. §6, §7, §8.
func (b *Broker) Renew(ctx context.Context, req broker.RenewRequest) (broker.Renewed, error) {
	now, err := b.begin(ctx, "renew", req.Now, req.Check())
	if err != nil {
		return broker.Renewed{}, err
	}
	defer b.end()
	got := broker.Renewed{Now: now, Held: make(map[string]int, len(req.Queues))}
	for _, name := range req.Queues {
		w := b.store.queues[name].worker(req.Worker)
		if got.Held[name] = 0; w != nil {
			got.Held[name] = w.Held
		}
		got.Lost = got.Lost || w == nil && !req.Register || w != nil && w.ended
	}
	if got.Lost {
		return got, nil
	}
	for name := range got.Held {
		b.store.queue(name).renew(&req, &got, now)
	}
	return got, nil
}

func (q *queue) renew(req *broker.RenewRequest, got *broker.Renewed, now time.Time) {
	w := q.workers[req.Worker]
	q.note(journal.Workers, req.Worker)
	if w == nil {
		w = &worker{WorkerInfo: broker.WorkerInfo{ID: req.Worker}}
		q.workers[req.Worker] = w
	}
	if req.Register || req.Describe {
		held := w.Held
		w.WorkerInfo = ownInfo(req.Info)
		w.ID, w.Held, w.StartedAt = req.Worker, held, up(w.StartedAt)
		for i := range w.Longest {
			w.Longest[i].Since = up(w.Longest[i].Since)
		}
	}
	w.Until = later(now, req.Lease)
	for _, other := range q.workers {
		if !other.ended {
			got.NextLapse = earlier(got.NextLapse, other.Until)
		} else if other.Held > 0 {
			got.NextLapse = earlier(got.NextLapse, now)
		}
	}
	for _, j := range q.leased() {
		if j.Worker == w.ID && j.CancelRequested {
			got.Cancel = append(got.Cancel, j.Ref())
		}
	}
}

func ownInfo(i broker.WorkerInfo) broker.WorkerInfo {
	i.Queues, i.Types, i.Longest = slices.Clone(i.Queues), slices.Clone(i.Types), slices.Clone(i.Longest)
	return i
}

// Reclaim ends the workers whose leases ran out, and leases their jobs to the calling
// worker, up to Max jobs per call. §8.
func (b *Broker) Reclaim(ctx context.Context, req broker.ReclaimRequest) (broker.Claimed, error) {
	now, err := b.begin(ctx, "reclaim", req.Now, req.Check())
	if err != nil {
		return broker.Claimed{}, err
	}
	got := broker.Claimed{Now: now}
	var errs []error
	room := req.ByteLimit()
	for _, name := range req.Queues {
		q := b.store.queues[name]
		w := q.worker(req.Worker)
		if w == nil || !w.Alive(now) { // an ended worker is not alive: it has no Until
			errs = append(errs, gone("reclaim", name))
			continue
		}
		for _, other := range q.workers {
			if !other.ended && !other.Alive(now) {
				q.endWorker(other, now)
			}
		}
		for _, j := range q.leased() {
			if !q.workers[j.Worker].ended {
				continue
			}
			if len(got.Jobs) >= req.Max || room <= 0 { // §13
				got.More = true
				break
			}
			q.move(j, broker.OnReclaim, broker.StateActive, time.Time{})
			j.Head = j.Moved() // the new epoch makes the old lease invalid (§3)
			q.give(j, w)
			room -= j.size()
			got.Jobs = append(got.Jobs, j.Job)
		}
		got.NextDue = earlier(got.NextDue, q.nextDue())
	}
	b.end()
	detach(got.Jobs)
	return got, errors.Join(errs...)
}

// Retire releases a worker's jobs to the front of their queues, in the order in which they
// were claimed, and ends the worker's ID. It also ends an ID that never registered, since its
// registration may still be under way. §12.
func (b *Broker) Retire(ctx context.Context, req broker.RetireRequest) (broker.Retired, error) {
	now, err := b.begin(ctx, "retire", req.Now, req.Check())
	if err != nil {
		return broker.Retired{}, err
	}
	defer b.end()
	var got broker.Retired
	for _, name := range req.Queues {
		if q := b.store.queues[name]; q != nil {
			got.Released = append(got.Released, q.retire(req.Worker, now)...)
		}
	}
	return got, nil
}

func (q *queue) retire(id string, now time.Time) (refs []broker.Ref) {
	var released []*job
	w := q.worker(id)
	if w == nil {
		w = &worker{WorkerInfo: broker.WorkerInfo{ID: id}}
	}
	release := &broker.Settlement{Outcome: broker.Release()}
	for _, j := range q.leased() {
		if j.Worker == id && q.end(j, broker.OnRetire, release, &j.Head, 0, now) == broker.StatePending {
			released = append(released, j)
			refs = append(refs, j.Ref())
		}
	}
	q.toFront(released...)
	if !w.ended {
		q.endWorker(w, now)
	}
	return refs
}
