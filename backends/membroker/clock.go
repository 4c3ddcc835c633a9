package membroker

import (
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// instant is a reading of the clock in microseconds (§15). What is compared
// with a due time or a deadline is rounded down, so that nothing is early; what
// is stored or counted from is rounded up.
type instant struct{ floor, ceil int64 }

func instantOf(t time.Time) instant { return instant{floor: t.UnixMicro(), ceil: broker.Micros(t)} }

// reached reports whether the stored time at has come.
func (now instant) reached(at int64) bool { return at <= now.floor }

func (now instant) plus(d time.Duration) int64 { return now.ceil + broker.DurationMicros(d) }

// due is when a job with this delay or run time is due; ahead says that this
// is still to come.
func (now instant) due(delay time.Duration, runAt time.Time) (at int64, ahead bool) {
	at = now.floor
	if delay > 0 {
		at = now.plus(delay)
	} else if !runAt.IsZero() {
		at = broker.Micros(runAt)
	}
	return at, !now.reached(at)
}

// stamp is now as it is stored in a record.
func (now instant) stamp() time.Time { return broker.FromMicros(now.ceil) }

// answer is now as it is told to callers.
func (now instant) answer() time.Time { return broker.FromMicros(now.floor) }

// upTo rounds a duration up to what the store keeps of it.
func upTo(d time.Duration) time.Duration {
	return time.Duration(broker.DurationMicros(d)) * time.Microsecond
}

// earlier is the earlier of t, when it is set, and the stored time at.
func earlier(t time.Time, at int64) time.Time {
	if at == never {
		return t
	}
	if u := broker.FromMicros(at); t.IsZero() || u.Before(t) {
		return u
	}
	return t
}
