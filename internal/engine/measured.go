package engine

import (
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// waitedLocked returns how long a job waited for its first run since it was first due,
// or zero for later runs. Jobs that were rescheduled, redriven or held count as later
// runs, because their body does not say when they became due.
func (s *Server) waitedLocked(r *Run) time.Duration {
	j := r.Job
	if j.Epoch != int64(j.Deliveries) || j.Failures+j.Snoozes+j.Crashes > 0 {
		return 0
	}
	return measured(s.clock.at(r.started).Sub(j.CreatedAt) - j.DueAfter)
}

// measured bounds a duration for a settlement: zero would mean that nothing was
// measured, and a clock that was set could make it negative or too long.
func measured(d time.Duration) time.Duration {
	return min(max(d, time.Microsecond), broker.MaxDelay)
}
