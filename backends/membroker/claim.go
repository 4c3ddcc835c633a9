package membroker

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Claim settles what comes with it and leases jobs, in one step. With a Wait
// and nothing to give it repeats that step whenever it is woken. §6, §14, §16,
// §17.
func (b *Broker) Claim(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
	now, err := b.begin(ctx, "claim", req.Now, req.Check())
	if err != nil {
		return broker.Claimed{}, err
	}
	var got broker.Claimed
	if len(req.Settle.Items) > 0 {
		got.Verdicts = b.store.settle(&req.Settle, now)
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
func (s *Store) claim(req *broker.ClaimRequest, got *broker.Claimed, now time.Time) error {
	got.Now, got.More, got.NextDue = now, false, time.Time{}
	var errs []error
	left, room := req.Max, req.ByteLimit()
	for _, share := range req.Queues {
		q := s.queues[share.Queue]
		w := q.worker(req.Worker)
		if q != nil {
			q.promote(now)
		}
		if w == nil || w.ended {
			errs = append(errs, gone("claim", share.Queue))
			continue
		}
		n := len(got.Jobs)
		got.Jobs = q.claim(w, min(left, share.Max), &room, got.Jobs)
		left -= len(got.Jobs) - n
	}
	for _, share := range req.Queues {
		if q := s.queues[share.Queue]; q != nil {
			got.More = got.More || q.claimable()
			got.NextDue = earlier(got.NextDue, q.nextDue())
			q.touch()
		}
	}
	return errors.Join(errs...)
}

// promote makes pending what is due, by due time (§16).
func (q *queue) promote(now time.Time) {
	for j := q.nextDueJob(); j != nil && reached(now, j.RunAt); j = q.nextDueJob() {
		q.move(j, broker.OnDue, broker.StatePending, time.Time{})
	}
}

// nextDueJob is the queue's next scheduled or retry job to be due, or nil.
func (q *queue) nextDueJob() *job {
	return q.first(broker.StateScheduled, broker.StateRetry)
}

// first is the first job of two states that the same times order, or nil.
func (q *queue) first(s, t broker.State) *job {
	a, ok := q.states[s].Min()
	b, also := q.states[t].Min()
	if also && (!ok || b.at < a.at || b.at == a.at && b.seq < a.seq) {
		return b.job
	}
	return a.job
}

// nextDue is when the next scheduled or retry job is due; zero when there is none.
func (q *queue) nextDue() time.Time {
	if j := q.nextDueJob(); j != nil {
		return j.RunAt
	}
	return time.Time{}
}

// claimable reports whether a claim of a worker would find something.
func (q *queue) claimable() bool { return !q.policy.Paused && q.len(broker.StatePending) > 0 }

// claim leases up to limit jobs in turn, until they have taken all room (§13). It
// changes no epoch: the lease belongs to the one it found (§3).
func (q *queue) claim(w *worker, limit int, room *int, jobs []broker.Job) []broker.Job {
	if jobs == nil && limit > 0 && q.claimable() {
		jobs = make([]broker.Job, 0, min(limit, q.len(broker.StatePending)))
	}
	for ; limit > 0 && *room > 0 && q.claimable(); limit-- {
		j := q.next()
		q.turn++
		q.move(j, broker.OnClaim, broker.StateActive, time.Time{})
		q.give(j, w)
		if j.Unique.Mode == broker.UniqueUntilStarted {
			q.freeKey(j)
		}
		*room -= j.size()
		jobs = append(jobs, j.Job)
	}
	return jobs
}

// next is the pending job that a claim takes next; there is one.
func (q *queue) next() *job {
	pending := q.states[broker.StatePending]
	if p := q.policy.Turn(q.turn); p != 0 {
		for e := range pending.from(entry{at: int64(p), seq: math.MinInt64}) {
			if e.at == int64(p) {
				return e.job
			}
			break
		}
	}
	first, _ := pending.Min()
	return first.job
}
