package engine

import (
	"context"
	"errors"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/sleep"
)

const (
	upkeepInterval = 900 * time.Millisecond // so that a dead server's job runs again within a second of its lease's end
	reclaimMax     = 100
)

// upkeep is the loop that takes over the jobs of dead servers, removes what is
// past its retention, settles doubts about our own leases, and looks for stuck
// handlers, until ctx ends. It sleeps until there is something to do, and looks
// once in upkeepInterval at most. Reclaims are under calls, as claims are.
func (s *Server) upkeep(ctx, calls context.Context) {
	var noReclaim outage
	floor := time.Now().Add(sleep.Jitter(upkeepInterval, 0.2))
	timer := time.NewTimer(s.lookout.in(floor))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.lookout.sooner:
			timer.Reset(s.lookout.in(floor))
			continue
		case <-timer.C:
		case <-s.upkeepNow:
		}
		s.lookout.clear()
		floor = time.Now().Add(sleep.Jitter(upkeepInterval, 0.2))
		s.reportStuck()
		s.reports.Flush(s.log, false)
		w, audit, reclaim := s.upkeepDue(time.Now())
		if audit {
			s.audit(ctx, w)
		}
		if reclaim && s.clockHeld(ctx, w) {
			s.reclaim(calls, w, &noReclaim)
			if s.seldomRenews() {
				poke(s.renewNow) // which tells when the next lease runs out
			}
		}
		if w != nil && s.pruner.due(time.Now()) {
			s.pruner.turn(ctx)
		}
		s.mu.Lock()
		s.expectUpkeepLocked(s.worker)
		s.mu.Unlock()
		timer.Reset(s.lookout.in(floor))
	}
}

// expectUpkeepLocked has upkeep look when there is next something to reclaim or to
// prune. Servers that share a store do not all look at once.
func (s *Server) expectUpkeepLocked(w *worker) {
	if w == nil || !w.registered || w.lost {
		return
	}
	reclaim := w.steady.Add(s.opts.Lease)
	if reclaim.Before(w.lapse) {
		reclaim = w.lapse
	}
	s.lookout.by(reclaim.Add(upkeepInterval - sleep.Jitter(upkeepInterval, 1)))
	s.lookout.by(s.pruner.next())
}

// upkeepDue says what to do for which worker. There is something to reclaim only
// once somebody's leases have run out since the last renewal, which says when
// that is. Others' leases are judged only after our own were renewed without a gap for a whole lease: a store that was
// away, or whose clock jumped, made everybody late.
func (s *Server) upkeepDue(now time.Time) (w *worker, audit, reclaim bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w = s.worker
	if w == nil || !w.registered || w.lost {
		return nil, false, false
	}
	audit, w.audit = w.audit, false
	return w, audit, now.Sub(w.steady) >= s.opts.Lease && !now.Before(w.lapse)
}

// clockHeld asks the store for its time, right before others' leases are judged
// by it, and reports whether that went on like ours since the last renewal.
// After a jump nobody is judged until all have had a lease's time to renew. A
// smaller jump than is noticed here leaves every live worker in time.
func (s *Server) clockHeld(ctx context.Context, w *worker) bool {
	callCtx, cancel := context.WithTimeout(ctx, serverCallTimeout)
	defer cancel()
	store, _ := s.broker.Ping(callCtx)
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if store.IsZero() {
		return false
	}
	if off := store.Sub(w.stored) - now.Sub(w.renewed); off.Abs() > s.opts.Lease/4 {
		w.steady = now
		return false
	}
	return true
}

// reclaim takes over jobs of workers that ran out. They are not run here but
// settled at once: each goes back to its queue with a crash charged, or is
// dead.
func (s *Server) reclaim(ctx context.Context, w *worker, away *outage) {
	for more := true; more; {
		s.mu.Lock()
		calls := s.calls
		calls.Add(1)
		room := s.fetcher.size
		s.mu.Unlock()
		sent := time.Now()
		callCtx, cancel := context.WithTimeout(ctx, serverCallTimeout)
		reply, err := s.broker.Reclaim(callCtx, broker.ReclaimRequest{Worker: w.id, Queues: s.names, Max: min(reclaimMax,
			room.jobs), Bytes: room.bytes})
		cancel()
		if hook := s.opts.Hooks.Reclaim; hook != nil {
			hook(ReclaimEvent{Jobs: reply.Jobs, Took: time.Since(sent), Err: err})
		}
		outcomes := s.crashed(w, reply.Jobs)
		s.mu.Lock()
		for i := range reply.Jobs {
			s.leaseLocked(w, &reply.Jobs[i])
			s.settleLocked(w, &reply.Jobs[i], outcomes[i])
		}
		switch {
		case broker.MayHaveApplied(err):
			s.doubtLocked(w, false)
			s.fetcher.size.lost(reclaimMax)
		case errors.Is(err, broker.ErrWorkerGone):
			poke(s.renewNow)
		}
		s.unlock()
		calls.Done()
		if len(reply.Jobs) > 0 {
			s.log.Warn("jobs: took over jobs of servers that died", "worker", w.id, "jobs", len(reply.Jobs))
		}
		if err == nil {
			away.ended()
		} else if now := time.Now(); away.failed(now, err) {
			s.log.Log(ctx, away.level(now, s.opts.Lease), "jobs: the search for jobs of dead servers failed, trying again",
				away.args("worker", w.id)...)
		}
		more = err == nil && reply.More && !s.over()
	}
}

// crashed says what becomes of reclaimed jobs: the policy charges those whose
// handlers had begun.
func (s *Server) crashed(w *worker, jobs []broker.Job) []broker.Outcome {
	innocent := s.marks.innocent(jobs, s.slots.isGuarded)
	outcomes := make([]broker.Outcome, len(jobs))
	for i := range jobs {
		if innocent[&jobs[i]] {
			outcomes[i] = broker.Release()
		} else {
			outcomes[i] = s.policy.Crashed(&jobs[i], w.id)
		}
	}
	return outcomes
}
