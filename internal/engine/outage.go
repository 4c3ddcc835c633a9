package engine

import (
	"log/slog"
	"time"
)

const (
	outageLogged    = 10 * time.Second // between the first two log lines of an outage
	outageLoggedMax = 10 * time.Minute // between later ones; the interval grows

	// watchdogLeases is the number of leases after which a server in an outage opens
	// new connections, and logs at level error. By then other servers have reclaimed
	// its jobs, and a short fault is usually over.
	watchdogLeases = 3
)

// outage is a series of failures. It is logged at once, and again at growing intervals
// while it lasts. Its owner guards it.
type outage struct {
	failures int
	since    time.Time // of the first failure
	next     time.Time // when to log again
	err      error     // of the last failure
}

// failed counts a failure and reports whether to log it.
func (o *outage) failed(now time.Time, err error) (log bool) {
	o.err = err
	if o.failures++; o.failures == 1 {
		o.since = now
	} else if now.Before(o.next) {
		return false
	}
	o.next = now.Add(min(max(now.Sub(o.since), outageLogged), outageLoggedMax))
	return true
}

// ended resets the outage after a success, and reports whether there were failures.
func (o *outage) ended() bool {
	were := o.failures > 0
	*o = outage{}
	return were
}

// args returns the attributes of a log line about the outage.
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
