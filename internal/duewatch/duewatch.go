// Package duewatch decides which processes look when a job falls due. If all idle processes
// of a fleet did, one job would cost as much as there are of them.
//
// A process watches the due times of a queue until it comes for one and finds that another
// was quicker; that one watches on. It watches again once it gets a job of the queue, or is
// woken for it. So each look in vain follows a job that the process got. A process that
// stops watching, because it has no room left or ends, has the store wake another. If it is
// killed, the next claim of another process finds what is due.
package duewatch

import (
	"sync"
	"time"
)

// Watch remembers what one worker of a process knows of the due times of its queues. The zero
// value is ready for use, from any goroutine.
type Watch struct {
	mu     sync.Mutex
	worker string
	queues map[string]known
}

// known is what the last look at a queue told.
type known struct {
	due     time.Time
	claimed int64
	away    bool // another process watches
	called  bool // since that look
}

// Look is what a claim learned of a queue.
type Look struct {
	Queue   string
	Due     time.Time // when time next makes a job claimable; zero for never
	Claimed int64     // jobs claimed from the queue so far, by all workers; -1 if that is not known
	Keep    bool      // the claim got a job of the queue, or the process was woken for it
}

// Called says that this process was woken for queues, or is to watch them for another reason. It
// holds for the next look, too.
func (w *Watch) Called(queues ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, q := range queues {
		if k, ok := w.queues[q]; ok {
			k.away, k.called = false, true
			w.queues[q] = k
		}
	}
}

// Looked records the looks of a claim, which ended at a time by the store's clock.
func (w *Watch) Looked(worker string, now time.Time, looks []Look) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.worker != worker || w.queues == nil {
		w.worker, w.queues = worker, make(map[string]known)
	}
	for _, l := range looks {
		before, ok := w.queues[l.Queue]
		if !ok {
			before.claimed = -1
		}
		k := known{due: l.Due, claimed: l.Claimed, away: before.away}
		if l.Claimed < 0 {
			k.claimed = before.claimed
		}
		switch {
		case l.Keep || l.Due.IsZero() || before.called: // who makes a first due time wakes a process
			k.away = false
		case before.taken(now, &l):
			k.away = true
		}
		w.queues[l.Queue] = k
	}
}

// taken reports whether a look came for a due time, and another process was quicker.
func (k known) taken(now time.Time, l *Look) bool {
	came := !k.due.IsZero() && !k.due.After(now) && l.Due.After(k.due)
	return came && (l.Claimed < 0 || k.claimed >= 0 && l.Claimed != k.claimed)
}

// Forget has the process watch all queues: the store could not be reached, or a worker ended.
func (w *Watch) Forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queues = nil
}

// Next returns the next due time of queues that a claim is to look at, and zero for none. Of
// queues about which nothing is known, and for another worker, it is the time that the claim
// knows.
func (w *Watch) Next(worker string, queues []string, due time.Time) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.worker != worker || w.queues == nil || due.IsZero() {
		return due
	}
	var next time.Time
	for _, q := range queues {
		at := due
		if k, ok := w.queues[q]; ok {
			at = k.due
			if k.away {
				at = time.Time{}
			}
		}
		if next.IsZero() || !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	return next
}
