package engine

import (
	"log/slog"
	"time"
)

const (
	outageTold    = 10 * time.Second // between the first two log lines of an outage
	outageToldMax = 10 * time.Minute // between later ones, which come ever further apart

	// watchdogLeases is for how many leases a server bears that nothing works
	// before it starts over: others have had time to take over what it held, and
	// three tells a fault that stays from one that goes away by itself.
	watchdogLeases = 3
)

// outage is a row of failures. It is told of at once, and again at growing
// intervals for as long as it lasts. Who has one guards it.
type outage struct {
	failures int
	since    time.Time // of the first failure
	next     time.Time // when to tell again
	err      error     // of the last failure
}

// failed counts a failure and reports whether to tell of it.
func (o *outage) failed(now time.Time, err error) (tell bool) {
	o.err = err
	if o.failures++; o.failures == 1 {
		o.since = now
	} else if now.Before(o.next) {
		return false
	}
	o.next = now.Add(min(max(now.Sub(o.since), outageTold), outageToldMax))
	return true
}

// ended begins anew and reports whether there were failures.
func (o *outage) ended() bool {
	were := o.failures > 0
	*o = outage{}
	return were
}

// args is what a log line tells of an outage.
func (o *outage) args(more ...any) []any {
	return append(more, "error", o.err, "failures", o.failures, "lasting", time.Since(o.since).Round(time.Millisecond))
}

// level returns the level at which the outage is logged: an error once it has lasted for
// several leases.
func (o *outage) level(now time.Time, lease time.Duration) slog.Level {
	if now.Sub(o.since) >= watchdogLeases*lease {
		return slog.LevelError
	}
	return slog.LevelWarn
}
