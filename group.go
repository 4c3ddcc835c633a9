package jobs

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// group joins concurrent Enqueue calls into batches. A caller that finds no
// call in flight makes its own, at once and in its own goroutine. Those that
// come meanwhile gather; when that call returns, one goroutine sends what has
// gathered, as one batch after another, until nobody waits, and ends. So nothing
// lingers, one call is in flight, and an idle client has no goroutine.
type group struct {
	client *Client

	mu       sync.Mutex
	inFlight bool            // a call
	jobs     []broker.NewJob // gathered; payloads of callers that may leave are copies
	waiters  []*waiter       // one for each of jobs
}

// waiter is a caller that waits for a batch. taken and gone are guarded by
// group.mu.
type waiter struct {
	since   time.Time
	taken   bool // the job is in a batch under way
	gone    bool // the caller left before that
	receipt broker.Receipt
	done    chan struct{} // closed when receipt is set
}

// waiters that were answered serve others; their channels do not, which belong
// to the synctest bubble that made them.
var waiters = sync.Pool{New: func() any { return new(waiter) }}

// free gives up a waiter that has been answered.
func (w *waiter) free() {
	*w = waiter{}
	waiters.Put(w)
}

// send makes one attempt at a job. It returns as soon as ctx ends.
func (g *group) send(ctx context.Context, o *Outgoing) {
	g.mu.Lock()
	if !g.inFlight {
		g.inFlight = true
		g.mu.Unlock()
		defer g.release()
		receipts := g.client.call(ctx, []broker.NewJob{o.NewJob})
		o.answer(&receipts[0])
		return
	}
	w := waiters.Get().(*waiter)
	w.since, w.done = time.Now(), make(chan struct{})
	g.jobs, g.waiters = append(g.jobs, o.NewJob), append(g.waiters, w)
	if ctx.Done() != nil {
		// The caller may leave, and change its payload, while the batch is under way.
		p := &g.jobs[len(g.jobs)-1].Body.Payload
		*p = bytes.Clone(*p)
	}
	g.mu.Unlock()

	select {
	case <-w.done:
	case <-ctx.Done():
		g.mu.Lock()
		w.gone = true
		taken := w.taken
		g.mu.Unlock()
		if !taken {
			notSent([]*Outgoing{o}, ctx.Err())
			return
		}
		select {
		case <-w.done: // in time after all
			o.answer(&w.receipt)
		default:
			o.answer(&broker.Receipt{Err: ctx.Err()})
		}
		return
	}
	o.answer(&w.receipt)
	w.free()
}

// release ends a call in flight: whoever gathered meanwhile goes next.
func (g *group) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.jobs) == 0 {
		g.inFlight = false
		return
	}
	g.client.gate.add()
	go g.drain()
}

// drain sends what has gathered until there is nothing more. The callers of a
// batch are told their answers first and may join the next one: full batches
// cost less than the store's idling meanwhile.
func (g *group) drain() {
	defer g.client.gate.leave()
	f := flights.Get().(*flight)
	for g.take(f) {
		f.receipts = g.client.call(context.Background(), f.jobs)
		f.tell()
		g.gather()
	}
	flights.Put(f)
}

// gather lets callers that were just answered come back, as long as they do.
func (g *group) gather() {
	for before := -1; ; {
		runtime.Gosched()
		g.mu.Lock()
		n := len(g.jobs)
		g.mu.Unlock()
		if n <= before || n >= maxSendJobs {
			return
		}
		before = n
	}
}

// flight is a batch under way.
type flight struct {
	jobs     []broker.NewJob
	waiters  []*waiter
	receipts []broker.Receipt
}

var flights = sync.Pool{New: func() any { return new(flight) }}

// take moves what has gathered into f, up to the bounds of one call. Callers
// that left are left out; those that have waited for longer than a call may take
// are turned away, so that a store that hangs cannot hold up a long line of
// them. With nothing to send it ends the flight and reports false.
func (g *group) take(f *flight) bool {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.takeAll(f, now) {
		return true
	}
	n, size := 0, 0
	for ; n < len(g.jobs) && len(f.jobs) < maxSendJobs; n++ {
		w := g.waiters[n]
		if w.gone {
			continue
		}
		if now.Sub(w.since) > g.client.timeout {
			w.receipt.Err = errLine
			close(w.done)
			continue
		}
		if size += sizeOf(&g.jobs[n]); len(f.jobs) > 0 && size > maxSendBytes {
			break
		}
		w.taken = true
		f.jobs, f.waiters = append(f.jobs, g.jobs[n]), append(f.waiters, w)
	}
	g.jobs, g.waiters = remove(g.jobs, n), remove(g.waiters, n)
	if len(f.jobs) == 0 {
		g.inFlight = false
		g.jobs, g.waiters = nil, nil
	}
	return len(f.jobs) > 0
}

// takeAll is take for the usual case that all of it goes into one call.
func (g *group) takeAll(f *flight, now time.Time) bool {
	if len(g.jobs) == 0 || len(g.jobs) > maxSendJobs {
		return false
	}
	size := 0
	for i, w := range g.waiters {
		size += sizeOf(&g.jobs[i])
		if w.gone || now.Sub(w.since) > g.client.timeout {
			return false
		}
	}
	if len(g.jobs) > 1 && size > maxSendBytes {
		return false
	}
	for _, w := range g.waiters {
		w.taken = true
	}
	f.jobs, g.jobs = g.jobs, f.jobs
	f.waiters, g.waiters = g.waiters, f.waiters
	return true
}

var errLine = fmt.Errorf("%w: calls before this one took too long", broker.ErrUnavailable)

// remove drops the first n of s and keeps no references to them.
func remove[T any](s []T, n int) []T {
	kept := copy(s, s[n:])
	clear(s[kept:])
	return s[:kept]
}

// tell answers the waiters.
func (f *flight) tell() {
	for i, w := range f.waiters {
		w.receipt = f.receipts[i]
		close(w.done)
	}
	clear(f.jobs)
	clear(f.waiters)
	f.jobs, f.waiters, f.receipts = f.jobs[:0], f.waiters[:0], nil
}
