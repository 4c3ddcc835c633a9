// Package field checks the fields of what configures a middleware. Its
// functions panic for a field that is outside its limits: chains are written
// down once, where a program starts.
package field

import (
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Refuse panics for a field that is outside its limits, with an error that is
// broker.ErrInvalid.
func Refuse(name, hint string, args ...any) { panic(broker.Invalid(name, hint, args...)) }

// DurationOr fills a zero duration in with its default and refuses one that is
// negative or endless.
func DurationOr(name string, d *time.Duration, zero time.Duration) {
	if *d < 0 || *d > broker.MaxDelay {
		Refuse(name, "is %v; use more than zero and at most %v, or 0 for %v", *d, time.Duration(broker.MaxDelay), zero)
	}
	if *d == 0 {
		*d = zero
	}
}

// MaxCount is more than any count of a middleware needs, and far from overflowing.
const MaxCount = 1_000_000

// CountOr fills a zero count in with its default and refuses a negative one.
func CountOr(name string, n *int, zero int) {
	if *n < 0 || *n > MaxCount {
		Refuse(name, "is %d; use 1 to %d, or 0 for %d", *n, MaxCount, zero)
	}
	if *n == 0 {
		*n = zero
	}
}
