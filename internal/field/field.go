// Package field checks the fields of middleware configurations. Its functions panic if a field is
// outside its limits, because a program builds its chains once, when it starts.
package field

import (
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Refuse panics with an error that is broker.ErrInvalid.
func Refuse(name, hint string, args ...any) { panic(broker.Invalid(name, hint, args...)) }

// Least is the shortest duration that makes sense: less is a number that lacks its unit, 60 for 60*time.Second.
const Least = time.Millisecond

// Duration refuses a duration other than zero that is shorter than Least or longer than broker.MaxDelay. zero
// says what zero means.
func Duration(name string, d time.Duration, zero string) {
	if d != 0 && (d < Least || d > broker.MaxDelay) {
		Refuse(name, "is %v; use %v to %v, or 0 for %s", d, Least, broker.MaxDelay, zero)
	}
}

// DurationOr checks a duration as Duration does, and replaces zero with a default.
func DurationOr(name string, d *time.Duration, zero time.Duration) {
	Duration(name, *d, zero.String())
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
