package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/sleep"
)

// maxHeartbeat is the maximum interval between renewals. Their answers also say when
// leases of other servers run out, and those leases may be shorter than this server's. In
// a store that no other process uses there are no other servers, so the maximum applies
// only while there is doubt about leases. A server whose slots are all taken makes no other
// calls for long, and Ready needs an answer within its window.
const maxHeartbeat = broker.DefaultLease / 3

// intervalLocked returns the maximum interval between renewals of w.
func (s *Server) intervalLocked(w *worker) time.Duration {
	longest := min(s.opts.Lease, s.opts.ReadinessWindow) / 3
	if s.seldomRenews() && w.suspect == 0 && w.differed == 0 {
		return longest
	}
	return min(longest, maxHeartbeat)
}

// seldomRenews reports whether renewals are normally further apart than maxHeartbeat.
func (s *Server) seldomRenews() bool { return s.limits.InProcess && s.opts.Lease/3 > maxHeartbeat }

// heartbeat is the loop that registers a worker and renews it. When the worker is lost,
// it registers another one. Nothing else runs in this loop, so that nothing else can
// make a renewal late.
func (s *Server) heartbeat(ctx context.Context) {
	for {
		w := s.newWorker()
		s.mu.Lock()
		last := s.worker
		s.worker = w
		s.listLocked(w)
		if last != nil {
			s.forgetEndedLocked(last)
		}
		s.mu.Unlock()
		if s.register(ctx, w) {
			s.keep(ctx, w)
		}
		if ctx.Err() != nil || s.over() {
			return
		}
	}
}

// The timeout of an attempt to register. It doubles with each attempt: a connection
// over a slow link may take five round trips of 2 s, while the first attempts should
// soon notice a dead connection. A store may have to write a row for each queue while a
// whole fleet registers. If attempts were given up too early, their repetitions would load
// the store without end.
const (
	minRegister   = time.Second
	registerQueue = 5 * time.Millisecond
	maxRegister   = 10 * time.Second
)

// register makes w known to the store. It tries until that works. It returns false if ctx
// ended, the store refuses this server, the ID has ended, or the watchdog has new
// connections opened. An ID has ended if the answer to an attempt was lost and the lease
// ran out before the next attempt.
func (s *Server) register(ctx context.Context, w *worker) bool {
	info := s.infoOf(w)
	for {
		reply, sent, err := s.renew(ctx, w, info)
		if err == nil && !reply.Lost {
			s.mu.Lock()
			w.registered = true
			w.steady = sent
			s.expectUpkeepLocked(w)
			s.unregistered.ended()
			if s.fetcher.away.failures == 0 { // otherwise a claim has to succeed first
				s.fetcher.succeeded = time.Now()
			}
			s.fetcher.wake()
			s.mu.Unlock()
			s.reportWorker(WorkerStarted, w, nil)
			s.events.line(slog.LevelInfo, "jobs: the server takes jobs",
				"worker", w.id, "queues", someOf(s.names), "concurrency", s.opts.Concurrency)
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		if refused(err) || errors.Is(err, broker.ErrNewerForm) || errors.Is(err, broker.ErrClosed) {
			s.drain(err)
			return false
		}
		if err == nil {
			err = errDeadID
		}
		now := time.Now()
		s.mu.Lock()
		away := &s.unregistered
		if away.failed(now, err) {
			s.events.line(away.level(now, s.opts.Lease), "jobs: cannot register with the store, trying again until it works",
				away.args("worker", w.id)...)
		}
		pause := backoff(away.failures)
		s.mu.Unlock()
		if !after(ctx, pause) {
			return false
		}
		if s.watchdog(now) || errors.Is(err, errDeadID) {
			s.mu.Lock()
			w.lost = true
			s.mu.Unlock()
			return false
		}
	}
}

var errDeadID = errors.New("the ID of the worker has ended, its lease ran out before an answer came")

// keep renews w until it is lost or ctx ends.
func (s *Server) keep(ctx context.Context, w *worker) {
	s.mu.Lock()
	interval := s.intervalLocked(w)
	first := sleep.Jitter(interval, 0.1) - time.Since(w.renewed)
	if s.unrenewed.failures > 0 {
		first = 0 // to find out whether renewing works again
	}
	s.mu.Unlock()
	timer := time.NewTimer(first)
	defer timer.Stop()
	for failing := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-s.renewNow:
		}
		if failing && time.Since(w.renewed) >= s.opts.Lease {
			s.lose(w, "it could not be renewed for a whole lease")
			return
		}
		reply, sent, err := s.renew(ctx, w, nil)
		if ctx.Err() != nil {
			return
		}
		now := time.Now()
		left := s.opts.Lease - now.Sub(w.renewed)
		switch {
		case reply.Lost:
			s.lose(w, "the store has given its jobs to other workers")
			return
		case err != nil:
			failing = true
			s.mu.Lock()
			away := &s.unrenewed
			if away.failed(now, err) {
				s.events.line(away.level(now, s.opts.Lease), "jobs: a renewal failed, trying again",
					away.args("worker", w.id, "left", left.Round(time.Millisecond))...)
			}
			pause := backoff(away.failures)
			s.mu.Unlock()
			s.watchdog(now)
			timer.Reset(max(0, min(pause, interval, left)))
		default:
			failing = false
			s.mu.Lock()
			if s.unrenewed.ended() {
				s.events.line(slog.LevelInfo, "jobs: renewing works again", "worker", w.id)
			}
			interval = s.intervalLocked(w)
			s.mu.Unlock()
			if s.watchdog(now) && s.holdsNothing(w) {
				s.lose(w, "it could not claim for several leases")
				return
			}
			timer.Reset(sleep.Jitter(interval, 0.1) - now.Sub(sent))
		}
	}
}

