package engine

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// auditsAfterLoss is how many renewals are followed by an audit after the answer to a
// claim was lost: two, since the store may apply the claim only after the first audit.
const auditsAfterLoss = 2

// leaseKey names a lease of one worker.
type leaseKey struct {
	queue, id string
	epoch     int64
}

func leaseOf(j *broker.Job) leaseKey { return leaseKey{j.Queue, j.ID, j.Epoch} }

// doubtLocked has the leases of w audited, at once or after the next renewals, because a
// lost answer may have contained some.
func (s *Server) doubtLocked(w *worker, atOnce bool) {
	w.suspect = auditsAfterLoss
	if atOnce || s.seldomRenews() {
		poke(s.renewNow)
	}
}

// audit compares the leases that the store has for w with those of this server. It
// releases the jobs whose lease only the store knows: the answer with these jobs was
// lost. It ends the contexts of handlers whose lease the store does not have.
func (s *Server) audit(ctx context.Context, w *worker) {
	began := time.Now()
	s.mu.Lock()
	w.ended = make(map[leaseKey]bool)
	s.mu.Unlock()
	listed := make(map[leaseKey]*broker.Job)
	for _, queue := range s.names {
		if !s.listHeld(ctx, w, queue, listed) {
			return
		}
	}
	// Wait for answers under way: they may contain these jobs.
	s.mu.Lock()
	calls := s.calls
	s.calls = new(sync.WaitGroup)
	s.mu.Unlock()
	calls.Wait()

	s.mu.Lock()
	defer s.unlock()
	known := w.ended
	w.ended = nil
	if w.lost || s.slots.closed {
		return
	}
	add := func(j *broker.Job) { known[leaseOf(j)] = true }
	for _, items := range [][]broker.Settlement{w.items, w.done} {
		for i := range items {
			add(items[i].Job)
		}
	}
	gone := 0
	each := func(r *Run) {
		add(r.Job)
		if r.worker == w && r.claimed.Before(began) && listed[leaseOf(r.Job)] == nil {
			gone++
			s.stop(r, broker.ErrLeaseLost, time.Now())
		}
	}
	s.slots.eachActive(each)
	s.slots.eachWaiting(each)
	s.slots.enterEnded(time.Now())
	unknown := 0
	for key, j := range listed {
		if !known[key] {
			unknown++
			s.leaseLocked(w, j)
			s.settleLocked(w, j, broker.Release())
		}
	}
	if gone+unknown > 0 {
		s.logLocked(slog.LevelWarn, "jobs: the leases of the store and of the server differed", "worker", w.id, "released", unknown, "lost", gone)
	}
}

// listHeld adds the leases that the store has for w in a queue to listed. It reports
// whether it could read all of them.
func (s *Server) listHeld(ctx context.Context, w *worker, queue string, listed map[leaseKey]*broker.Job) bool {
	q := broker.Query{Queue: queue, Worker: w.id, NoPayload: true, Limit: 1000}
	for {
		callCtx, cancel := context.WithTimeout(ctx, serverCallTimeout)
		page, err := s.broker.Find(callCtx, q)
		cancel()
		if err != nil {
			s.mu.Lock()
			defer s.unlock()
			w.ended = nil
			if ctx.Err() == nil {
				w.suspect = max(w.suspect, 1)
				s.logLocked(slog.LevelWarn, "jobs: cannot list the leases, trying again after the next renewal", "worker", w.id, "error", err)
			}
			return false
		}
		for i := range page.Jobs {
			listed[leaseOf(&page.Jobs[i])] = &page.Jobs[i]
		}
		if page.Cursor == "" {
			return true
		}
		q.Cursor = page.Cursor
	}
}
