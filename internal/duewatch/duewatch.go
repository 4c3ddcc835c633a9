// Package duewatch decides which processes look when a job becomes due. If all idle processes
// of a fleet looked, one job would cause as many looks as there are processes.
//
// A process watches the due times of a queue until it looks for a due job and finds that
// another process took it. The other process goes on watching. The first one watches again
// when it gets a job of the queue, or is woken for the queue. So for each job that a process
// gets, it looks at most once without result. A process that stops watching, because it has
// no room left or ends, has the store wake another one. If it is killed, the next claim of
// another process finds what is due.
package duewatch

import (
	"sync"
	"time"
)

// Watch remembers what one worker of a process knows about the due times of its queues. The
// zero value is ready for use, from any goroutine.
type Watch struct {
	mu     sync.Mutex
	worker string
	queues map[string]known
}

// known is what the last look at a queue showed.
type known struct {
	due     time.Time
	claimed int64
	away    bool // another process watches
	called  bool // Called was called for the queue since that look
}

// Look is what a claim learned about a queue.
type Look struct {
	Queue   string
	Due     time.Time // when time next makes a job claimable; zero for never
	Claimed int64     // jobs claimed from the queue so far, by all workers; -1 if that is not known
	Keep    bool      // the claim got a job of the queue, or the process was woken for it
}

// Called says that this process was woken for queues, or is to watch them for another reason.
// The process then also watches them after its next look.
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
		case l.Keep || l.Due.IsZero() || before.called: // without a due time: a client that sets the first one wakes a process
			k.away = false
		case before.taken(now, &l):
			k.away = true
		}
		w.queues[l.Queue] = k
	}
}

// taken reports whether a look was made because a due time had come, and another process
// took the job first.
func (k known) taken(now time.Time, l *Look) bool {
	came := !k.due.IsZero() && !k.due.After(now) && l.Due.After(k.due)
	return came && (l.Claimed < 0 || k.claimed >= 0 && l.Claimed != k.claimed)
}

// Forget has the process watch all queues again. Call it when the store could not be reached, or a
// worker has ended.
func (w *Watch) Forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queues = nil
}

// Next returns the next due time of the queues that a claim is to watch, or zero for none. due
// is the time that the claim knows: it counts for another worker, and for queues about which
// nothing is known here.
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
