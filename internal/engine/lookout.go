package engine

import (
	"math"
	"sync/atomic"
	"time"
)

// lookout is when upkeep has something to do next. Anybody may make that
// sooner, with or without a lock; upkeep alone makes it later. So a server that
// has nothing to do sleeps.
type lookout struct {
	began  time.Time
	next   atomic.Int64  // since began, in nanoseconds
	sooner chan struct{} // next came nearer
}

func (l *lookout) init() {
	l.began, l.sooner = time.Now(), make(chan struct{}, 1)
	l.clear()
}

// by has upkeep look at t at the latest. A zero t is no time.
func (l *lookout) by(t time.Time) {
	if t.IsZero() {
		return
	}
	at := int64(t.Sub(l.began))
	for next := l.next.Load(); at < next; next = l.next.Load() {
		if l.next.CompareAndSwap(next, at) {
			poke(l.sooner)
			return
		}
	}
}

// clear forgets the time. What is looked at afterwards tells of it anew.
func (l *lookout) clear() { l.next.Store(math.MaxInt64) }

// in is how long upkeep may sleep, and not beyond what floor says either.
func (l *lookout) in(floor time.Time) time.Duration {
	at := l.began.Add(time.Duration(l.next.Load()))
	if at.Before(floor) {
		at = floor
	}
	return max(time.Until(at), 0)
}
