package engine

import (
	"log/slog"
	"math"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/sleep"
)

// A job that kills its process takes what runs beside it along. So a job whose
// server died during its run is held to be careful with: it runs beside few
// others, and after two deaths, or before the one that would be its last, it is
// a suspect and runs alone. From the second death on a job is charged only if
// the store has a mark that says that its handler had begun. So no job is dead
// by what another one did.

const (
	suspectAfter = 2           // deaths
	patienceMin  = time.Second // how long a careful job keeps others from beginning, at first
	patienceMax  = time.Hour   // it doubles with each snooze
)

// Budget is how many deaths of its server the job survives.
func (s *Server) Budget(j *broker.Job) int {
	if j.CrashBudget > 0 {
		return j.CrashBudget
	}
	return s.opts.CrashBudget
}

// careful reports whether the job is one to be careful with.
func (s *Server) careful(j *broker.Job) bool { return j.Crashes > 0 && s.Budget(j) > 0 }

// company is how many handlers, its own included, may run beside the job's. A
// group of the square root lets the innocent ones of n jobs be done after the
// time of about 2√n runs; one at a time it would be n.
func (s *Server) company(j *broker.Job) int {
	switch {
	case !s.careful(j):
		return s.opts.Concurrency
	case j.Crashes >= min(suspectAfter, s.Budget(j)):
		return 1
	}
	return int(math.Ceil(math.Sqrt(float64(s.opts.Concurrency))))
}

// roomLocked is how many handlers may run now: fewer than there are slots while one
// runs that has to be careful with.
func (s *Server) roomLocked() int {
	room := s.opts.Concurrency
	if s.slots.guarded > 0 {
		s.eachActiveLocked(func(r *Run) { room = min(room, s.company(r.Job)) })
	}
	return room
}

// startableLocked returns the queue whose first run may begin now, or nil. While a
// careful job waits for its turn no other one begins, so that slots empty.
func (s *Server) startableLocked() *jobQueue {
	p := &s.slots
	q := &p.ready
	if p.careful.len() > 0 {
		q = &p.careful
	}
	if s.isDrain || q.len() == 0 {
		return nil
	}
	if p.careful.len() == 0 && p.guarded == 0 {
		return q
	}
	if p.active >= min(s.roomLocked(), s.company(q.peek().Job)) {
		return nil
	}
	return q
}

// awaitLocked has a careful run wait for its turn, for a while.
func (s *Server) awaitLocked(r *Run, now time.Time) {
	s.slots.careful.push(r)
	patience := sleep.Doubled(patienceMin, r.Job.Snoozes, patienceMax)
	r.patient = now.Add(patience)
	time.AfterFunc(patience, s.giveTurnsBack)
}

// giveTurnsBack puts careful jobs off whose turn has not come: they must not
// keep the others waiting for ever. Each time they wait for longer, in the end
// for longer than any handler takes.
func (s *Server) giveTurnsBack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, now := &s.slots, time.Now()
	for n := p.careful.len(); n > 0; n-- {
		r := p.careful.pop()
		if now.Before(r.patient) {
			p.careful.push(r)
			continue
		}
		s.exitLocked(r)
		s.settleLocked(r.worker, r.Job, broker.Snooze(sleep.Jitter(s.Shortly(), 0.5), broker.Failure{}))
		s.fetcher.freed(r.queue, now)
	}
	s.enterAsideLocked(now)
	s.occupyLocked()
}

// Shortly is how long something is put off for a while: a lease, unless leases are long.
func (s *Server) Shortly() time.Duration { return min(s.opts.Lease, broker.DefaultLease) }

// innocent finds, among reclaimed jobs, those that are not charged: the store
// has no mark of them, or cannot say.
func (s *Server) innocent(jobs []broker.Job) map[*broker.Job]bool {
	found := make(map[*broker.Job]bool)
	var failed error
	for i := range jobs {
		j := &jobs[i]
		if !s.careful(j) || s.limits.NoMark {
			continue
		}
		begun := false
		if failed == nil {
			begun, failed = s.marks.had(j)
		}
		found[j] = !begun
	}
	if failed != nil {
		s.reports.Report(s.log, "mark", slog.LevelWarn,
			"jobs: what had begun on a server that died cannot be told, jobs go back without a charge", "error", failed)
	}
	return found
}
