package jobs

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// group joins concurrent Enqueue calls into batches. A caller that finds no call in
// flight makes its own at once, in its own goroutine. Later callers join a batch.
// When the call returns, one goroutine sends the batches one after another, until
// none waits. So no job waits for a timer, and an idle client has no goroutine.
//
// With one call in flight the store idles while callers get their answers and
// enqueue again. So a second call is made during the first if enough jobs wait.
type group struct {
	client *Client

	mu       sync.Mutex
	calls    int      // in flight, at most two
	inFlight int      // jobs in these calls
	waiting  []*batch // in order; the last may have room
}

// secondCall is how many jobs must wait before a second call is made. As many must wait
// as the first call has, if these are more. With the second call, 64 callers enqueue 1.2
// times as many jobs a second, on Redis and on Postgres (docs/performance-log.md).
const secondCall = 16

// batch has the jobs of one call, each from a different caller.
type batch struct {
	*load
	size  int       // estimated bytes of the jobs
	since time.Time // when the first job joined
	calls int       // how many calls were to be made before this one when the first job joined
	taken bool      // the call is under way; guarded by group.mu, like all fields above
	left  []int     // indexes of jobs whose callers left before the call

	done     chan struct{} // closed when receipts is set
	receipts []broker.Receipt
}

// load is the memory of a batch. Later batches reuse it.
type load struct {
	jobs []broker.NewJob // payloads of callers that may leave are copies
}

var loads = sync.Pool{New: func() any { return new(load) }}

// send makes one attempt to store a job. It returns as soon as ctx ends.
func (g *group) send(ctx context.Context, o *Outgoing) {
	g.mu.Lock()
	if g.calls == 0 {
		g.calls, g.inFlight = 1, 1
		g.mu.Unlock()
		defer g.release()
		receipts := g.client.call(ctx, []broker.NewJob{o.NewJob})
		o.answer(&receipts[0])
		return
	}
	b, i := g.join(&o.NewJob)
	if n := len(g.waiting[0].jobs); g.calls == 1 && n >= max(secondCall, g.inFlight) {
		g.calls = 2
		g.client.gate.add()
		go g.drain()
	}
	if ctx.Done() == nil {
		g.mu.Unlock()
		<-b.done
		o.answer(&b.receipts[i])
		return
	}
	// The caller may leave, and then change its payload, while the call is under way.
	payload := &b.jobs[i].Body.Payload
	*payload = bytes.Clone(*payload)
	g.mu.Unlock()

	select {
	case <-b.done:
		o.answer(&b.receipts[i])
		return
	case <-ctx.Done():
	}
	g.mu.Lock()
	taken := b.taken
	if !taken {
		b.left = append(b.left, i)
	}
	g.mu.Unlock()
	if !taken {
		notSent([]*Outgoing{o}, ctx.Err())
		return
	}
	select {
	case <-b.done: // the receipt came after all
		o.answer(&b.receipts[i])
	default:
		o.answer(&broker.Receipt{Err: ctx.Err()})
	}
}

// join adds a job to the last waiting batch, or to a new batch if the job does not fit
// into that one. It returns the batch and the job's index in the batch.
func (g *group) join(job *broker.NewJob) (b *batch, i int) {
	size := sizeOf(job)
	if n := len(g.waiting); n > 0 {
		b = g.waiting[n-1]
	}
	if b == nil || len(b.jobs) == maxSendJobs || b.size+size > maxSendBytes {
		b = &batch{load: loads.Get().(*load), since: time.Now(), calls: 1 + len(g.waiting), done: make(chan struct{})}
		g.waiting = append(g.waiting, b)
	}
	b.jobs, b.size = append(b.jobs, *job), b.size+size
	return b, len(b.jobs) - 1
}

// release ends a caller's own call, and has the waiting batches sent.
func (g *group) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inFlight--
	if len(g.waiting) == 0 {
		g.calls--
		return
	}
	g.client.gate.add()
	go g.drain()
}

// drain sends batches until none waits. The callers of a batch get their answers
// before the next one is sent and may join it: full batches save more than the
// idle time of the store costs.
func (g *group) drain() {
	defer g.client.gate.leave()
	for {
		b := g.take()
		if b == nil {
			return
		}
		b.send(g.client)
		g.returned(len(b.jobs))
		b.end()
		g.gather()
	}
}

// gather yields to callers that were just answered, as long as they enqueue more.
func (g *group) gather() {
	for before := -1; ; {
		runtime.Gosched()
		g.mu.Lock()
		n := 0
		if len(g.waiting) > 0 {
			n = len(g.waiting[0].jobs)
		}
		g.mu.Unlock()
		if n <= before || n >= maxSendJobs {
			return
		}
		before = n
	}
}

// take returns the next batch, or nil if none waits. It refuses a batch that waited
// for several calls and longer than the timeout of one call: a store that hangs must
// not delay more and more callers. It drops a batch whose callers have all left.
func (g *group) take() *batch {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.waiting) > 0 {
		b := g.waiting[0]
		g.waiting = slices.Delete(g.waiting, 0, 1)
		b.taken = true
		switch {
		case b.calls > 1 && now.Sub(b.since) > g.client.timeout:
			b.receipts = slices.Repeat([]broker.Receipt{{Err: errBusy}}, len(b.jobs))
			b.end()
		case len(b.left) < len(b.jobs):
			g.inFlight += len(b.jobs)
			return b
		}
	}
	g.calls--
	g.waiting = nil
	return nil
}

// returned subtracts the jobs of a call that has returned from those in flight.
func (g *group) returned(jobs int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inFlight -= jobs
}

var errBusy = fmt.Errorf("%w: calls before this one took too long", broker.ErrUnavailable)

// send makes the call, without the jobs whose callers have left.
func (b *batch) send(c *Client) {
	if len(b.left) == 0 {
		b.receipts = c.call(context.Background(), b.jobs)
		return
	}
	slices.Sort(b.left)
	var jobs []broker.NewJob
	var indexes []int // of jobs in b.jobs
	for i, left := 0, b.left; i < len(b.jobs); i++ {
		if len(left) > 0 && left[0] == i {
			left = left[1:]
			continue
		}
		jobs, indexes = append(jobs, b.jobs[i]), append(indexes, i)
	}
	b.receipts = make([]broker.Receipt, len(b.jobs))
	for i, r := range c.call(context.Background(), jobs) {
		b.receipts[indexes[i]] = r
	}
}

// end lets the callers read their receipts, and frees the batch's memory for later ones.
func (b *batch) end() {
	close(b.done)
	clear(b.jobs)
	b.jobs = b.jobs[:0]
	loads.Put(b.load)
}
