package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

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
