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

// loudness is the level for telling of an outage that has lasted so long.
func (s *Server) loudness(lasting time.Duration) slog.Level {
	if lasting >= watchdogLeases*s.opts.Lease {
		return slog.LevelError
	}
	return slog.LevelWarn
}

// watchdog has the broker open new connections, if it can, when no registration,
// no renewal or no claim has succeeded for several leases, and again after as
// many. It reports whether it did so.
func (s *Server) watchdog(now time.Time) bool {
	s.mu.Lock()
	bound := watchdogLeases * s.opts.Lease
	over := func(o *outage) bool { return o.failures > 0 && now.Sub(o.since) >= bound }
	f := &s.fetcher
	due := now.Sub(s.restarted) >= bound &&
		(over(&s.unregistered) || over(&s.unrenewed) || over(&f.away) && now.Sub(f.succeeded) >= bound)
	if due {
		s.restarted = now
	}
	s.mu.Unlock()
	if due {
		s.broker.Reconnect()
	}
	return due
}
