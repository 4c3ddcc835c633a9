package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Inline runs the jobs of a server for package jobstest: without loops, timers and
// pauses, one after the other, within a call. The same functions accept, perform and
// settle a job as in a server that was started; only the caller is different.
//
// Only one goroutine may use it. Each handler runs in its own goroutine, while that one waits.
type Inline struct {
	s      *Server
	wakeup chan struct{} // gets a value when a handler has returned or waits for a batch

	due       time.Time           // when, by the store's clock, the next job is due
	cancels   <-chan broker.Event // of jobs that an operator cancels; nil before watch
	stopWatch context.CancelFunc

	// Guarded by Server.mu.
	begun     int
	gate      chan struct{}     // closed when no more jobs will come for the batches that wait
	gathering map[*Run]struct{} // runs whose handlers wait for their batch
}

// inlineAttempts is how often a failed call is repeated. A server that was started
// repeats it without end. A test should end.
const inlineAttempts = 20

// Inline makes a server that was not started run its jobs in Step. Concurrency is then
// how many handlers can wait for their batch at once.
func (s *Server) Inline(values context.Context, p Policy) (*Inline, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started {
		return nil, false
	}
	s.started = true
	in := &Inline{s: s, wakeup: make(chan struct{}, 1), gate: make(chan struct{}), gathering: make(map[*Run]struct{})}
	s.policy, s.values, s.gathering = p, context.WithoutCancel(values), in.gathered
	s.slots.running = make([]*Run, s.opts.Concurrency) // as if all goroutines were there, so that none is made
	return in, true
}

// Step runs jobs that are due, and those that become due meanwhile, until none is left
// or it has begun max runs. It returns how many runs it began; all of them are settled.
// After that, Due returns when there is more to do.
func (in *Inline) Step(ctx context.Context, max int) (begun int, err error) {
	if err := in.renew(ctx); err != nil {
		return 0, err
	}
	in.watch(ctx)
	from := in.begun
	for in.begun-from < max && err == nil {
		got, failed := in.claim(ctx)
		if !got && failed == nil && !in.handOver() {
			break
		}
		err = errors.Join(failed, in.await(ctx))
	}
	in.handOver()
	return in.begun - from, errors.Join(err, in.await(ctx))
}

// Due returns when, by the store's clock, another job can be claimed; zero if that is
// unknown.
func (in *Inline) Due() time.Time { return in.due }

// Queues returns the names of the queues served.
func (in *Inline) Queues() []string { return in.s.Queues() }

// Stop releases the jobs that are still leased.
func (in *Inline) Stop(ctx context.Context) {
	if in.stopWatch != nil {
		in.stopWatch()
	}
	if w := in.s.worker; w != nil {
		_, _ = in.s.broker.Retire(ctx, broker.RetireRequest{Worker: w.id, Queues: in.s.names})
	}
	in.s.reports.Flush(in.s.log, true)
}

// renew registers a worker, or renews the current one, and reclaims the jobs of workers
// whose leases ran out.
func (in *Inline) renew(ctx context.Context) error {
	s := in.s
	for attempt := 1; ; attempt++ {
		w, register := s.worker, (*broker.WorkerInfo)(nil)
		if w == nil || w.lost {
			w = s.newWorker()
			s.mu.Lock()
			s.worker = w
			s.listLocked(w)
			s.mu.Unlock()
		}
		if !w.registered {
			register = s.infoOf(w)
		}
		reply, _, err := s.renew(ctx, w, register)
		switch {
		case err == nil && !reply.Lost:
			w.registered = true
			if !reply.NextLapse.IsZero() && !reply.NextLapse.After(reply.Now) {
				s.reclaim(ctx, w, new(outage))
			}
			return in.flush(ctx)
		case err == nil:
			s.mu.Lock()
			w.lost = true
			s.mu.Unlock()
		case !broker.StoreFailed(err) || attempt == inlineAttempts || ctx.Err() != nil:
			return fmt.Errorf("registering a worker: %w", err)
		}
	}
}

