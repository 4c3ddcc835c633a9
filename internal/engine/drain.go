package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// What a drain takes at most, beyond Options.ShutdownTimeout.
const (
	ShutdownGrace = 2 * time.Second // for handlers, after their contexts ended
	LastCalls     = 3 * time.Second // to settle and to retire
	lastRetire    = time.Second     // of LastCalls, for retiring alone: jobs still held should not wait for their lease's end
	LastLoops     = time.Second     // for loops whose contexts have ended
	maxLogged     = 100             // jobs named in one line of the log
)

// supervise runs the server's loops until the drain, and then the drain.
func (s *Server) supervise() {
	defer close(s.done)
	claiming, stopClaiming := context.WithCancel(context.Background())
	beating, stopBeating := context.WithCancel(context.Background())
	working, stopWorking := context.WithCancel(context.Background())
	defer stopWorking()
	telling, stopTelling := context.WithCancel(context.Background())
	var beat, work, told sync.WaitGroup
	told.Go(func() { s.events.run(telling) })
	s.claimers.Go(func() { s.fetch(claiming, working) })
	s.claimers.Go(func() { s.upkeep(claiming, working) })
	beat.Go(func() { s.heartbeat(beating) })
	work.Go(func() { s.settleLoop(working) })
	if !s.limits.NoMark {
		s.claimers.Go(func() { s.keepHistory(claiming) })
	}
	if !s.limits.NoWatch {
		work.Go(func() { s.watch(working) })
	}

	<-s.draining
	stopClaiming()
	began := time.Now()
	s.releaseUnstarted(began)
	s.awaitHandlers()
	left := s.unreturned()

	// The outcomes still have to be sent, and the store may not answer at once: that may
	// take the rest of the time for handlers, and LastCalls more.
	end := s.lastDeadline(began)
	last, cancel := context.WithDeadline(working, end)
	defer cancel()
	settling, cancel := context.WithDeadline(last, end.Add(-lastRetire))
	defer cancel()
	await(settling, &s.claimers)
	unsettled := s.flush(settling)
	if !s.limits.NoMark {
		_ = s.postLatencies(settling) // if it fails, only percentiles lack this server's last minute
	}
	stopBeating()
	await(last, &beat)
	s.retire(last, left)
	stopWorking()
	ending, cancel := context.WithTimeout(context.Background(), LastLoops)
	defer cancel()
	await(ending, &s.claimers)
	await(ending, &beat)
	await(ending, &work)
	s.stopSlots(len(left))
	s.reportStuck()
	stopTelling()
	lastEvents, cancel := context.WithTimeout(context.Background(), LastEvents)
	defer cancel()
	await(lastEvents, &told)
	s.reports.Flush(s.log, true)
	s.err = s.drainError(len(left), unsettled)
	s.log.Info("jobs: drained", "took", time.Since(began).Round(time.Millisecond), "handlers_left", len(left), "unsettled", unsettled)
}

