package membroker

import (
	"context"
	"errors"

	"github.com/seed81422ce9/jobs/broker"
)

// Reclaim ends the workers that ran out and hands their jobs to the calling
// one, up to Max a call. §8.
func (b *Broker) Reclaim(ctx context.Context, req broker.ReclaimRequest) (broker.Claimed, error) {
	now, err := b.begin(ctx, "reclaim", req.Now, req.Check())
	if err != nil {
		return broker.Claimed{}, err
	}
	got := broker.Claimed{Now: now.answer()}
	var errs []error
	room := req.ByteLimit()
	for _, name := range req.Queues {
		q := b.store.queues[name]
		if q == nil || q.workers[req.Worker] == nil || now.reached(q.workers[req.Worker].until) {
			errs = append(errs, gone("reclaim", name))
			continue
		}
		q.findRunOut(now)
		got.Jobs = q.reclaim(q.workers[req.Worker], req.Max, &room, got.Jobs)
		got.More = got.More || len(q.orphans) > 0
		got.NextDue = earlier(got.NextDue, q.nextDue())
	}
	b.end()
	detach(got.Jobs)
	return got, errors.Join(errs...)
}

// findRunOut ends the workers whose last renewal was a lease ago.
func (q *queue) findRunOut(now instant) {
	for _, w := range q.workers {
		if now.reached(w.until) {
			q.endWorker(w, now)
		}
	}
}

// reclaim leases jobs of ended workers to w until there are limit of them in
// jobs, or these have taken all room (§13). The step to the new lease makes the
// old one void (§3).
func (q *queue) reclaim(w *worker, limit int, room *int, jobs []broker.Job) []broker.Job {
	for len(q.orphans) > 0 && len(jobs) < limit && *room > 0 {
		held := &q.orphans[0].held
		j := *held.at(held.end - 1)
		*room -= j.size()
		q.move(j, broker.OnReclaim, broker.StateActive, 0) // which ends an orphan that holds no more
		j.write(j.read().Moved())
		w.lease(j)
		jobs = q.show(jobs, j)
	}
	return jobs
}
