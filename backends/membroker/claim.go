package membroker

import (
	"context"
	"errors"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Claim settles what comes with it and leases jobs, in one step. With a Wait
// and nothing to give it repeats that step whenever it is woken. §6, §16, §18,
// §19.
func (b *Broker) Claim(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
	refused := req.Check()
	hashes := b.store.hashes(&req.Settle, refused)
	now, err := b.begin(ctx, "claim", req.Now, refused)
	if err != nil {
		return broker.Claimed{}, err
	}
	var got broker.Claimed
	if len(req.Settle.Items) > 0 {
		got.Verdicts = b.store.settle(&req.Settle, hashes, now)
	}
	err = b.store.claim(&req, &got, now)
	if err == nil && len(got.Jobs) == 0 && req.Max > 0 && req.Wait > 0 && req.Now.IsZero() {
		err = b.wait(ctx, &req, &got)
	}
	b.end()
	detach(got.Jobs)
	return got, err
}

// claim is the step itself. A queue that refuses withholds nothing that
// another gave.
func (s *Store) claim(req *broker.ClaimRequest, got *broker.Claimed, now instant) error {
	got.Now, got.More, got.NextDue = now.answer(), false, time.Time{}
	var errs []error
	left, room := req.Max, req.ByteLimit()
	for _, share := range req.Queues {
		q := s.queues[share.Queue]
		if q == nil {
			errs = append(errs, gone("claim", share.Queue))
			continue
		}
		q.promote(now)
		w := q.workers[req.Worker]
		if w == nil {
			errs = append(errs, gone("claim", share.Queue))
			continue
		}
		n := len(got.Jobs)
		got.Jobs = q.claim(w, min(left, share.Max), &room, got.Jobs)
		left -= len(got.Jobs) - n
	}
	for _, share := range req.Queues {
		q := s.queues[share.Queue]
		if q == nil {
			continue
		}
		got.More = got.More || q.claimable()
		got.NextDue = earlier(got.NextDue, q.nextDue())
		q.touch()
	}
	return errors.Join(errs...)
}

// promote makes pending what is due, by due time (§16).
func (q *queue) promote(now instant) {
	scheduled, retry := q.times[broker.StateScheduled], q.times[broker.StateRetry]
	for now.reached(q.nextDue()) {
		e, ok := scheduled.first()
		if r, found := retry.first(); found && (!ok || r.at < e.at || r.at == e.at && r.seq < e.seq) {
			e = r
		}
		q.move(e.what, broker.OnDue, broker.StatePending, 0)
	}
}

// nextDue is when the queue's next scheduled or retry job is due, or never.
func (q *queue) nextDue() int64 {
	return min(q.times[broker.StateScheduled].next(), q.times[broker.StateRetry].next())
}

// claimable reports whether a claim of a worker would find something.
func (q *queue) claimable() bool { return !q.policy.Paused && q.count(broker.StatePending) > 0 }

// claim leases up to limit jobs in turn, until they have taken all room (§13). It
// changes no epoch: the lease belongs to the one it found (§3).
func (q *queue) claim(w *worker, limit int, room *int, jobs []broker.Job) []broker.Job {
	if limit <= 0 || *room <= 0 || !q.claimable() {
		return jobs
	}
	if jobs == nil {
		jobs = make([]broker.Job, 0, min(limit, q.count(broker.StatePending)))
	}
	for p := range q.ready {
		for ; limit > 0 && *room > 0 && q.ready[p].first != nil; limit-- {
			j := q.ready[p].first
			*room -= j.size()
			q.move(j, broker.OnClaim, broker.StateActive, 0)
			w.lease(j)
			if j.Unique.Mode == broker.UniqueUntilStarted {
				q.freeKey(j)
			}
			jobs = q.show(jobs, j)
		}
	}
	return jobs
}
