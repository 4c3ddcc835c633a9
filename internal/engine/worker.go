package engine

import (
	"cmp"
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
	lapse      time.Time // when the next worker's leases run out unless it renews them; zero if unknown
	steady     time.Time // since when renewals have had no gap
	stored     time.Time // the store's clock at the last renewal

	held   []int // leases not known to have ended, by queue
	leases int   // and in all

	number     int64               // of the settle of items
	items      []broker.Settlement // of the last settle, until it is answered
	done       []broker.Settlement // to be settled after that
	calling    bool                // a call with items is under way
	batchLimit int                 // of items; small after a refused batch
	refused    *broker.Job         // whose outcome was refused, so that it is replaced once

	suspect  int  // audits to make because an answer was lost
	differed int  // renewals in a row that counted other leases than held
	traffic  int  // how often held changed
	audit    bool // upkeep should audit the leases

	ended map[leaseKey]bool // leases that ended during the audit under way, which may have listed them; nil without one
}

// leaseLocked counts a new lease of w. The answer with it may come after w was
// forgotten; w then has something to settle again.
func (s *Server) leaseLocked(w *worker, j *broker.Job) (queue int) {
	s.listLocked(w)
	queue = s.queueOf(j.Queue)
	w.held[queue]++
	w.leases++
	w.traffic++
	return queue
}

// listLocked makes the settler send the outcomes of w.
func (s *Server) listLocked(w *worker) {
	if !w.listed {
		w.listed = true
		s.workers = append(s.workers, w)
	}
}

// holdsNothing reports whether w has no leases.
func (s *Server) holdsNothing(w *worker) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return w.leases == 0
}

// forgetEndedLocked drops a lost worker that has no leases left.
func (s *Server) forgetEndedLocked(w *worker) {
	if w.listed && w.lost && w.leases == 0 && w != s.worker {
		w.listed = false
		s.workers = slices.DeleteFunc(s.workers, func(other *worker) bool { return other == w })
	}
}

// reportWorker has the hook called for the start or the end of a worker.
func (s *Server) reportWorker(kind WorkerEventKind, w *worker, err error) {
	if hook := s.opts.Hooks.Worker; hook != nil {
		s.events.call(func() { hook(WorkerEvent{Kind: kind, Worker: w.id, Err: err}) })
	}
}

// keptLongest is how many of its running jobs a worker shows to operators: more than a screen has lines for,
// and a few KB in each worker's record.
const keptLongest = 32

// longestLocked returns the jobs that w has run for at least atLeast, the longest first.
// Shorter runs do not matter to operators, and would change the list with each
// heartbeat.
func (s *Server) longestLocked(w *worker, atLeast time.Duration) []broker.Running {
	now := time.Now()
	var all []broker.Running
	for _, r := range s.slots.running {
		if r != nil && r.worker == w && !r.started.IsZero() && now.Sub(r.started) >= atLeast {
			all = append(all, broker.Running{Queue: r.Job.Queue, ID: r.Job.ID, Since: s.clock.at(r.started)})
		}
	}
	slices.SortFunc(all, func(a, b broker.Running) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID)) })
	return all[:min(len(all), keptLongest)]
}

// nameTheSame reports whether two lists have the same jobs.
func nameTheSame(a, b []broker.Running) bool {
	return slices.EqualFunc(a, b, func(a, b broker.Running) bool { return a.Queue == b.Queue && a.ID == b.ID })
}
