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

// group joins concurrent Enqueue calls into batches. A caller that finds no
// call in flight makes its own, at once and in its own goroutine. Those that
// come meanwhile gather; when that call returns, one goroutine sends what has
// gathered, as one batch after another, until nobody waits, and ends. So nothing
// lingers, and an idle client has no goroutine.
//
// With one call in flight the store idles while callers are told and come back, and
// they while it works. So once enough wait, a second call goes beside the first.
type group struct {
	client *Client

	mu      sync.Mutex
	calls   int      // in flight, two at most
	flying  int      // jobs in these
	waiting []*batch // in order; the last may have room
}

// secondCall is how many jobs make a second call worth its own cost, if no more are
// on their way: 64 callers enqueue 1.2 times as many jobs a second with it, on Redis
// and on Postgres (docs/performance-log.md).
const secondCall = 16

// batch is jobs that go in one call.
type batch struct {
	*load
	size  int       // of the jobs, about
	since time.Time // when the first caller came
	calls int       // before this one's, when that caller came
	taken bool      // the call is under way; guarded by group.mu, as is all above
	left  []int     // of the jobs, those whose callers left before that

	done     chan struct{} // closed when the receipts are there
	receipts []broker.Receipt
}

// load is what a batch needs until it is over.
type load struct {
	jobs []broker.NewJob // payloads of callers that may leave are copies
}

var loads = sync.Pool{New: func() any { return new(load) }}

// send makes one attempt at a job. It returns as soon as ctx ends.
func (g *group) send(ctx context.Context, o *Outgoing) {
	g.mu.Lock()
	if g.calls == 0 {
		g.calls, g.flying = 1, 1
		g.mu.Unlock()
		defer g.release()
		receipts := g.client.call(ctx, []broker.NewJob{o.NewJob})
		o.answer(&receipts[0])
		return
	}
	b, i := g.join(&o.NewJob)
	if n := len(g.waiting[0].jobs); g.calls == 1 && n >= max(secondCall, g.flying) {
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
	// The caller may leave, and change its payload, while the batch is under way.
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
	case <-b.done: // in time after all
		o.answer(&b.receipts[i])
	default:
		o.answer(&broker.Receipt{Err: ctx.Err()})
	}
}

// join adds a job to the last batch that waits, or to a new one if that would go
// beyond the bounds of a call. It returns the job's index there.
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

// release ends the call in flight: whoever gathered meanwhile goes next.
func (g *group) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.flying--
	if len(g.waiting) == 0 {
		g.calls--
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
	for {
		b := g.take()
		if b == nil {
			return
		}
		b.send(g.client)
		g.landed(len(b.jobs))
		b.end()
		g.gather()
	}
}

// gather lets callers that were just answered come back, as long as they do.
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

// take returns the next batch, or nil if nobody waits. A batch that has waited
// behind several calls, for longer than one may take, is turned away: a store
// that hangs must not hold up ever more callers. A batch whose callers have all
// left is not sent.
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
			g.flying += len(b.jobs)
			return b
		}
	}
	g.calls--
	g.waiting = nil
	return nil
}

// landed takes note that a call with so many jobs was answered.
func (g *group) landed(jobs int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.flying -= jobs
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
	var places []int
	for i, left := 0, b.left; i < len(b.jobs); i++ {
		if len(left) > 0 && left[0] == i {
			left = left[1:]
			continue
		}
		jobs, places = append(jobs, b.jobs[i]), append(places, i)
	}
	b.receipts = make([]broker.Receipt, len(b.jobs))
	for i, r := range c.call(context.Background(), jobs) {
		b.receipts[places[i]] = r
	}
}

// end tells the callers their answers.
func (b *batch) end() {
	close(b.done)
	clear(b.jobs)
	b.jobs = b.jobs[:0]
	loads.Put(b.load)
}
