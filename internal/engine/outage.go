package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

const (
	outageLogged    = 10 * time.Second // between the first two log lines of an outage, or of one and the next
	outageLoggedMax = 10 * time.Minute // between later ones; the interval grows

	// watchdogLeases is the number of leases after which a server in an outage opens
	// new connections, and logs at level error. By then other servers have reclaimed
	// its jobs, and a short fault is usually over.
	watchdogLeases = 3
)

// outage is a series of failures. It is logged at once, and again at growing intervals
// while it lasts. Its owner guards it. If one soon follows another, as with a connection that
// breaks all the time, it is logged later, or not at all if it has ended by then.
type outage struct {
	failures int
	since    time.Time // of the first failure
	next     time.Time // when to log again
	err      error     // of the last failure
	logged   bool      // this outage was
	last     time.Time // when an outage was logged last, this one or an earlier one
}

// failed counts a failure and reports whether to log it.
func (o *outage) failed(now time.Time, err error) (log bool) {
	o.err = brief(err)
	if o.failures++; o.failures == 1 {
		o.since, o.next = now, o.last.Add(outageLogged)
	}
	if now.Before(o.next) {
		return false
	}
	o.logged, o.last = true, now
	o.next = now.Add(min(max(now.Sub(o.since), outageLogged), outageLoggedMax))
	return true
}

// loggedErrors is how many errors of one call a line shows. A call for many queues may have one for each, and they
// nearly always have one cause.
const loggedErrors = 3

// brief shortens joined errors to the first ones and their number.
func brief(err error) error {
	if e, ok := err.(*broker.Error); ok {
		short := *e
		short.Err = brief(e.Err)
		return &short
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || len(joined.Unwrap()) <= loggedErrors {
		return err
	}
	all := joined.Unwrap()
	return fmt.Errorf("%w\nand %d more", errors.Join(all[:loggedErrors]...), len(all)-loggedErrors)
}

// ended resets the outage after a success, and reports whether to log that.
func (o *outage) ended() bool {
	logged := o.logged
	*o = outage{last: o.last}
	return logged
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
