package engine

import (
	"math"
	"sync/atomic"
	"time"
)

// lookout is when upkeep next has something to do. Any goroutine may make that sooner,
// with or without the lock; only upkeep makes it later. So an idle server sleeps.
type lookout struct {
	began  time.Time
	next   atomic.Int64  // since began, in nanoseconds
	sooner chan struct{} // gets a value when next became sooner
}

func (l *lookout) init() {
	l.began, l.sooner = time.Now(), make(chan struct{}, 1)
	l.clear()
}

// by makes upkeep look at t at the latest. It ignores a zero t.
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

// clear removes the time. Upkeep calls it before it looks; what it finds then calls by
// again.
func (l *lookout) clear() { l.next.Store(math.MaxInt64) }

// in returns how long upkeep may sleep: until next, but at least until floor.
func (l *lookout) in(floor time.Time) time.Duration {
	at := l.began.Add(time.Duration(l.next.Load()))
	if at.Before(floor) {
		at = floor
	}
	return max(time.Until(at), 0)
}