// watch listens for jobs that an operator cancels. If that fails, the renewal of the next
// Step reports these jobs.
func (in *Inline) watch(ctx context.Context) {
	s := in.s
	if in.cancels != nil || s.limits.NoWatch {
		return
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	events, err := s.broker.Watch(ctx, broker.WatchRequest{Queues: s.names, Kinds: []broker.EventKind{broker.EventCancel}})
	if err != nil {
		stop()
		return
	}
	in.cancels, in.stopWatch = events, stop
}

// claim leases one job, if one is due, and reports whether it did.
func (in *Inline) claim(ctx context.Context) (got bool, err error) {
	s := in.s
	for attempt := 1; ; attempt++ {
		s.mu.Lock()
		w, room := s.worker, s.fetcher.room
		for i := range room {
			room[i] = 1
			if limit := s.slots.limit[i]; limit > 0 {
				room[i] = min(1, max(0, limit-s.slots.held[i]))
			}
		}
		shares, _ := s.fetcher.mix.plan(nil, 1, room, 1)
		full := s.slots.holding >= len(s.slots.running)
		s.mu.Unlock()
		if full || len(shares) == 0 {
			return false, nil
		}
		req := broker.ClaimRequest{Worker: w.id, Queues: shares, Max: 1}
		reply, err := s.broker.Claim(ctx, req)
		if hook := s.opts.Hooks.Claim; hook != nil {
			hook(ClaimEvent{Now: reply.Now, Jobs: reply.Jobs, Asked: 1, Err: err})
		}
		now := time.Now()
		in.due = reply.NextDue
		s.mu.Lock()
		s.clock.set(reply.Now, now)
		s.acceptLocked(w, reply.Jobs, answerSize(reply.Jobs), now)
		clear(s.fetcher.gained)
		for i := range reply.Jobs {
			s.fetcher.gained[s.queueOf(reply.Jobs[i].Queue)]++
		}
		s.fetcher.mix.served(shares, s.fetcher.gained, len(reply.Jobs) > 0)
		s.unlock()
		if err == nil || len(reply.Jobs) > 0 {
			return len(reply.Jobs) > 0, nil
		}
		if attempt == inlineAttempts || ctx.Err() != nil {
			return false, fmt.Errorf("claiming: %w", err)
		}
		if errors.Is(err, broker.ErrWorkerGone) {
			s.mu.Lock()
			w.lost = true
			s.mu.Unlock()
			if err := in.renew(ctx); err != nil {
				return false, err
			}
		} else if broker.MayHaveApplied(err) {
			in.audit(ctx, w) // releases the jobs of the lost answer
			if err := in.flush(ctx); err != nil {
				return false, err
			}
		}
	}
}

// audit audits a worker until the store has listed its leases. The audit of a server that was
// started is repeated after a renewal, which may not come here.
func (in *Inline) audit(ctx context.Context, w *worker) {
	for attempt := 0; attempt < inlineAttempts && ctx.Err() == nil; attempt++ {
		in.s.mu.Lock()
		w.suspect = 0
		in.s.mu.Unlock()
		in.s.audit(ctx, w)
		in.s.mu.Lock()
		done := w.suspect == 0
		in.s.mu.Unlock()
		if done {
			return
		}
	}
}

// startLocked begins the claimed runs that may begin.
func (in *Inline) startLocked() {
	s := in.s
	for s.slots.startable() != nil {
		i := 0
		for s.slots.running[i] != nil {
			i++
		}
		r := s.beginLocked(i)
		in.begun++
		go in.perform(i, r)
	}
}

// perform runs a job, as a slot of a started server does.
func (in *Inline) perform(i int, r *Run) {
	s := in.s
	var outcome broker.Outcome
	returned := false
	defer func() {
		if !returned { // it called runtime.Goexit
			outcome = s.policy.Exited(r)
		}
		s.mu.Lock()
		delete(in.gathering, r)
		s.leaveLocked(i, r, outcome)
		s.mu.Unlock()
		poke(in.wakeup)
	}()
	outcome = s.perform(r)
	returned = true
}

// gathered does what Run.Draining does, for a handler that waits for its batch: it returns
// a channel that is closed when no more jobs will come.
func (in *Inline) gathered(r *Run) <-chan struct{} {
	in.s.mu.Lock()
	defer in.s.mu.Unlock()
	in.gathering[r] = struct{}{}
	poke(in.wakeup)
	return in.gate
}

// handOver makes the batches that wait run, and reports whether there were any.
func (in *Inline) handOver() bool {
	in.s.mu.Lock()
	defer in.s.mu.Unlock()
	if len(in.gathering) == 0 {
		return false
	}
	clear(in.gathering)
	close(in.gate)
	in.gate = make(chan struct{})
	return true
}

// await waits until each handler has returned or waits for its batch, and settles
// outcomes and keeps meanwhile.
func (in *Inline) await(ctx context.Context) error {
	s := in.s
	for {
		if err := in.flush(ctx); err != nil {
			return err
		}
		s.mu.Lock()
		in.startLocked()
		busy := s.slots.active > len(in.gathering) || s.settler.unsettled > 0
		waiting := 0
		s.slots.eachWaiting(func(*Run) { waiting++ })
		stuck := s.slots.active > 0 && waiting > 0 // runs wait for the slots of a batch that gathers
		s.mu.Unlock()
		if !busy && (!stuck || !in.handOver()) {
			return nil
		}
		select {
		case <-in.wakeup:
		case <-s.settler.poke:
		case e, ok := <-in.cancels:
			if !ok {
				in.cancels = nil
			} else if e.Kind == broker.EventCancel {
				s.mu.Lock()
				s.cancelRunLocked(e.Queue, e.ID)
				s.mu.Unlock()
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// flush settles all outcomes and keeps.
func (in *Inline) flush(ctx context.Context) error {
	s := in.s
	for {
		w, req := s.nextSettle()
		if w == nil {
			return nil
		}
		verdicts, err := s.broker.Settle(ctx, req)
		if failures := s.answered(w, verdicts, err, 0); failures >= inlineAttempts || failures > 0 && ctx.Err() != nil {
			return fmt.Errorf("settling: %w", err)
		}
	}
}
