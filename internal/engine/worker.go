package engine

import (
	"log/slog"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// worker is one ID under which the server claims, from its registration until
// it is lost or retired. Guarded by Server.mu.
type worker struct {
	id         string
	listed     bool              // in Server.workers, whose outcomes are sent
	info       broker.WorkerInfo // as the store has it, once it is registered
	registered bool
	lost       bool
	renewed    time.Time // when the last successful renewal was sent
	lapse      time.Time // when somebody's leases run out, if nobody renews them; zero when nobody knows
	steady     time.Time // since when renewals have had no gap
	stored     time.Time // the store's clock at the last renewal

	held   []int // leases not known to have ended, by queue
	leases int   // and in all

	number     int64 // of the settle in items
	items      []broker.Settlement
	done       []broker.Settlement // to be settled after that
	calling    bool                // items are under way
	batchLimit int
	refused    *broker.Job

	suspect  int // audits to make because an answer was lost
	differed int // renewals in a row that counted other leases than held
	traffic  int // changes of held
	audit    bool
}

func (s *Server) newWorker() *worker {
	return &worker{id: s.opts.NewID(), held: make([]int, len(s.names)), batchLimit: maxSettleItems}
}

// leaseLocked counts a lease that w got. The answer that told of it may come after w
// was forgotten; it then has something to settle again.
func (s *Server) leaseLocked(w *worker, j *broker.Job) (queue int) {
	s.listLocked(w)
	queue = s.queueOf(j.Queue)
	w.held[queue]++
	w.leases++
	w.traffic++
	return queue
}

// lose ends w: its handlers' contexts end, and what no handler has begun is
// dropped. The handlers keep their slots until they return, and what they
// return is settled all the same, for as long as nobody has taken the job.
func (s *Server) lose(w *worker, why string) {
	s.mu.Lock()
	w.lost = true
	if s.fetcher.waiting {
		s.fetcher.giveUp() // it would get nothing, and keep the next worker from waiting
	}
	now := time.Now()
	s.unreadyAllLocked(w, now)
	handlers := 0
	s.eachActiveLocked(func(r *Run) {
		if r.worker == w {
			handlers++
			s.stop(r, broker.ErrLeaseLost, now)
		}
	})
	s.mu.Unlock()
	s.tellWorker(WorkerLost, w, nil)
	s.events.line(slog.LevelError, "jobs: the worker was lost, starting anew under another ID", "worker", w.id, "reason",
		why, "handlers", handlers)
}

// listLocked has the outcomes of w sent.
func (s *Server) listLocked(w *worker) {
	if !w.listed {
		w.listed = true
		s.workers = append(s.workers, w)
	}
}

// holdsNothing reports whether nothing would be lost with w.
func (s *Server) holdsNothing(w *worker) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return w.leases == 0
}

// forgetEndedLocked drops a lost worker that holds nothing any more.
func (s *Server) forgetEndedLocked(w *worker) {
	if w.listed && w.lost && w.leases == 0 && w != s.worker {
		w.listed = false
		s.workers = slices.DeleteFunc(s.workers, func(other *worker) bool { return other == w })
	}
}

// cancelRunLocked ends the contexts of a job's runs because it was cancelled. One
// that has not begun never will.
func (s *Server) cancelRunLocked(queue, id string) {
	now := time.Now()
	cancel := func(r *Run) {
		if j := r.Job; j.ID == id && j.Queue == queue {
			s.stop(r, ErrCancelled, now)
		}
	}
	s.eachActiveLocked(cancel)
	s.slots.eachWaiting(cancel)
	s.enterEndedLocked(now)
}
