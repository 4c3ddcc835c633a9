package pgbroker

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Which process is woken. A process with a waiting claim has a row in table waiter for each
// of its queues. A new job notifies the listener of one such process. The row stays while the
// process takes jobs, so that a busy process writes nothing. A process that is woken while
// none of its claims waits wakes another process instead, and deletes its row. Its next
// waiting claim inserts the row again, and then looks for jobs once more.
//
// If a process dies, the wake-ups that it got are lost. Then the job waits until a claim
// polls: of all processes that wait for a queue, one polls every pollListening.

// mostPeers is how many processes at most share the polls of a queue.
const mostPeers = 100

// called handles a wake-up that another process sent to this one.
func (w *waker) called(queue, kind string, jobs int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wakeLocked(queue, kind == pendingKind)
	w.owe(queue, kind, jobs)
}

// owe remembers jobs that the claims of this process must take. If no claim begins soon, owe
// wakes another process.
func (w *waker) owe(queue, kind string, jobs int) {
	if d := w.duties[queue]; d != nil {
		d.jobs = min(d.jobs+jobs, manyJobs)
		if kind != pendingKind {
			d.kind = dueKind
		}
		return
	}
	d := &wakeUp{kind: kind, jobs: jobs}
	w.duties[queue] = d
	var look func(ctx context.Context)
	look = func(ctx context.Context) {
		w.mu.Lock()
		mine, waits := w.duties[queue] == d, len(w.waiters[queue]) > 0
		if mine && waits && ctx.Err() == nil { // the waiter was signalled, and will claim or leave
			w.tasks.after(w.grace, look)
			mine = false
		}
		if mine {
			delete(w.duties, queue)
		}
		w.mu.Unlock()
		if mine {
			w.passOn(ctx, queue, d, true)
		}
	}
	w.tasks.after(w.grace, look)
}

// assume removes the duties for the queues of a claim that begins, and returns them.
func (w *waker) assume(shares []broker.Share) map[string]*wakeUp {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.duties) == 0 {
		return nil
	}
	mine := make(map[string]*wakeUp)
	for _, s := range shares {
		if d := w.duties[s.Queue]; d != nil {
			delete(w.duties, s.Queue)
			mine[s.Queue] = d
		}
	}
	return mine
}

// relieve ends the duties of a claim, and wakes other processes for jobs that it may have
// left.
func (w *waker) relieve(duties map[string]*wakeUp, got *broker.Claimed, err error) {
	if len(duties) == 0 || err == nil && !got.More {
		return
	}
	for _, j := range got.Jobs {
		if d := duties[j.Queue]; d != nil && d.jobs != manyJobs {
			d.jobs--
		}
	}
	for queue, d := range duties {
		if d.jobs > 0 {
			w.tasks.start(func(ctx context.Context) { w.passOn(ctx, queue, d, false) })
		}
	}
}

// passOn wakes up to two other processes for jobs. Each of them wakes two more, so that many are woken
// soon. With busy, no claim of this process waits, so the store stops waking it until one waits again.
// But if it is the only process, it stays registered, and its next claim looks only at this queue.
func (w *waker) passOn(ctx context.Context, queue string, d *wakeUp, busy bool) {
	w.entering.Lock()
	defer w.entering.Unlock()
	w.mu.Lock()
	self := w.listener
	if busy = busy && w.entered[queue]; busy {
		delete(w.entered, queue)
	}
	w.mu.Unlock()
	half := d.jobs / 2
	if d.jobs == manyJobs {
		half = manyJobs
	}
	wakes := []*wakeUp{{kind: d.kind, jobs: max(d.jobs-half, half), self: self}}
	if half > 0 {
		wakes = append(wakes, &wakeUp{kind: d.kind, jobs: half, self: self})
	}
	alone := w.send(ctx, queue, wakes, busy)
	w.mu.Lock()
	defer w.mu.Unlock()
	if alone && busy && w.listener == self {
		w.entered[queue] = true
		w.wakeLocked(queue, true) // for jobs that came meanwhile
	}
}

// begin records the number of a new listener, which no other process knows yet; 0 means that
// there is none.
func (w *waker) begin(listener int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listener, w.entered, w.calls = listener, make(map[string]bool), make(map[string]uint64)
}

// forget makes the next waiting claims register again for queues, which may have been removed
// and created again.
func (w *waker) forget(queues ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, q := range queues {
		delete(w.entered, q)
		delete(w.calls, q)
	}
}

// known reports whether other processes wake this one for queues.
func (w *waker) known(queues []string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.listener != 0 && !slices.ContainsFunc(queues, func(q string) bool { return !w.entered[q] })
}

// enterWaiters registers this process, so that others wake it for queues. The caller must look
// once more for jobs that came before.
func (b *Broker) enterWaiters(ctx context.Context, queues []string) error {
	w := b.waker
	w.entering.Lock()
	defer w.entering.Unlock()
	w.mu.Lock()
	listener := w.listener
	w.mu.Unlock()
	if listener == 0 {
		return nil
	}
	peers := 0
	err := b.run(ctx, b.step("waiter_enter", one(&peers), queues, listener, mostPeers))
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil || w.listener != listener {
		return err
	}
	w.peers = peers
	for _, q := range queues {
		if !w.entered[q] {
			w.entered[q] = true
			w.heard.all++
			w.heard.other++
		}
	}
	return nil
}

// pollPause returns how long a claim that other processes wake waits before it polls. The
// processes share the polls.
func (b *Broker) pollPause() time.Duration {
	b.waker.mu.Lock()
	defer b.waker.mu.Unlock()
	return jitter(b.poll * time.Duration(1+b.waker.peers))
}

// hasPeers reports whether claims of other processes wait, as of the last look.
func (w *waker) hasPeers() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.peers > 0
}

// handOver wakes another process for jobs that are due soon, if a claim got all jobs that its
// worker can take. Otherwise perhaps no other process looks for these jobs: one that waits and found
// that this process was quicker leaves the next ones to it. A process that is not registered may be
// busy, and claim again at once: then it wakes nobody.
func (b *Broker) handOver(req *broker.ClaimRequest, got *broker.Claimed) {
	if len(got.Jobs) < req.Max || req.Max == 0 || !req.Now.IsZero() || b.polls() {
		return
	}
	for _, s := range req.Queues {
		if !b.due.within(s.Queue, 2*pollListening) {
			continue
		}
		if b.waker.known([]string{s.Queue}) {
			b.waker.tasks.start(func(ctx context.Context) { b.waker.passOn(ctx, s.Queue, &wakeUp{kind: dueKind, jobs: 1}, false) })
			continue
		}
		b.waker.mu.Lock()
		b.waker.owe(s.Queue, dueKind, 1)
		b.waker.mu.Unlock()
	}
}

// jitter changes a pause at random, so that processes that started together do not poll together.
func jitter(d time.Duration) time.Duration {
	return d*3/4 + rand.N(d/2)
}
