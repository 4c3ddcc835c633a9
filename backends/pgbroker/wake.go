package pgbroker

import (
	"context"
	"crypto/rand"
	"maps"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// waker tells waiting claims that jobs became claimable: a claim of this process at
// once, or a claim of another process by NOTIFY. The woken claim must also wake the next
// one, if there are more jobs than it could take.
//
// In the whole database cluster, transactions with notifications commit one after the other.
// So each process sends at most one notification per queue and window: at once if none was
// sent in the last window, otherwise when that window ends.
type waker struct {
	mu       sync.Mutex
	waiters  map[string][]*waiter
	heard    news
	calls    map[string]uint64 // by queue with waiting claims: heard.all at its last wake-up
	windows  map[string]*window
	crowded  int                // the number of windows at which those that have ended are removed
	duties   map[string]*wakeUp // for which claims of this process must take jobs
	listener int32              // the number of this process's listener, 0 while there is none
	entered  map[string]bool    // queues for which other processes know the listener
	peers    int                // the number of other processes that wait, as of the last look; at most mostPeers

	entering sync.Mutex // held while rows of table waiter are written; lock it before mu
	send     func(ctx context.Context, queue string, wakes []*wakeUp, busy bool) (alone bool)
	tasks    *tasks
	grace    time.Duration // busyGrace, except in tests
	token    string        // identifies this process in the broadcasts that it sends
}

const (
	// fewWindows is how many windows are kept before those that have ended are looked for: more queues
	// than most programs enqueue to.
	fewWindows = 100

	// notifyWindow is the time between notifications: longer means less load, but also that a
	// notification can be later.
	notifyWindow = 5 * time.Millisecond

	// notifyGrace is for how much longer a notification is delayed: if another enqueue follows
	// soon, its statement sends the notification, which saves a transaction.
	notifyGrace = time.Millisecond

	// busyGrace is how long a process without a waiting claim keeps a wake-up, before it wakes
	// another process: often a handler returns within this time, and the process claims.
	busyGrace = 2 * time.Millisecond

	// inTx stands for the listener of this process in a transaction of the caller.
	inTx = -1

	// manyJobs stands for an unknown number of jobs.
	manyJobs = math.MaxInt32
)

// window is the time after a queue's last notification, with the notification that it delays.
type window struct {
	until time.Time
	late  *wakeUp // sent at the end of the window; nil for none
}

// wakeUp is a notification that a statement sends to one process with a waiting claim, or that this process got; nil
// for none.
type wakeUp struct {
	kind string // pendingKind, dueKind or txKind
	jobs int    // the number of jobs for which it is sent
	self int32  // the listener that must not get it, 0 for none; or inTx
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
	return &w.self, new(w.payload(queue))
}

// news counts wake-ups, of all queues together.
type news struct {
	all   uint64
	other uint64 // wake-ups not only about pending jobs: about due times, policies, workers
}

// waiter is a waiting claim.
type waiter struct {
	queues []string
	woken  chan struct{}
}

func newWaker(t *tasks, send func(ctx context.Context, queue string, wakes []*wakeUp, busy bool) bool) *waker {
	return &waker{waiters: make(map[string][]*waiter),
		calls: make(map[string]uint64), windows: make(map[string]*window), duties: make(map[string]*wakeUp),
		send: send, tasks: t, grace: busyGrace, token: rand.Text()}
}

// broadcast returns the payload that wakes all claims of other processes that wait for a queue:
// its policy may have changed, or their workers may be gone.
func (w *waker) broadcast(queue string) string { return wakeKind + "\n" + queue + "\n" + w.token }

// message returns the wake-up for jobs of a queue that become pending or scheduled. The caller must wake the claims of
// this process.
func (w *waker) message(jobs int) *wakeUp {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.messageLocked(false, jobs)
}

// messageLocked is message with mu held. With pending, the jobs become pending and nothing else changes.
func (w *waker) messageLocked(pending bool, jobs int) *wakeUp {
	kind := dueKind
	if pending {
		kind = pendingKind
	}
	return &wakeUp{kind: kind, jobs: jobs, self: w.listener}
}

// messageInTx returns the wake-up to send with a transaction of the caller. This process does not
// learn when the transaction ends. So the wake-up may also go to this process, and if no claim
// waits yet, it goes to all processes.
func messageInTx(jobs int) *wakeUp { return &wakeUp{kind: txKind, jobs: jobs, self: inTx} }

// announce returns the notification to send with a transaction that makes jobs of a queue
// claimable, now (pending) or later. It returns nil if a claim of this process waits for pending
// jobs. It also returns nil if a notification was sent a moment ago: then another one follows at
// the end of the window. Call announced after the transaction.
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
	if late := last.late; late != nil { // send the delayed notification with this one
		pending, jobs = pending && late.kind == pendingKind, jobs+late.jobs
	}
	last.until, last.late = now.Add(notifyWindow), nil
	return w.messageLocked(pending, jobs)
}

func (w *waker) window(queue string) *window {
	last := w.windows[queue]
	if last == nil {
		if len(w.windows) >= w.crowded { // names of queues may come and go
			now := time.Now()
			maps.DeleteFunc(w.windows, func(_ string, past *window) bool { return past.late == nil && !now.Before(past.until) })
			w.crowded = 2*len(w.windows) + fewWindows
		}
		last = new(window)
		w.windows[queue] = last
	}
	return last
}

// announced must be called when the transaction of announce has ended. If the transaction failed, it
// is not known whether it sent the notification.
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
		case time.Now().Before(last.until): // a statement has sent it; this one is of the next window
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

// wait registers a waiter for queues. Call leave for it later.
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

// sofar returns how many wake-ups came so far.
func (w *waker) sofar() news {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.heard
}

// calledSince returns the queues that had wake-ups after the number since, and how many wake-ups came so far.
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
