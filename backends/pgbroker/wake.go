package pgbroker

import (
	"context"
	"crypto/rand"
	"slices"
	"sync"
	"time"
)

// waker tells claims that wait of jobs: those of this process at once, those of
// others by NOTIFY. Notifying transactions commit one after the other, in the
// whole cluster, so each process sends at most one notification per queue and
// window: at once when the window before was quiet, else when it ends.
type waker struct {
	mu      sync.Mutex
	waiters map[string][]*waiter
	heard   news
	windows map[string]*window
	send    func(ctx context.Context, wake *wakeUp) // in a transaction of its own
	tasks   *tasks
	channel string
	token   string // of this process in the notifications it sends
}

const (
	// notifyWindow bounds both the load that notifications make and the time
	// that one can be late.
	notifyWindow = 5 * time.Millisecond

	// notifyGrace is how much longer one is held back because the next statement
	// of a stream may send it: a transaction less.
	notifyGrace = time.Millisecond
)

// window is what a queue's last notification holds back.
type window struct {
	until time.Time
	late  *wakeUp // goes out at the end
}

// wakeUp is a notification for a statement to send; nil for none.
type wakeUp struct {
	channel, payload string
	pending          bool // it is of jobs that are pending, and of nothing else
}

// news counts wake-ups. Those of all queues count, so that it need not be known
// for each.
type news struct {
	all   uint64
	other uint64 // those of more than pending jobs: of due times, policies, workers
}

func (w *wakeUp) args() (channel, payload *string) {
	if w == nil {
		return nil, nil
	}
	return &w.channel, &w.payload
}

// waiter is a claim that waits.
type waiter struct {
	queues []string
	woken  chan struct{}
}

func newWaker(channel string, t *tasks, send func(context.Context, *wakeUp)) *waker {
	return &waker{waiters: make(map[string][]*waiter), windows: make(map[string]*window), send: send, tasks: t, channel: channel,
		token: rand.Text()}
}

// message is the notification that wakes a queue in all other processes; this
// one wakes its own waiters when the transaction has ended. With pending it says
// that jobs became pending and nothing else changed.
func (w *waker) message(queue string, pending bool) *wakeUp {
	kind := wakeKind
	if pending {
		kind = pendingKind
	}
	return &wakeUp{w.channel, kind + "\n" + queue + "\n" + w.token, pending}
}

// messageToAll is for a transaction whose end nobody here will learn of.
func (w *waker) messageToAll(queue string) *wakeUp {
	return &wakeUp{channel: w.channel, payload: wakeKind + "\n" + queue}
}

// announce returns the notification to send with a transaction that makes jobs
// of a queue claimable, now (pending) or at some time, or nil when there was one
// a moment ago: then another follows at the end of the window. announced must
// follow.
func (w *waker) announce(queue string, pending bool) *wakeUp {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	last := w.windows[queue]
	if last == nil {
		last = new(window)
		w.windows[queue] = last
	}
	if now.Before(last.until) {
		return nil
	}
	pending = pending && (last.late == nil || last.late.pending) // it speaks for those before it, too
	last.until, last.late = now.Add(notifyWindow), nil
	return w.message(queue, pending)
}

// announced is called when that transaction has ended. One that failed may have
// sent nothing, or all: nobody knows.
func (w *waker) announced(queue string, pending bool, sent *wakeUp, err error) {
	w.wake(queue, pending)
	if sent != nil {
		if err == nil {
			return
		}
		pending = sent.pending
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	last := w.windows[queue]
	if last.late != nil {
		if last.late.pending && !pending {
			*last.late = *w.message(queue, false)
		}
		return
	}
	late := w.message(queue, pending)
	last.late = late
	w.tasks.after(time.Until(last.until)+notifyGrace, func(ctx context.Context) {
		w.mu.Lock()
		due := last.late == late // nothing has spoken for it since
		if due {
			last.late, last.until = nil, time.Now().Add(notifyWindow)
		}
		w.mu.Unlock()
		if due {
			w.send(ctx, late)
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
	if w.heard.all++; !pending {
		w.heard.other++
	}
	for _, p := range w.waiters[queue] {
		p.signal()
	}
}

// sofar counts the wake-ups so far.
func (w *waker) sofar() news {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.heard
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
