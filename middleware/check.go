package middleware

import (
	"math/rand/v2"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

// refuse panics for a field that is outside its limits.
func refuse(field, hint string, args ...any) { panic(broker.Invalid(field, hint, args...)) }

// durationOr fills a zero duration in with its default and refuses one that is
// negative or endless.
func durationOr(field string, d *time.Duration, zero time.Duration) {
	if *d < 0 || *d > broker.MaxDelay {
		refuse(field, "is %v; use more than zero and at most %v, or 0 for %v", *d, time.Duration(broker.MaxDelay), zero)
	}
	if *d == 0 {
		*d = zero
	}
}

// countOr fills a zero count in with its default and refuses a negative one.
func countOr(field string, n *int, zero int) {
	if *n < 0 || *n > maxCount {
		refuse(field, "is %d; use 1 to %d, or 0 for %d", *n, maxCount, zero)
	}
	if *n == 0 {
		*n = zero
	}
}

const maxCount = 1_000_000

// growing is how long a job is put off: min at first, each time half as long
// again as the time before, up to max; a tenth more or less, so that those that
// wait do not come back together.
func growing(min, max time.Duration, job *jobs.Job) time.Duration {
	delay := min
	for range job.Record().Snoozes {
		if delay += delay / 2; delay >= max {
			delay = max
			break
		}
	}
	return delay*9/10 + rand.N(delay/5+1)
}

// typeOf is the key of what is kept per task type.
func typeOf(job *jobs.Job) string { return job.Type() }
