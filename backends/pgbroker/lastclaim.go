package pgbroker

import (
	"slices"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// lastClaim remembers the last claim that took all there was. The next claim of the same worker
// and queues that waits need not look first, if no wake-up came since that claim began and the
// process was known to wait all the time: a worker that has done a job then waits for the next
// one without asking for it. If only pending jobs were reported, it looks for nothing else, and only in
// the queues that have them.
// The looks in between find jobs that came without a wake-up, such as those of a claim that
// rolls back.
type lastClaim struct {
	mu     sync.Mutex
	worker string
	queues []string // as the claim had them, in any order
	heard  news     // before the claim began
	last   lastLook
}

// lastLook is what a claim learned about its queues, apart from pending jobs.
type lastLook struct {
	now time.Time // by the store's clock
	due time.Time // the next due time, by the same
	at  time.Time // when that was asked for, by this process's clock

	all, called []broker.Share // the queues, and those that may have pending jobs now
	heard       news           // when these were listed
	quiet       bool           // nothing was heard since
}

// note remembers a claim, in place of the one before. Known is what a claim of pending
// jobs alone relied on.
func (l *lastClaim) note(req *broker.ClaimRequest, heard news, known *lastLook, got *broker.Claimed, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.worker, l.queues = "", l.queues[:0]
	if err != nil || got.More || len(got.Jobs) >= req.Max || !req.Now.IsZero() {
		return
	}
	l.worker, l.heard, l.last = req.Worker, heard, lastLook{now: got.Now, due: got.NextDue, at: time.Now(), all: req.Queues}
	if known != nil {
		l.last = *known
	}
	for _, s := range l.last.all {
		l.queues = append(l.queues, s.Queue)
	}
}

// tell returns what is known about the queues of a claim, which are given sorted, or nil, and whether jobs may have become
// pending in some of them. That is known for as long as a claim may go without a look.
func (l *lastClaim) tell(req *broker.ClaimRequest, queues []string, w *waker, most time.Duration) (known *lastLook, pending bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	called, heard := w.calledSince(req.Queues, l.heard.all)
	if l.worker != req.Worker || l.heard.other != heard.other || !slices.Equal(queues, distinct(l.queues)) {
		return nil, false
	}
	last := l.last
	known = &last
	if pending = len(called) > 0; pending && (time.Since(known.at) > most || known.isDue()) {
		return nil, false
	}
	known.all, known.called, known.heard, known.quiet = req.Queues, called, heard, heard == l.heard
	return known, pending
}

// isDue reports whether the next job has fallen due.
func (s *lastLook) isDue() bool { return !s.due.IsZero() && !s.due.After(s.time()) }

// time returns the store's time, now.
func (s *lastLook) time() time.Time { return s.now.Add(time.Since(s.at)) }

// begin returns how many wake-ups a claim that begins now accounts for. If it asks only some queues, these
// are the wake-ups so far when the queues were chosen: others may have called since.
func (l *lastLook) begin(w *waker) news {
	if l != nil && len(l.called) < len(l.all) {
		return l.heard
	}
	return w.sofar()
}
