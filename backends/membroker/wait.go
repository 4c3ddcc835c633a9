package membroker

import (
	"context"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

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