// await waits for goroutines whose contexts have ended, or until ctx ends.
func await(ctx context.Context, group *sync.WaitGroup) {
	ended := make(chan struct{})
	go func() {
		group.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

// releaseUnstarted releases the jobs that no handler has begun.
func (s *Server) releaseUnstarted(now time.Time) {
	s.mu.Lock()
	unstarted := s.releaseAllLocked(nil, now)
	handlers := s.slots.active
	s.slots.checkEmpty()
	s.mu.Unlock()
	s.log.Info("jobs: draining, no more jobs are taken", "handlers", handlers, "timeout", s.opts.ShutdownTimeout,
		"released", len(unstarted), "jobs", describe(unstarted, nil))
}

// awaitHandlers waits until every handler has returned, at most for ShutdownTimeout. Then
// it ends the contexts of the others, and waits for them at most for ShutdownGrace.
func (s *Server) awaitHandlers() {
	timer := time.NewTimer(s.opts.ShutdownTimeout)
	defer timer.Stop()
	select {
	case <-s.slots.empty:
		return
	case <-timer.C:
	case <-s.forced:
	}
	s.mu.Lock()
	now := time.Now()
	s.slots.eachActive(func(r *Run) { r.Finish(ErrShutdown, now) })
	s.mu.Unlock()
	timer.Reset(ShutdownGrace)
	select {
	case <-s.slots.empty:
	case <-timer.C:
	}
}

// unreturned returns the jobs whose handlers still run, with their types.
func (s *Server) unreturned() map[jobName]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := make(map[jobName]string)
	s.slots.eachActive(func(r *Run) { left[jobName{r.Job.Queue, r.Job.ID}] = r.Job.Type })
	return left
}

type jobName struct{ queue, id string }

// lastDeadline returns when the last calls to the store have to end.
func (s *Server) lastDeadline(began time.Time) time.Time {
	end, now := began.Add(s.opts.ShutdownTimeout), time.Now()
	select {
	case <-s.forced:
		end = now
	default:
	}
	if end.Before(now) {
		end = now
	}
	return end.Add(LastCalls)
}

// flush waits until every outcome was settled, the broker was closed, or ctx ends. It
// returns how many were not settled.
func (s *Server) flush(ctx context.Context) int {
	flushed := make(chan struct{})
	s.mu.Lock()
	s.settler.flushed = flushed
	s.flushedLocked()
	s.mu.Unlock()
	select {
	case <-flushed:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settler.unsettled
}

// retire ends the server's workers, which releases the jobs that they still hold.
func (s *Server) retire(ctx context.Context, left map[jobName]string) {
	s.mu.Lock()
	workers := append([]*worker(nil), s.workers...)
	s.mu.Unlock()
	for _, w := range workers {
		var reply broker.Retired
		var err error
		for failures := 1; ; failures++ {
			callCtx, cancel := context.WithTimeout(ctx, serverCallTimeout)
			reply, err = s.broker.Retire(callCtx, broker.RetireRequest{Worker: w.id, Queues: s.names})
			cancel()
			if err == nil || !w.registered || !broker.StoreFailed(err) || !after(ctx, backoff(failures)) {
				break
			}
		}
		if w.registered && !w.lost {
			s.reportWorker(WorkerDrained, w, err)
		}
		if err != nil {
			s.log.Warn("jobs: cannot retire, the jobs still held run again after the lease", "worker", w.id, "held", len(left), "error", err)
		}
		if n := len(reply.Released); n > 0 {
			s.log.Warn("jobs: released jobs whose handlers did not return", "worker", w.id, "released", n, "jobs", describe(reply.Released, left))
		}
	}
}

// describe names jobs for the log: queue, ID and, if known, type.
func describe(refs []broker.Ref, types map[jobName]string) []string {
	text := make([]string, 0, min(len(refs), maxLogged+1))
	for i, ref := range refs {
		if i == maxLogged {
			return append(text, fmt.Sprintf("and %d more", len(refs)-i))
		}
		name := ref.Queue + "/" + ref.ID
		if typ := types[jobName{ref.Queue, ref.ID}]; typ != "" {
			name += " (" + typ + ")"
		}
		text = append(text, name)
	}
	return text
}

// stopSlots ends the slots' goroutines. It waits for them unless handlers are left.
func (s *Server) stopSlots(left int) {
	s.mu.Lock()
	alive := s.slots.stop()
	s.mu.Unlock()
	if left == 0 && alive > 0 {
		<-s.slots.gone
	}
}

// drainError returns the error that Err will return.
func (s *Server) drainError(left, unsettled int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case unsettled > 0 && s.settler.closed:
		return fmt.Errorf("jobs: drain: %d outcomes could not be settled, their jobs run again: %w before the server", unsettled,
			broker.ErrClosed)
	case s.fatal != nil:
		return fmt.Errorf("jobs: the server cannot go on: %w", s.fatal)
	case left > 0:
		wait := fmt.Sprintf("ShutdownTimeout (%v) and", s.opts.ShutdownTimeout)
		if s.isForced {
			wait = "a wait that was cut short and"
		}
		return fmt.Errorf("jobs: drain: %d handlers did not return within %s a grace of %v; their jobs were released and run again",
			left, wait, ShutdownGrace)
	case unsettled > 0:
		return fmt.Errorf("jobs: drain: %d outcomes could not be settled, the store did not answer; their jobs run again", unsettled)
	}
	return nil
}
