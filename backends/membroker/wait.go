package membroker

import (
	"context"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// waiter is a claim that waits. Its channel and its timer are made in the
// call, so that they belong to the caller's synctest bubble, if there is one.
type waiter struct {
	worker   string
	queues   []*queue
	channel  chan struct{}
	signaled bool
}

// The rule of waking (§18), which each step of the store keeps: when a queue
// that is not paused has waiters,
//
//   - and pending jobs, then one of its waiters was woken and has not come
//     back yet; when it comes back, whether it takes jobs, leaves some or goes
//     away, the rule makes it hand on what it left;
//   - and jobs that will be due, then the timer of one of its waiters, the
//     keeper, fires at the first due time, or one was woken to become it.
//
// So one waiter wakes for a job, not all, and no job lies beside sleepers.

// touch says that the rule may need something to be done for q in this step.
func (q *queue) touch() {
	if !q.touched && len(q.waiters) > 0 {
		q.touched = true
		q.store.touched = append(q.store.touched, q)
	}
}

// wake makes the rule hold at the end of a step.
func (s *Store) wake() {
	for i, q := range s.touched {
		q.touched, s.touched[i] = false, nil
		if len(q.waiters) > 0 && q.woken == 0 && !q.policy.Paused &&
			(q.claimable() || q.nextDue() < q.alarm) {
			q.waiters[0].signal()
		}
	}
	s.touched = s.touched[:0]
}

// wait repeats a claim until it gave something, failed, or its time is over.
// The store is locked when wait is called and when it returns, not in between.
func (b *Broker) wait(ctx context.Context, req *broker.ClaimRequest, got *broker.Claimed) error {
	s := b.store
	w := &waiter{worker: req.Worker, channel: make(chan struct{}, 1)}
	for _, share := range req.Queues {
		if q := s.queues[share.Queue]; share.Max > 0 && !slices.Contains(w.queues, q) {
			w.queues = append(w.queues, q)
		}
	}
	b.waiting[w] = struct{}{}
	defer delete(b.waiting, w)
	end := time.Now().Add(req.Wait)
	timer := time.NewTimer(req.Wait)
	defer timer.Stop()
	for {
		alarm := w.listen()
		if alarm < never {
			timer.Reset(min(time.Until(end), time.Until(broker.FromMicros(alarm))))
		} else {
			timer.Reset(time.Until(end))
		}
		b.end()
		select {
		case <-w.channel:
		case <-timer.C:
		case <-ctx.Done():
		}
		s.mu.Lock()
		w.comeBack()
		if err := b.usable(ctx, "claim"); err != nil {
			return err
		}
		now := time.Now()
		err := s.claim(req, got, instantOf(now))
		if err != nil || len(got.Jobs) > 0 || !now.Before(end) {
			return err
		}
	}
}

// listen puts a waiter into its queues. It keeps the time of those whose next
// due job nobody else awaits, and returns when the first of them is due.
func (w *waiter) listen() (alarm int64) {
	alarm = never
	for _, q := range w.queues {
		q.waiters = append(q.waiters, w)
		if due := q.nextDue(); due < q.alarm && !q.policy.Paused {
			q.keeper, q.alarm = w, due
			alarm = min(alarm, due)
		}
	}
	return alarm
}

// signal wakes a waiter. It counts as woken, in all its queues, until it has
// come back.
func (w *waiter) signal() {
	if w.signaled {
		return
	}
	w.signaled = true
	w.channel <- struct{}{}
	for _, q := range w.queues {
		w.forget(q)
		q.woken++
	}
}

// comeBack takes a waiter, woken or not, out of its queues.
func (w *waiter) comeBack() {
	for _, q := range w.queues {
		if w.signaled {
			q.woken--
		} else {
			w.forget(q)
		}
		q.touch()
	}
	if w.signaled {
		w.signaled = false
		select {
		case <-w.channel: // it came back for another reason at the same time
		default:
		}
	}
}

func (w *waiter) forget(q *queue) {
	q.waiters = slices.DeleteFunc(q.waiters, func(other *waiter) bool { return other == w })
	if q.keeper == w {
		q.keeper, q.alarm = nil, never
	}
}
