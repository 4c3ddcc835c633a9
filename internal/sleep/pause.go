package sleep

import (
	"math/rand/v2"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Doubled returns base·2ⁿ, at most max. If max is not positive, or above broker.MaxDelay, the limit is
// broker.MaxDelay. A negative base counts as zero, and so does a negative n, which a damaged record can have.
func Doubled(base time.Duration, n int, max time.Duration) time.Duration {
	ceiling := Ceiling(max)
	if base <= 0 {
		return 0
	}
	if n < 0 {
		n = 0
	}
	if n >= 63 || base > ceiling>>n {
		return ceiling
	}
	return base << n
}

// Ceiling returns max, or broker.MaxDelay if max is not positive or is above broker.MaxDelay.
func Ceiling(max time.Duration) time.Duration {
	if max <= 0 || max > broker.MaxDelay {
		return broker.MaxDelay
	}
	return max
}

// Jitter returns a random duration in the upper part of d: with a spread of 0.5, at least half of d.
func Jitter(d time.Duration, spread float64) time.Duration {
	return d - time.Duration(rand.Float64()*spread*float64(d))
}