// renew makes one call, within the time that the lease leaves for it, and handles its
// answer.
func (s *Server) renew(ctx context.Context, w *worker, register *broker.WorkerInfo) (broker.Renewed, time.Time, error) {
	req := broker.RenewRequest{Worker: w.id, Queues: s.names, Lease: s.opts.Lease}
	timeout := serverCallTimeout
	if register != nil {
		req.Register, req.Info = true, *register
		least := max(min(s.opts.Lease/5, timeout), minRegister) + registerQueue*time.Duration(len(s.names))
		timeout = sleep.Doubled(least, s.unregistered.failures, maxRegister)
	} else if left := s.opts.Lease - time.Since(w.renewed); left > 0 {
		timeout = min(timeout, max(left/2, s.opts.Lease/5), left) // so that there is time for further attempts
	} // else the process was suspended for a lease, and may still be in time
	s.mu.Lock()
	before := w.traffic
	if longest := s.longestLocked(w, s.opts.Lease/3); register == nil && !nameTheSame(longest, w.info.Longest) {
		req.Describe, req.Info = true, w.info
		req.Info.Longest = longest
	}
	s.mu.Unlock()
	sent := time.Now()
	callCtx, cancel := context.WithTimeout(ctx, timeout)
	reply, err := s.broker.Renew(callCtx, req)
	cancel()
	now := time.Now()

	s.mu.Lock()
	if err == nil && !reply.Lost {
		if req.Register || req.Describe {
			w.info = req.Info
		}
		s.clock.set(reply.Now, now)
		s.steadiedLocked(w, sent, reply.Now)
		if w.lapse = reply.NextLapse; !w.lapse.IsZero() {
			w.lapse = now.Add(reply.NextLapse.Sub(reply.Now))
		}
		if w.traffic == before {
			w.compare(s.names, reply.Held)
		}
		if w.suspect > 0 || w.differed > 1 {
			w.suspect, w.differed = max(w.suspect-1, 0), 0
			w.audit = true
			poke(s.upkeepNow)
		}
		s.expectUpkeepLocked(w)
		for _, ref := range reply.Cancel {
			s.cancelRunLocked(ref.Queue, ref.ID)
		}
	}
	margin := s.opts.Lease - now.Sub(w.renewed)
	if w.renewed.IsZero() { // it has no lease yet
		margin = 0
	}
	s.mu.Unlock()
	if hook := s.opts.Hooks.Renew; hook != nil && ctx.Err() == nil {
		s.events.call(func() {
			hook(RenewEvent{Worker: w.id, Margin: margin, Took: now.Sub(sent), Lost: reply.Lost, Err: err})
		})
	}
	return reply, sent, err
}

