package jobs

import (
	"math/rand/v2"
	"time"

	"github.com/seed81422ce9/jobs/internal/sleep"
)

// RetryFunc returns the delay before the next run of a job that failed with
// err. attempt is the number of failures before this one: 0 after the first. A
// negative delay means none; the longest is 100 years. Several goroutines call it
// at once.
type RetryFunc func(attempt int, err error, job *Job) time.Duration

// Exponential returns a policy with a random delay between zero and base·2ⁿ, at most
// max, where n is the attempt, from zero. So jobs that failed at the same time run
// again at different times. A max of zero or less means 100 years.
func Exponential(base, max time.Duration) RetryFunc {
	return func(attempt int, _ error, _ *Job) time.Duration {
		if ceiling := sleep.Doubled(base, attempt, max); ceiling > 0 {
			return rand.N(ceiling) + 1
		}
		return 0
	}
}

// Linear returns a policy with a delay of base·(n+1), at most max, where n is the
// attempt, from zero. A max of zero or less means 100 years; a base of zero or less
// means no delay.
func Linear(base, max time.Duration) RetryFunc {
	return func(attempt int, _ error, _ *Job) time.Duration {
		if base <= 0 {
			return 0
		}
		ceiling := sleep.Ceiling(max)
		if n := time.Duration(attempt) + 1; n <= ceiling/base {
			return base * n
		}
		return ceiling
	}
}

// Constant returns a policy with the delay d after each failure.
func Constant(d time.Duration) RetryFunc {
	return func(int, error, *Job) time.Duration { return d }
}

// defaultRetry is the policy if Config.RetryPolicy is nil. With it, the 25 retries of a
// job spread over three and a half days on average.
var defaultRetry = Exponential(10*time.Second, 12*time.Hour)
