package pgbroker

import (
	"slices"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// lastClaim remembers the last claim, if it took all claimable jobs. Then the next waiting claim
// of the same worker and queues need not begin with a look, if no wake-up came since that claim
// began and other processes woke this one all the time. So a worker that has done a job waits for
// the next one without a query. If all wake-ups were about pending jobs, it looks only for pending
// jobs, and only in the queues of the wake-ups. Later looks also find jobs that came without a
// wake-up, such as those of a claim that rolled back.
type lastClaim struct {
	mu     sync.Mutex
	worker string
	queues []string // as the claim had them, in any order
	heard  news     // the wake-ups before the claim began
	last   lastLook
}

// lastLook is what a claim learned about its queues, apart from pending jobs.
type lastLook struct {
	now time.Time // by the store's clock
	due time.Time // the next due time, by the store's clock
	at  time.Time // when the claim asked for it, by this process's clock

	all, called []broker.Share // the queues, and those that may have pending jobs now
	heard       news           // the wake-ups when these were listed
	quiet       bool           // no wake-up came since the last claim
}

// note remembers a claim instead of the one before. known is what the claim relied on, if it
// asked only for pending jobs.
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

// tell returns what is known about the queues of a claim, or nil. queues must be sorted. If jobs may have become
// pending in some of them, what is known is valid only for most.
func (l *lastClaim) tell(req *broker.ClaimRequest, queues []string, w *waker, most time.Duration) *lastLook {
	l.mu.Lock()
	defer l.mu.Unlock()
	called, heard := w.calledSince(req.Queues, l.heard.all)
	if l.worker != req.Worker || l.heard.other != heard.other || !slices.Equal(queues, distinct(l.queues)) {
		return nil
	}
	known := l.last
	if len(called) > 0 && (time.Since(known.at) > most || known.isDue()) {
		return nil
	}
	known.all, known.called, known.heard, known.quiet = req.Queues, called, heard, heard == l.heard
	return &known
}

// isDue reports whether the next job is due by now.
func (s *lastLook) isDue() bool { return !s.due.IsZero() && !s.due.After(s.time()) }

// time returns the store's current time, by this process's clock.
func (s *lastLook) time() time.Time { return s.now.Add(time.Since(s.at)) }

// begin returns up to which wake-up a claim that begins now takes all wake-ups into account. If it asks only
// some of the queues, it returns those when the queues were chosen: other queues may have had some since.
func (l *lastLook) begin(w *waker) news {
	if l != nil && len(l.called) < len(l.all) {
		return l.heard
	}
	return w.sofar()
}