// steadiedLocked records a successful renewal. A gap since the last one, by either
// clock, means that the store could not be reached or that its clock jumped.
func (s *Server) steadiedLocked(w *worker, sent, store time.Time) {
	gap := sent.Sub(w.renewed)
	if !w.stored.IsZero() {
		gap = max(gap, store.Sub(w.stored), w.stored.Sub(store))
	}
	if gap > s.opts.Lease*3/4 {
		w.steady = sent
	}
	w.renewed, w.stored = sent, store
}

// compare records whether the store counts more or fewer leases than this server. held is
// nil if the store did not count.
func (w *worker) compare(names []string, held map[string]int) {
	if held == nil {
		return
	}
	for i, name := range names {
		if held[name] != w.held[i] {
			w.differed++
			return
		}
	}
	w.differed = 0
}

func (s *Server) newWorker() *worker {
	return &worker{id: s.opts.NewID(), held: make([]int, len(s.names)), batchLimit: maxSettleItems}
}

// infoOf returns what w says about itself when it registers.
func (s *Server) infoOf(w *worker) *broker.WorkerInfo {
	host, _ := os.Hostname()
	return &broker.WorkerInfo{ID: w.id, Host: host, PID: os.Getpid(), Program: s.opts.Program,
		Concurrency: s.opts.Concurrency, Queues: s.names, StartedAt: s.StoreNow(), Types: s.policy.Types()}
}

// lose ends w: the contexts of its handlers end, and runs that have not begun are
// released. Handlers keep their slots until they return. Their outcomes are sent, and
// apply if no other server has reclaimed the job.
func (s *Server) lose(w *worker, why string) {
	s.mu.Lock()
	w.lost = true
	if s.fetcher.waiting {
		s.fetcher.giveUp() // it can get no jobs, and while it waits, no claim of the next worker waits
	}
	now := time.Now()
	s.releaseAllLocked(w, now)
	handlers := 0
	s.slots.eachActive(func(r *Run) {
		if r.worker == w {
			handlers++
			s.stop(r, broker.ErrLeaseLost, now)
		}
	})
	s.mu.Unlock()
	s.reportWorker(WorkerLost, w, nil)
	s.events.line(slog.LevelError, "jobs: the worker was lost, the server registers another one", "worker", w.id, "reason",
		why, "handlers", handlers)
}

// watchdog makes the broker open new connections, if it can, when registering, renewing
// or claiming has failed for several leases, and again after the same time. It reports
// whether it did.
func (s *Server) watchdog(now time.Time) bool {
	s.mu.Lock()
	bound := watchdogLeases * s.opts.Lease
	over := func(o *outage) bool { return o.failures > 0 && now.Sub(o.since) >= bound }
	f := &s.fetcher
	due := now.Sub(s.restarted) >= bound &&
		(over(&s.unregistered) || over(&s.unrenewed) || over(&f.away) && now.Sub(f.succeeded) >= bound)
	if due {
		s.restarted = now
	}
	s.mu.Unlock()
	if due {
		s.broker.Reconnect()
	}
	return due
}

// loggedQueues is how many queues a line names: enough for most servers, and short for one of a thousand queues.
const loggedQueues = 20

// someOf returns the first names, and how many more there are, for a line of a log.
func someOf(names []string) []string {
	if len(names) <= loggedQueues {
		return names
	}
	return append(slices.Clone(names[:loggedQueues]), fmt.Sprintf("and %d more", len(names)-loggedQueues))
}
