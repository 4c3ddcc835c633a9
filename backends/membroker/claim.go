package membroker

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/journal"
)

// Claim settles the outcomes in the request and leases jobs, in one step. If there are no
// jobs and the request has a Wait, it tries again whenever it is woken. §6, §14, §16, §17.
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

// claim is one step of a claim. If one queue refuses, the jobs of other queues are still returned.
func (s *Store) claim(req *broker.ClaimRequest, got *broker.Claimed, now time.Time) error {
	s.at = now
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

// promote makes due jobs pending in the order of their due times (§16), as far as the rate of
// retries allows (§38). It also places lanes whose rate allows a start again.
func (q *queue) promote(now time.Time) {
	for j := q.nextDueJob(); j != nil && reached(now, j.RunAt); j = q.nextDueJob() {
		if j.State == broker.StateRetry && q.policy.RetryRate.Jobs > 0 {
			q.take(q.policy.RetryRate, &q.retries)
			q.note(journal.Queues, "")
		}
		q.move(j, broker.OnDue, broker.StatePending, time.Time{})
	}
	end := turn{at: now.UnixMicro() + 1}
	if now.Before(q.looked) { // the clock was set back, so the rates may allow starts earlier than they did
		end.at = never
	}
	q.looked = now
	var open []*lane
	q.late.AscendLessThan(end, func(t turn) bool {
		open = append(open, t.of)
		return true
	})
	for _, l := range open {
		q.place(l)
	}
}

// free returns how many starts a rate allows now or, if none, when it allows the next one. In a
// step without a time, it leaves the rate to the next claim.
func (q *queue) free(rate broker.Rate, starts broker.Bucket) (n int64, next time.Time) {
	if rate.Jobs == 0 || q.store.at.IsZero() {
		return math.MaxInt64, time.Time{}
	}
	n, at := starts.Free(rate, q.store.at.UnixMicro())
	return n, broker.FromMicros(at)
}

// take counts a start that a rate allows now.
func (q *queue) take(rate broker.Rate, starts *broker.Bucket) {
	starts.Free(rate, q.store.at.UnixMicro()) // add what the bucket has saved up until now
	starts.Take(1)
}

// nextDueJob returns the scheduled or retry job that is due first, or nil. While the rate of
// retries allows none, it looks at scheduled jobs only.
func (q *queue) nextDueJob() *job {
	if free, _ := q.free(q.policy.RetryRate, q.retries); free == 0 {
		first, _ := q.states[broker.StateScheduled].Min()
		return first.of
	}
	return q.firstOf(broker.StateScheduled, broker.StateRetry)
}

// firstOf returns the first job of two states that are ordered by the same kind of time, or
// nil.
func (q *queue) firstOf(s, t broker.State) *job {
	a, ok := q.states[s].Min()
	b, also := q.states[t].Min()
	if also && (!ok || b.before(a)) {
		return b.of
	}
	return a.of
}

// nextDue returns when the next scheduled or retry job is due, or a rate allows a start;
// zero if time alone makes nothing claimable.
func (q *queue) nextDue() (due time.Time) {
	if first, ok := q.states[broker.StateScheduled].Min(); ok {
		due = first.of.RunAt
	}
	if first, ok := q.states[broker.StateRetry].Min(); ok {
		at := first.of.RunAt
		if _, opens := q.free(q.policy.RetryRate, q.retries); at.Before(opens) {
			at = opens
		}
		due = earlier(due, at)
	}
	if q.policy.Paused || q.full() {
		return due
	}
	if q.ready() {
		_, opens := q.free(q.policy.Rate, q.starts)
		due = earlier(due, opens)
	}
	if first, ok := q.late.Min(); ok {
		due = earlier(due, broker.FromMicros(first.at))
	}
	return due
}

// full reports whether the limit of active jobs is reached.
func (q *queue) full() bool {
	most := q.policy.MaxActive
	return most > 0 && int64(q.len(broker.StateActive)) >= most
}

// claimable reports whether a claim would get a job.
func (q *queue) claimable() bool {
	free, _ := q.free(q.policy.Rate, q.starts)
	return free > 0 && q.ready() && !q.policy.Paused && !q.full()
}

// claim leases up to limit jobs, until room, a number of bytes, is used up (§13). It does
// not raise a job's epoch: the lease has the epoch that the job already has (§3).
func (q *queue) claim(w *worker, limit int, room *int, jobs []broker.Job) []broker.Job {
	if jobs == nil && limit > 0 && q.claimable() {
		jobs = make([]broker.Job, 0, min(limit, q.len(broker.StatePending)))
	}
	for ; limit > 0 && *room > 0 && q.claimable(); limit-- {
		j := q.next()
		if q.move(j, broker.OnClaim, broker.StateActive, time.Time{}); q.policy.Rate.Jobs > 0 {
			q.take(q.policy.Rate, &q.starts)
		}
		q.give(j, w)
		q.tally().Claimed++ // tally also notes the queue's record, which has q.starts
		if j.Unique.Mode == broker.UniqueUntilStarted {
			q.freeKey(j)
		}
		*room -= j.size()
		jobs = append(jobs, j.Job)
	}
	return jobs
}

// waiter is a waiting claim. The call of Claim makes the channel and the timer, so that they
// belong to the caller's synctest bubble, if there is one.
type waiter struct {
	worker string
	queues []*queue
	alarm  time.Time // when it looks again, for a job that is due then; zero for never
	woken  chan struct{}
}

// touch makes the end of this step check whether to wake a waiting claim. Call it after each
// change that may make a job claimable.
func (q *queue) touch() {
	if !q.touched && len(q.waiters) > 0 {
		q.touched = true
		q.store.touched = append(q.store.touched, q)
	}
}

// wake wakes one claim in each touched queue that has a claimable job, or a job that will be
// due and for which no alarm is set. When that claim looks again, it touches the queue, whether
// it leases jobs or ends. So the next claim is woken if jobs are left (§17).
func (s *Store) wake() {
	for _, q := range s.touched {
		q.touched = false
		if len(q.waiters) > 0 && (q.claimable() || !q.policy.Paused && !q.awaited()) {
			q.waiters[0].wake()
		}
	}
	clear(s.touched)
	s.touched = s.touched[:0]
}

// awaited reports whether a claim's alarm is set for the next job to be due.
func (q *queue) awaited() bool {
	due := q.nextDue()
	return due.IsZero() || slices.ContainsFunc(q.waiters, func(w *waiter) bool { return !w.alarm.IsZero() && !w.alarm.After(due) })
}

// wait repeats a claim until it gets jobs, fails, or its time is over. The store is locked when
// wait is called and when it returns, and unlocked while it waits.
func (b *Broker) wait(ctx context.Context, req *broker.ClaimRequest, got *broker.Claimed) error {
	end := b.store.now().Add(req.Wait)
	timer := time.NewTimer(req.Wait)
	defer timer.Stop()
	for {
		w := b.listen(req)
		timer.Reset(earlier(end, w.alarm).Sub(b.store.now()))
		b.end()
		select {
		case <-w.woken:
		case <-timer.C:
		case <-ctx.Done():
		}
		b.store.mu.Lock()
		delete(b.waiting, w)
		w.leave()
		for _, q := range w.queues {
			q.touch()
		}
		if err := b.usable(ctx, "claim"); err != nil {
			return err
		}
		now := b.store.now()
		err := b.store.claim(req, got, now)
		if err != nil || len(got.Jobs) > 0 || !now.Before(end) {
			return err
		}
	}
}

// listen adds a waiting claim to its queues. It sets the claim's alarm to the time of the first
// job that will be due and for which no other claim has an alarm.
func (b *Broker) listen(req *broker.ClaimRequest) *waiter {
	w := &waiter{worker: req.Worker, woken: make(chan struct{}, 1)}
	b.waiting[w] = struct{}{}
	for _, share := range req.Queues {
		q := b.store.queues[share.Queue]
		if share.Max == 0 || slices.Contains(w.queues, q) {
			continue
		}
		w.queues = append(w.queues, q)
		if !q.policy.Paused && !q.awaited() {
			w.alarm = earlier(w.alarm, q.nextDue())
		}
	}
	for _, q := range w.queues {
		q.waiters = append(q.waiters, w)
	}
	return w
}

// wake ends a claim's wait, and removes it from its queues, so that it is woken once.
func (w *waiter) wake() {
	w.leave()
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

func (w *waiter) leave() {
	for _, q := range w.queues {
		q.waiters = slices.DeleteFunc(q.waiters, func(other *waiter) bool { return other == w })
	}
}
