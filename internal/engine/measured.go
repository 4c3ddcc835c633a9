package engine

import (
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// waitedLocked is how long a job waited for its first run, from when it was first to
// run; zero for other runs. A job that was released before it began has not run.
// What was rescheduled, redriven or held has other times than its body says.
func (s *Server) waitedLocked(r *Run) time.Duration {
	j := r.Job
	if j.Epoch != int64(j.Deliveries) || j.Failures+j.Snoozes+j.Crashes > 0 {
		return 0
	}
	return measured(s.clock.at(r.started).Sub(j.CreatedAt) - j.DueAfter)
}

// measured is d as a settlement tells it: what took no time counts, too, and a clock
// that was set changes no more than one measurement.
func measured(d time.Duration) time.Duration {
	return min(max(d, time.Microsecond), broker.MaxDelay)
}
