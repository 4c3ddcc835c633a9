package engine

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/sleep"
)

const (
	upkeepInterval = 900 * time.Millisecond // so that a dead server's job runs again within a second of its lease's end
	reclaimMax     = 100                    // jobs in a call, so that several servers share those of a dead one

	// reclaimTTL is how long the servers with the same queues leave the search for jobs of dead
	// servers to the one that began it. If that server dies meanwhile, the jobs come back that
	// much later.
	reclaimTTL = 3 * time.Second
)

// upkeep is the loop that reclaims the jobs of dead servers, prunes records, audits the
// server's own leases and looks for stuck handlers, until ctx ends. It sleeps until
// there is something to do, and wakes once in upkeepInterval at most. Reclaims end with
// calls, as claims do.
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
		if reclaim && s.mayReclaim(ctx, w) && s.clockHeld(ctx, w, &noReclaim) {
			s.reclaim(calls, w, &noReclaim)
			if s.seldomRenews() {
				poke(s.renewNow) // the answer says when the next lease runs out
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

// expectUpkeepLocked sets when upkeep next reclaims or prunes. Jitter keeps servers that
// share a store from doing so at the same time.
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

// upkeepDue returns the current worker, and whether to audit its leases and to reclaim
// jobs. There can be jobs to reclaim only after the leases of some worker have run out;
// the last renewal said when that is. Also, the server reclaims only after it has renewed
// its own leases for a whole lease without a gap: if the store could not be reached, or
// its clock jumped, all workers were late.
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

// mayReclaim reports whether this server is the one that reclaims. If another server is, this
// one does not try again before reclaimTTL has passed.
func (s *Server) mayReclaim(ctx context.Context, w *worker) bool {
	elected := s.reclaimer.elected(ctx)
	if !elected {
		s.mu.Lock()
		defer s.mu.Unlock()
		w.lapse = time.Now().Add(reclaimTTL)
	}
	return elected
}

// clockHeld asks the store for its time, right before a reclaim, and reports whether the
// store's clock has run like this process's since the last renewal. After a jump nothing
// is reclaimed until all workers have had the time of a lease to renew. A jump too small
// to be noticed here makes no live worker late.
func (s *Server) clockHeld(ctx context.Context, w *worker, away *outage) bool {
	callCtx, cancel := context.WithTimeout(ctx, serverCallTimeout)
	defer cancel()
	store, err := s.broker.Ping(callCtx)
	if store.IsZero() {
		s.searchFailed(ctx, w, away, err)
		return false
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if off := store.Sub(w.stored) - now.Sub(w.renewed); off.Abs() > s.opts.Lease/4 {
		w.steady = now
		return false
	}
	return true
}

// reclaim reclaims jobs of workers whose leases ran out. It does not run them but settles
// them at once: each goes back to its queue with a crash charged, or is dead.
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
			s.log.Warn("jobs: reclaimed jobs of servers that died", "worker", w.id, "jobs", len(reply.Jobs))
		}
		if err == nil {
			away.ended()
		} else {
			s.searchFailed(ctx, w, away, err)
		}
		more = err == nil && reply.More && !s.over()
	}
}

func (s *Server) searchFailed(ctx context.Context, w *worker, away *outage, err error) {
	if now := time.Now(); away.failed(now, err) {
		s.log.Log(ctx, away.level(now, s.opts.Lease), "jobs: the search for jobs of dead servers failed, trying again",
			away.args("worker", w.id)...)
	}
}

// crashed returns the outcomes of reclaimed jobs. The policy charges those whose handlers
// had begun; the others are released.
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

// lookout is when upkeep next has something to do. Any goroutine may make that sooner,
// with or without the lock; only upkeep makes it later. So an idle server sleeps.
type lookout struct {
	began  time.Time
	next   atomic.Int64  // since began, in nanoseconds
	sooner chan struct{} // gets a value when next became sooner
}

func (l *lookout) init() {
	l.began, l.sooner = time.Now(), make(chan struct{}, 1)
	l.clear()
}

// by makes upkeep look at t at the latest. It ignores a zero t.
func (l *lookout) by(t time.Time) {
	if t.IsZero() {
		return
	}
	at := int64(t.Sub(l.began))
	for next := l.next.Load(); at < next; next = l.next.Load() {
		if l.next.CompareAndSwap(next, at) {
			poke(l.sooner)
			return
		}
	}
}

// clear removes the time. Upkeep calls it before it looks; what it finds then calls by
// again.
func (l *lookout) clear() { l.next.Store(math.MaxInt64) }

// in returns how long upkeep may sleep: until next, but at least until floor.
func (l *lookout) in(floor time.Time) time.Duration {
	at := l.began.Add(time.Duration(l.next.Load()))
	if at.Before(floor) {
		at = floor
	}
	return max(time.Until(at), 0)
}
