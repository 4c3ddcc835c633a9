package pgbroker

import (
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// clock is a request's Now as statements take it: rounded down, so that nothing happens
// early, or nil for the store's own clock.
type clock struct {
	micros *int64
	frac   int64 // 1 if Now was rounded down, which after adds again; otherwise 0
}

func clockOf(now time.Time) clock {
	if now.IsZero() {
		return clock{}
	}
	us := now.UnixMicro()
	return clock{micros: &us, frac: broker.Micros(now) - us}
}

// after returns d in µs, rounded up, to be added to the clock.
func (c clock) after(d time.Duration) int64 { return broker.DurationMicros(d) + c.frac }
