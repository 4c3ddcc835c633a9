package engine

import (
	"context"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/sleep"
)

// A run keeps the memory of the whole answer with which its job came. Small answers are kept
// whole, because copies cost time. Jobs of a larger answer are copied in small groups, so
// that a long run keeps the memory of few other jobs.
const (
	wholeAnswer = 512 << 10 // half of the first claim's answer at most
	keptBytes   = 32 << 10  // of a group
	recordBytes = 600       // estimate for a job without its payload
)

// acceptLocked makes runs of the jobs that a claim of w returned. size is their payloads'
// and headers' size in bytes.
func (s *Server) acceptLocked(w *worker, jobs []broker.Job, size int, now time.Time) {
	together := len(jobs)
	if size += together * recordBytes; size > wholeAnswer {
		together = max(1, keptBytes*len(jobs)/size)
	}
	var records []broker.Job
	var runs []Run
	p := &s.slots
	for i := range jobs {
		at := i % together
		if at == 0 {
			records = jobs[i:min(i+together, len(jobs))]
			if together < len(jobs) {
				records = slices.Clone(records)
			}
			runs = make([]Run, len(records))
		}
		j, r := &records[at], &runs[at]
		queue, limit := s.leaseLocked(w, j), p.limitOf(j.Type)
		if p.closed || w.lost || s.crowdedLocked(queue, limit) {
			s.settleLocked(w, j, broker.Release())
			continue
		}
		r.Job, r.server, r.parent = j, s, s.values
		r.worker, r.queue, r.limited, r.claimed = w, queue, limit, now
		if limit.putsAside() {
			p.putAside(r)
		} else {
			p.enter(r, now)
		}
	}
	s.enterAsideLocked(now)
	p.occupy()
}

// crowdedLocked reports whether there is no room for another run of a queue: two claims
// at a time can bring too many.
func (s *Server) crowdedLocked(queue int, limit *typeLimit) bool {
	p := &s.slots
	if limit.putsAside() {
		return p.asideRoom(queue) == 0
	}
	return p.full(queue) || p.holding >= s.opts.Concurrency+s.opts.Prefetch
}

// enterAsideLocked admits runs that wait for their types, as far as there is room beside
// the claims under way.
func (s *Server) enterAsideLocked(now time.Time) {
	s.slots.enterAside(s.capacityLocked()-s.fetcher.asked, now)
}

// slot is the goroutine of a slot. It runs jobs until the server stops.
func (s *Server) slot(i int) {
	var r *Run
	inHandler := false
	defer func() {
		if inHandler { // the handler called runtime.Goexit: another goroutine takes this slot
			outcome := s.policy.Exited(r)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.leaveLocked(i, r, outcome)
			go s.slot(i)
		}
	}()
	header := goroutineHeader()
	s.mu.Lock()
	s.stuck.goroutineIs(i, header)
	s.slots.waking = false
	for r = s.beginLocked(i); r != nil; r = s.beginLocked(i) {
		s.mu.Unlock()
		inHandler = true
		outcome := s.perform(r)
		inHandler = false
		s.mu.Lock()
		s.leaveLocked(i, r, outcome)
		r = nil // the slot may be idle for long
	}
	s.mu.Unlock()
	s.reportStuck() // the server may have ended before a stuck handler returned
}

// beginLocked waits for a run and begins it. It returns nil when the server has stopped.
func (s *Server) beginLocked(i int) *Run {
	r := s.slots.next(i)
	if r == nil {
		return nil
	}
	r.started = time.Now()
	r.limit(s.opts.Timeout, s.clock.at(r.started))
	if !r.end.IsZero() {
		s.lookout.by(r.end.Add(s.opts.StuckGrace))
	}
	s.slots.occupy()
	return r
}

// perform has the policy run a job. If the job is guarded, a mark in the store says until
// the end of the run that its handler has begun.
func (s *Server) perform(r *Run) broker.Outcome {
	if over, _ := r.Over(r.started); s.slots.isGuarded(r.Job) && !s.limits.NoMark && r.Job.Broken == nil && over == nil {
		fence, ok := s.marks.begin(r)
		if !ok {
			r.Finish(context.Canceled, r.started)
			return broker.Snooze(sleep.Jitter(s.Shortly(), 0.5), broker.Failure{}).Because(causeUnmarked, s.StoreNow())
		}
		defer s.marks.end(r.Job, fence)
	}
	return s.policy.Perform(r)
}

// leaveLocked ends a run: its slot is free, its outcome is to be settled.
func (s *Server) leaveLocked(i int, r *Run, outcome broker.Outcome) {
	s.slots.leave(i, r)
	now := time.Now()
	if s.stuck.returned(r, now) {
		s.lookout.by(now)
	}
	s.fetcher.measure(now.Sub(r.started))
	s.enterAsideLocked(now)
	s.giveUpSurplusLocked()
	s.fetcher.freed(r.queue, now)
	if r.InTx {
		s.inTx.add(r.Job, r.Committed)
	}
	waited, ran := s.waitedLocked(r), measured(now.Sub(r.started))
	s.measureLocked(r.queue, waited, ran)
	s.settleAtLocked(r.worker, broker.Settlement{Job: r.Job, Outcome: r.leave(outcome), Waited: waited, Ran: ran}, now)
	s.slots.checkEmpty()
}

// releaseQueuedLocked releases the runs in q, which no handler has begun, if they are of w
// (of any worker if w is nil) and were claimed before the given time.
func (s *Server) releaseQueuedLocked(q *runQueue, w *worker, before time.Time) []broker.Ref {
	var released []broker.Ref
	for n := q.len(); n > 0; n-- {
		r := q.pop()
		if w != nil && r.worker != w || !r.claimed.Before(before) {
			q.push(r)
			continue
		}
		s.releaseLocked(r)
		released = append(released, r.Job.Ref())
	}
	return released
}

// releaseAllLocked releases all runs of w (of any worker if w is nil) that no handler has
// begun.
func (s *Server) releaseAllLocked(w *worker, now time.Time) (released []broker.Ref) {
	s.slots.eachQueue(func(q *runQueue) { released = append(released, s.releaseQueuedLocked(q, w, now.Add(1))...) })
	return released
}

// releaseLocked releases a run that no handler has begun, and that is in no queue.
func (s *Server) releaseLocked(r *Run) {
	s.slots.exit(r)
	s.settleLocked(r.worker, r.Job, broker.Release())
}

// snoozeExpired snoozes the guarded jobs that have waited for too long, so that they do
// not keep others from beginning.
func (s *Server) snoozeExpired() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, r := range s.slots.takeExpired(now) {
		o := broker.Snooze(sleep.Jitter(s.Shortly(), 0.5), broker.Failure{}).Because(causeGuarded, s.clock.at(now))
		s.settleLocked(r.worker, r.Job, o)
		s.fetcher.freed(r.queue, now)
	}
	s.enterAsideLocked(now)
	s.slots.occupy()
}

// cancelRunLocked ends the contexts of a job's runs because it was cancelled. The handler
// of a run that has not begun is not called.
func (s *Server) cancelRunLocked(queue, id string) {
	now := time.Now()
	s.slots.find(queue, id, func(r *Run) { s.stop(r, ErrCancelled, now) })
	s.slots.enterEnded(now)
}
