package engine

import "time"

// TypeLimit bounds how many handlers of the types of one pattern run at once.
type TypeLimit struct {
	Pattern string
	Max     int
}

// typeLimit is a TypeLimit at work. A claim cannot tell types apart, so it brings
// jobs of a type at its limit, too. They wait aside: leased, but without a slot,
// so that jobs of other types have the slots. As each of them is kept from other
// servers, no more of a queue wait so than there are slots: what one answer may
// bring. After that nothing is claimed of the queue until one of them begins.
// Guarded by Server.mu.
type typeLimit struct {
	TypeLimit
	holding int      // runs that may begin or have begun
	aside   jobQueue // that may not
}

// limitOf is the limit for a type, or nil.
func (s *Server) limitOf(typ string) *typeLimit {
	if len(s.slots.types) == 0 {
		return nil
	}
	if i := s.opts.TypeLimitOf(typ); i >= 0 {
		return &s.slots.types[i]
	}
	return nil
}

// full reports whether no other run may begin.
func (l *typeLimit) full() bool { return l.holding >= l.Max }

// putsAside reports whether a job that was claimed now has to wait: for room, or
// behind those that do.
func (l *typeLimit) putsAside() bool { return l != nil && (l.full() || l.aside.len() > 0) }

// typeFull reports whether some type is at its limit.
func (p *slots) typeFull() bool {
	for t := range p.types {
		if p.types[t].full() {
			return true
		}
	}
	return false
}

// asideRoomLocked is how many more jobs of a queue may wait aside.
func (s *Server) asideRoomLocked(queue int) int {
	return max(0, s.opts.Concurrency-s.slots.aside[queue])
}

// putAsideLocked has a run wait until its type has room.
func (s *Server) putAsideLocked(r *Run) {
	r.aside = true
	r.limited.aside.push(r)
	s.slots.aside[r.queue]++
}

// enterLocked has a run take its turn for a slot.
func (s *Server) enterLocked(r *Run, now time.Time) {
	p := &s.slots
	p.held[r.queue]++
	p.holding++
	if r.limited != nil {
		r.limited.holding++
	}
	if s.careful(r.Job) {
		s.awaitLocked(r, now)
		return
	}
	r.since = s.fetcher.patience
	p.ready.push(r)
}

// exitLocked takes a run out of the counts, wherever it is.
func (s *Server) exitLocked(r *Run) {
	p := &s.slots
	if r.aside {
		r.aside = false
		p.aside[r.queue]--
		return
	}
	p.holding--
	p.held[r.queue]--
	if r.limited != nil {
		r.limited.holding--
	}
}

// enterAsideLocked lets in what waits aside, in its order, as far as its type, its
// queue and the server have room. A run that ends makes room, so that this takes
// nothing from the jobs that a claim under way brings.
func (s *Server) enterAsideLocked(now time.Time) {
	p := &s.slots
	if s.isDrain {
		return
	}
	for t := range p.types {
		l := &p.types[t]
		for i := 0; i < l.aside.len() && !l.full() && p.holding+s.fetcher.asked < s.capacityLocked(); {
			r := l.aside.at(i)
			if limit := p.limit[r.queue]; limit > 0 && p.held[r.queue] >= limit {
				i++
				continue
			}
			s.leaveAsideLocked(l, i, now)
		}
	}
}

// enterEndedLocked lets in, whatever the limits, what waits aside and whose context
// has ended: no handler runs for it, and its outcome is to be known now.
func (s *Server) enterEndedLocked(now time.Time) {
	for t := range s.slots.types {
		l := &s.slots.types[t]
		for i := 0; i < l.aside.len(); {
			if cause, _ := l.aside.at(i).Over(now); cause == nil {
				i++
				continue
			}
			s.leaveAsideLocked(l, i, now)
		}
	}
}

// leaveAsideLocked has the i-th of the runs that wait aside enter.
func (s *Server) leaveAsideLocked(l *typeLimit, i int, now time.Time) {
	r := l.aside.take(i)
	s.exitLocked(r)
	s.enterLocked(r, now)
	s.fetcher.freed(r.queue, now)
	s.occupyLocked()
}

// TypeStats is what a server does under a TypeLimit at a moment.
type TypeStats struct {
	TypeLimit
	Running int // handlers that have not returned
	Waiting int // jobs that are claimed and wait for one of these to return
}

// Types tells so for each limit.
func (s *Server) Types() []TypeStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := make([]TypeStats, len(s.slots.types))
	for t := range s.slots.types {
		l := &s.slots.types[t]
		stats[t] = TypeStats{TypeLimit: l.TypeLimit, Waiting: l.aside.len()}
		s.eachActiveLocked(func(r *Run) {
			if r.limited == l {
				stats[t].Running++
			}
		})
	}
	return stats
}
