package engine

import "time"

// TypeLimit bounds how many handlers of the types of one pattern run at once.
type TypeLimit struct {
	Pattern string
	Max     int
}

// typeLimit is a TypeLimit and the runs under it. A claim cannot choose types, so it also
// returns jobs of a type at its limit. Their runs wait aside: leased, but without a slot,
// so that jobs of other types get the slots. No other server can run them meanwhile, so at
// most Concurrency runs of a queue wait aside: as many as one claim may bring. At that
// number the server claims no more of the queue until one of them may begin.
type typeLimit struct {
	TypeLimit
	holding int      // runs that may begin or have begun
	aside   runQueue // runs that wait for one of these to end
}

// limitOf returns the limit for a type, or nil.
func (p *slots) limitOf(typ string) *typeLimit {
	if len(p.types) == 0 {
		return nil
	}
	if i := p.typeOf(typ); i >= 0 {
		return &p.types[i]
	}
	return nil
}

// full reports whether no other run may begin.
func (l *typeLimit) full() bool { return l.holding >= l.Max }

// putsAside reports whether the run of a job that is claimed now has to wait: because the
// limit is reached, or because other runs wait for the limit already.
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

// asideRoom returns how many more runs of a queue may wait aside.
func (p *slots) asideRoom(queue int) int { return max(0, p.concurrency-p.aside[queue]) }

// putAside makes a run wait until the limit of its type admits it.
func (p *slots) putAside(r *Run) {
	r.aside = true
	r.limited.aside.push(r)
	p.aside[r.queue]++
}

// enterAside admits runs that wait aside, in their order, as far as the limits of their
// types and queues allow, and while fewer than max runs are held.
func (p *slots) enterAside(max int, now time.Time) {
	if p.closed {
		return
	}
	for t := range p.types {
		l := &p.types[t]
		for i := 0; i < l.aside.len() && !l.full() && p.holding < max; {
			if p.full(l.aside.at(i).queue) {
				i++
				continue
			}
			p.leaveAside(l, i, now)
		}
	}
}

// enterEnded admits, whatever the limits, runs that wait aside and whose context has
// ended: their handler is not called, and their outcome should be known now.
func (p *slots) enterEnded(now time.Time) {
	for t := range p.types {
		l := &p.types[t]
		for i := 0; i < l.aside.len(); {
			if cause, _ := l.aside.at(i).Over(now); cause == nil {
				i++
				continue
			}
			p.leaveAside(l, i, now)
		}
	}
}

// leaveAside admits the i-th run that waits aside.
func (p *slots) leaveAside(l *typeLimit, i int, now time.Time) {
	r := l.aside.take(i)
	p.exit(r)
	p.enter(r, now)
	p.freed(r.queue, now)
	p.occupy()
}

// TypeStats is a TypeLimit and the jobs of a server under it at a moment.
type TypeStats struct {
	TypeLimit
	Running int // handlers that have not returned
	Waiting int // claimed jobs that wait for one of these handlers to return
}

// typeStats returns the TypeStats of each limit.
func (p *slots) typeStats() []TypeStats {
	stats := make([]TypeStats, len(p.types))
	for t := range p.types {
		l := &p.types[t]
		stats[t] = TypeStats{TypeLimit: l.TypeLimit, Waiting: l.aside.len()}
		p.eachActive(func(r *Run) {
			if r.limited == l {
				stats[t].Running++
			}
		})
	}
	return stats
}
