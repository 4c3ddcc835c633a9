// Package field checks the fields of middleware configurations. Its functions panic if a field is
// outside its limits, because a program builds its chains once, when it starts.
package field

import (
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Refuse panics with an error that is broker.ErrInvalid.
func Refuse(name, hint string, args ...any) { panic(broker.Invalid(name, hint, args...)) }

// DurationOr replaces a zero duration with its default. It refuses a duration that is negative or
// longer than broker.MaxDelay.
func DurationOr(name string, d *time.Duration, zero time.Duration) {
	if *d < 0 || *d > broker.MaxDelay {
		Refuse(name, "is %v; use more than zero and at most %v, or 0 for %v", *d, broker.MaxDelay, zero)
	}
	if *d == 0 {
		*d = zero
	}
}

// MaxCount is larger than any useful count and far from overflowing.
const MaxCount = 1_000_000

// CountOr replaces a zero count with its default. It refuses a count that is negative or larger than
// MaxCount.
func CountOr(name string, n *int, zero int) {
	if *n < 0 || *n > MaxCount {
		Refuse(name, "is %d; use 1 to %d, or 0 for %d", *n, MaxCount, zero)
	}
	if *n == 0 {
		*n = zero
	}
}
