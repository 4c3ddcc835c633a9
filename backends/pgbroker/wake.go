package pgbroker

import (
	"context"
	"crypto/rand"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// waker tells waiting claims that jobs became claimable: a claim of this process at
// once, or one of another process by NOTIFY. What it wakes also takes over the duty to
// wake the next claim, if there are more jobs than it could take.
//
// Transactions that notify commit one after the other in the whole cluster. So each
// process sends at most one notification per queue and window: at once if the window
// before was idle, else when it ends.
type waker struct {
	mu       sync.Mutex
	waiters  map[string][]*waiter
	heard    news
	calls    map[string]uint64 // heard.all at the last wake-up for each queue that is awaited
	windows  map[string]*window
	duties   map[string]*duty
	listener int32           // number of this process's listener, 0 while there is none
	entered  map[string]bool // queues for which other processes know the listener
	peers    int             // other processes that wait, as of the last look; at most mostPeers

	entering sync.Mutex // held while rows of table waiter are written, and before mu
	send     func(ctx context.Context, queue string, wakes []*wakeUp, busy bool) (alone bool)
	tasks    *tasks
	grace    time.Duration // busyGrace, except in tests
	token    string        // of this process in the broadcasts it sends
}

const (
	// notifyWindow bounds both the load that notifications make and the time
	// that one can be late.
	notifyWindow = 5 * time.Millisecond

	// notifyGrace is how much longer a notification is held back, because the next statement
	// of a stream may send it, which saves a transaction.
	notifyGrace = time.Millisecond

	// busyGrace is how long a wake-up waits for a claim of a process in which none
	// waits: such a process often claims within a moment, when a handler returns.
	busyGrace = 2 * time.Millisecond

	// inTx stands for the listener of a process in a transaction of its caller's.
	inTx = -1

	// manyJobs stands for a number of jobs that is not known.
	manyJobs = math.MaxInt32
)

// window is what a queue's last notification holds back.
type window struct {
	until time.Time
	late  *wakeUp // sent at the end
}

// wakeUp is a notification for a statement to send to one process in which a claim
// waits; nil for none.
type wakeUp struct {
	kind string // pendingKind, dueKind or txKind
	jobs int    // for which it is sent
	self int32  // the listener that is not to get it, 0 for none; or inTx
}

// payload is the text of the notification.
func (w *wakeUp) payload(queue string) string {
	return w.kind + "\n" + queue + "\n" + strconv.Itoa(w.jobs)
}

// args returns the parameters @self and @payload of a statement.
func (w *wakeUp) args(queue string) (self *int32, payload *string) {
	if w == nil {
		return nil, nil
	}
	text := w.payload(queue)
	return &w.self, &text
}

// duty is to have claims take jobs for which this process was woken.
type duty struct {
	kind string
	jobs int
}

// news counts wake-ups, of all queues together.
type news struct {
	all   uint64
	other uint64 // those of more than pending jobs: of due times, policies, workers
}

// waiter is a claim that waits.
type waiter struct {
	queues []string
	woken  chan struct{}
}

func newWaker(t *tasks, send func(ctx context.Context, queue string, wakes []*wakeUp, busy bool) bool) *waker {
	return &waker{waiters: make(map[string][]*waiter),
		calls: make(map[string]uint64), windows: make(map[string]*window), duties: make(map[string]*duty),
		send: send, tasks: t, grace: busyGrace, token: rand.Text()}
}

// broadcast returns the payload that makes all claims of other processes that wait for a queue
// look: its policy may have changed, or their workers may be gone.
func (w *waker) broadcast(queue string) string { return wakeKind + "\n" + queue + "\n" + w.token }

// message returns the wake-up for jobs of a queue. With pending they are pending, and
// nothing else changed. The caller wakes the claims of this process.
func (w *waker) message(pending bool, jobs int) *wakeUp {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.messageLocked(pending, jobs)
}

func (w *waker) messageLocked(pending bool, jobs int) *wakeUp {
	kind := dueKind
	if pending {
		kind = pendingKind
	}
	return &wakeUp{kind: kind, jobs: jobs, self: w.listener}
}

// messageInTx returns the wake-up to send with a transaction of the caller's. This process
// does not learn when it ends, so the wake-up may also go to this process, and to all
// processes if no claim waits yet.
func messageInTx(jobs int) *wakeUp { return &wakeUp{kind: txKind, jobs: jobs, self: inTx} }

// announce returns the notification to send with a transaction that makes jobs
// of a queue claimable, now (pending) or at some time. It returns nil when a claim of
// this process waits for pending jobs, and when one was sent a moment ago: then another
// follows at the end of the window. announced must follow.
func (w *waker) announce(queue string, pending bool, jobs int) *wakeUp {
	w.mu.Lock()
	defer w.mu.Unlock()
	if pending && len(w.waiters[queue]) > 0 {
		return nil
	}
	now := time.Now()
	last := w.window(queue)
	if now.Before(last.until) {
		return nil
	}
	if late := last.late; late != nil { // it stands for those before it, too
		pending, jobs = pending && late.kind == pendingKind, jobs+late.jobs
	}
	last.until, last.late = now.Add(notifyWindow), nil
	return w.messageLocked(pending, jobs)
}

func (w *waker) window(queue string) *window {
	last := w.windows[queue]
	if last == nil {
		last = new(window)
		w.windows[queue] = last
	}
	return last
}

// announced is called when that transaction has ended. One that failed may have sent nothing,
// or all.
func (w *waker) announced(queue string, pending bool, jobs int, sent *wakeUp, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	waits := w.wakeLocked(queue, pending)
	switch {
	case sent != nil && err == nil:
		return
	case sent != nil:
		pending, jobs = sent.kind == pendingKind, sent.jobs
	case pending && waits:
		w.owe(queue, pendingKind, jobs)
		return
	}
	last := w.window(queue)
	if last.late != nil {
		last.late = w.messageLocked(pending && last.late.kind == pendingKind, min(last.late.jobs+jobs, manyJobs))
		return
	}
	last.late = w.messageLocked(pending, jobs)
	w.tasks.after(time.Until(last.until)+notifyGrace, func(ctx context.Context) {
		w.mu.Lock()
		late := last.late
		switch {
		case late == nil: // a statement has sent it
		case time.Now().Before(last.until): // a statement has, and this is of the window after it
			late = nil
		default:
			last.late, last.until = nil, time.Now().Add(notifyWindow)
		}
		w.mu.Unlock()
		if late != nil {
			w.send(ctx, queue, []*wakeUp{late}, false)
		}
	})
}

// wait registers a waiter for queues; leave must follow.
func (w *waker) wait(queues []string) *waiter {
	p := &waiter{queues: queues, woken: make(chan struct{}, 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, q := range queues {
		w.waiters[q] = append(w.waiters[q], p)
	}
	return p
}

func (w *waker) leave(p *waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, q := range p.queues {
		left := slices.DeleteFunc(w.waiters[q], func(other *waiter) bool { return other == p })
		if w.waiters[q] = left; len(left) == 0 {
			delete(w.waiters, q)
		}
	}
}

// wake wakes the waiters of a queue in this process.
func (w *waker) wake(queue string, pending bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wakeLocked(queue, pending)
}

// wakeLocked is wake with mu held. It reports whether there are waiters.
func (w *waker) wakeLocked(queue string, pending bool) bool {
	if w.heard.all++; !pending {
		w.heard.other++
	}
	if w.entered[queue] || len(w.waiters[queue]) > 0 {
		w.calls[queue] = w.heard.all
	}
	for _, p := range w.waiters[queue] {
		p.signal()
	}
	return len(w.waiters[queue]) > 0
}

// sofar counts the wake-ups so far.
func (w *waker) sofar() news {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.heard
}

// calledSince returns the queues for which wake-ups came since some number of them, and counts the wake-ups so far.
func (w *waker) calledSince(queues []broker.Share, since uint64) (some []broker.Share, heard news) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range queues {
		if w.calls[s.Queue] > since {
			some = append(some, s)
		}
	}
	return some, w.heard
}

// wakeAll wakes every waiter: notifications may have been missed.
func (w *waker) wakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heard.all++
	w.heard.other++
	for _, waiters := range w.waiters {
		for _, p := range waiters {
			p.signal()
		}
	}
}

func (p *waiter) signal() {
	select {
	case p.woken <- struct{}{}:
	default:
	}
}
