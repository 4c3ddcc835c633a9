package engine

import (
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// A slot that waits for the answer to a claim is idle. So while handlers are about as
// quick as a claim, some jobs are claimed before there is a slot for them. They wait for
// running ones to end, so only as many are claimed as start within prefetchWork: some round trips.
const (
	prefetchWork  = 20 * time.Millisecond
	prefetchFloor = time.Millisecond      // handlers this quick count as quicker than a round trip
	prefetchStale = 50 * time.Millisecond // jobs that have not started by then, twice prefetchWork and more, are released

	// prefetchLook is how often the loop looks for stale jobs. At most this much time
	// counts between two looks: while the process was suspended, slots were taken, but
	// not because handlers were slow.
	prefetchLook = 10 * time.Millisecond
)

// measure adds the duration of a handler to the mean. Slow ones count more, so that
// slow jobs end the prefetch at once, and a few quick ones do not start it again.
func (f *fetcher) measure(took time.Duration) {
	switch {
	case !f.measured:
		f.measured, f.took = true, took
	case took > f.took:
		f.took += (took - f.took) / 8
	default:
		f.took -= (f.took - took) / 32
	}
}

// allowanceLocked returns how many jobs may be held beyond the slots.
func (s *Server) allowanceLocked() int {
	f := &s.fetcher
	if s.opts.Prefetch == 0 || s.slots.guardedActive > 0 || !f.measured || f.took > max(2*f.trip, prefetchFloor) {
		return 0
	}
	n := time.Duration(s.opts.Concurrency) * prefetchWork / max(f.took, time.Microsecond)
	return int(min(n, time.Duration(s.opts.Prefetch)))
}

// capacityLocked returns how many jobs may be held, or be asked for, at once.
func (s *Server) capacityLocked() int { return s.opts.Concurrency + s.allowanceLocked() }

// plentyLocked reports whether two claims may be under way at a time: handlers are
// quick, and the last claim left jobs in the store. While a type is at its limit, there
// is one claim at a time: its answer shows how many jobs wait aside.
func (s *Server) plentyLocked() bool {
	f := &s.fetcher
	return f.gave && !f.exhausted && s.allowanceLocked() > 0 && !s.slots.typeFull()
}

// roomAheadLocked reports whether another claim is worth sending now.
func (s *Server) roomAheadLocked() bool {
	want, _ := s.wantLocked()
	return s.fetcher.flying < 2 && s.plentyLocked() && want > 0 && want >= s.capacityLocked()/4
}

// Quick jobs that are enqueued more slowly than they are handled would be claimed a few
// at a time, as fast as the store answers, and the claims would take all of its time.
// So such claims have a pause between them of about their own duration.
const (
	fewest    = 8                     // jobs in an answer; fewer are rare enough to claim without a pause
	shortTrip = 50 * time.Microsecond // quicker claims need no pause
	minPause  = 300 * time.Microsecond
	maxPause  = 3 * time.Millisecond
)

// paceLocked returns when the next claim is worth making.
func (s *Server) paceLocked() time.Time {
	f := &s.fetcher
	if f.trip < shortTrip || !f.exhausted || f.got < fewest || f.got >= s.capacityLocked()/4 || s.allowanceLocked() == 0 {
		return time.Time{}
	}
	return f.replied.Add(min(max(f.trip, minPause), maxPause))
}

// wantLocked returns how many jobs a claim may ask for now, in addition to the claims under
// way, and for how many of these jobs a slot is free.
func (s *Server) wantLocked() (want, free int) {
	free = s.slots.room() - s.slots.holding - s.fetcher.asked
	want = min(free+s.allowanceLocked(), broker.MaxClaim)
	if s.settler.unsettled > maxUnsettled || s.slots.guarded.len() > 0 {
		want = 0 // the store takes no outcomes, or slots must become free for a guarded run
	}
	return max(want, 0), max(free, 0)
}

// takeStale removes and returns the runs that had no slot for prefetchStale.
func (p *slots) takeStale(now time.Time) (stale []*Run) {
	p.watched += min(now.Sub(p.looked), prefetchLook)
	p.looked = now
	for p.ready.len() > 0 && p.watched-p.ready.peek().since >= prefetchStale {
		stale = append(stale, p.ready.pop())
	}
	return stale
}

// releaseStaleLocked releases prefetched jobs that did not start in time: another server
// may have a slot for them.
func (s *Server) releaseStaleLocked(now time.Time) {
	for _, r := range s.slots.takeStale(now) {
		s.releaseLocked(r)
		s.fetcher.took = max(s.fetcher.took, prefetchStale)
	}
	s.enterAsideLocked(now)
}

// giveUpSurplusLocked ends the claim that waits if it would return jobs for which there
// is no slot. It could even return the jobs that this server releases for other servers.
func (s *Server) giveUpSurplusLocked() {
	f := &s.fetcher
	if !f.waiting {
		return
	}
	if want, _ := s.wantLocked(); want == 0 || f.surplus > 0 && s.allowanceLocked() == 0 {
		f.giveUp()
	}
}
