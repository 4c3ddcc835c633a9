package sleep

import (
	"math/rand/v2"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Doubled is base·2ⁿ, at most max. A max of zero or less, or beyond it, means
// broker.MaxDelay.
func Doubled(base time.Duration, n int, max time.Duration) time.Duration {
	ceiling := Ceiling(max)
	if n >= 63 || base > ceiling>>n {
		return ceiling
	}
	return base << n
}

// Ceiling is max, or broker.MaxDelay where max is none.
func Ceiling(max time.Duration) time.Duration {
	if max <= 0 || max > broker.MaxDelay {
		return broker.MaxDelay
	}
	return max
}

// Jitter draws from the upper part of d: a spread of 0.5 gives the half of it
// at least.
func Jitter(d time.Duration, spread float64) time.Duration {
	return d - time.Duration(rand.Float64()*spread*float64(d))
}
