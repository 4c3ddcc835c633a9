package engine

import (
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// A slot that waits for the next claim's reply does nothing. While handlers
// are about as quick as a claim, some jobs are therefore fetched before there
// is a slot for them; they wait behind running ones, so only as many as start
// within prefetchWork.
const (
	prefetchWork  = 20 * time.Millisecond
	prefetchFloor = time.Millisecond      // handlers this quick count as quicker than a round trip
	prefetchStale = 50 * time.Millisecond // those that did not start by then are given back

	// How often it is looked for those. Between two looks they wait for no longer
	// than that, whatever a clock says: a process that stood still had no slot
	// free, but not because its handlers were slow.
	prefetchLook = 10 * time.Millisecond
)

// measure takes in how long a handler took. Slow ones count more, so that a
// change to slow jobs ends the prefetch at once and a few quick ones do not
// bring it back.
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

// allowanceLocked is how many jobs may be held beyond the slots.
func (s *Server) allowanceLocked() int {
	f := &s.fetcher
	if s.opts.Prefetch == 0 || s.slots.guardedActive > 0 || !f.measured || f.took > max(2*f.trip, prefetchFloor) {
		return 0
	}
	n := time.Duration(s.opts.Concurrency) * prefetchWork / max(f.took, time.Microsecond)
	return int(min(n, time.Duration(s.opts.Prefetch)))
}

// capacityLocked is how many jobs may be held, and be on their way, at once.
func (s *Server) capacityLocked() int { return s.opts.Concurrency + s.allowanceLocked() }

// plentyLocked reports whether two claims may be under way at a time: handlers are
// quick, and the last claim left jobs behind. With a type at its limit one claim has
// to say what waits aside before the next one asks for more.
func (s *Server) plentyLocked() bool {
	f := &s.fetcher
	return f.gave && !f.exhausted && s.allowanceLocked() > 0 && !s.slots.typeFull()
}

// roomAheadLocked reports whether another claim is worth sending now.
func (s *Server) roomAheadLocked() bool {
	want, _ := s.wantLocked()
	return s.fetcher.flying < 2 && s.plentyLocked() && want > 0 && want >= s.capacityLocked()/4
}

// A stream of quick jobs that comes slower than it is handled would be claimed
// a few jobs at a time, as fast as the store answers: all its time would go into
// that. Such claims are therefore about as far apart as one of them takes,
// except where that is next to nothing.
const (
	fewest    = 8 // jobs in an answer of such a stream; for fewer nothing is held up
	shortTrip = 50 * time.Microsecond
	minPause  = 300 * time.Microsecond
	maxPause  = 3 * time.Millisecond
)

// paceLocked is when the next claim is worth sending.
func (s *Server) paceLocked() time.Time {
	f := &s.fetcher
	if f.trip < shortTrip || !f.exhausted || f.got < fewest || f.got >= s.capacityLocked()/4 || s.allowanceLocked() == 0 {
		return time.Time{}
	}
	return f.replied.Add(min(max(f.trip, minPause), maxPause))
}

// wantLocked is how many jobs a claim may bring now, beside those under way, and free
// how many of these find a slot.
func (s *Server) wantLocked() (want, free int) {
	free = s.slots.room() - s.slots.holding - s.fetcher.asked
	want = min(free+s.allowanceLocked(), broker.MaxClaim)
	if s.settler.unsettled > maxUnsettled || s.slots.guarded.len() > 0 {
		want = 0 // what is done cannot be recorded, or must wait for a careful job: do not take more
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

// giveUpSurplusLocked ends the claim that waits when it would bring jobs for which
// there is no slot: another server's claim may wait for them, too. Among them are
// those that this one gives back.
func (s *Server) giveUpSurplusLocked() {
	f := &s.fetcher
	if !f.waiting {
		return
	}
	if want, _ := s.wantLocked(); want == 0 || f.surplus > 0 && s.allowanceLocked() == 0 {
		f.giveUp()
	}
}
