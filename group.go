package jobs

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// group joins concurrent Enqueue calls into batches. A caller that finds no
// call in flight makes its own, at once and in its own goroutine. Those that
// come meanwhile gather; when that call returns, one goroutine sends what has
// gathered, as one batch after another, until nobody waits, and ends. So nothing
// lingers, and an idle client has no goroutine.
//
// With one call in flight the store idles while callers are told and come back,
// and they while it works. Where the store says that it is worth it, half of the
// callers go in a second call beside the first, so that two carry them all in
// turn.
type group struct {
	client *Client
	pair   int          // broker.Limits.PairFrom
	inside atomic.Int64 // callers

	mu       sync.Mutex
	inFlight int       // calls: two at most
	line     []*flight // gathered; the last has room, perhaps
}

// flight is a batch of jobs that go in one call.
type flight struct {
	*load
	size  int       // of the jobs, about
	since time.Time // when the first caller came
	calls int       // before this one's, when that caller came
	taken bool      // guarded by group.mu, as is all above: it is under way
	left  []int     // of the jobs, those whose callers left before that

	done     chan struct{} // closed when the receipts are there
	receipts []broker.Receipt
}

// load is what a flight needs until it is over.
type load struct {
	jobs []broker.NewJob // payloads of callers that may leave are copies
}

var loads = sync.Pool{New: func() any { return new(load) }}

// send makes one attempt at a job. It returns as soon as ctx ends.
func (g *group) send(ctx context.Context, o *Outgoing) {
	g.inside.Add(1)
	defer g.inside.Add(-1)
	g.mu.Lock()
	if g.inFlight == 0 {
		g.inFlight = 1
		g.mu.Unlock()
		defer g.release()
		receipts := g.client.call(ctx, []broker.NewJob{o.NewJob})
		o.answer(&receipts[0])
		return
	}
	f, place := g.join(&o.NewJob)
	if g.inFlight == 1 && g.pays() {
		g.inFlight = 2
		g.client.gate.add()
		go g.drain()
	}
	if ctx.Done() == nil {
		g.mu.Unlock()
		<-f.done
		o.answer(&f.receipts[place])
		return
	}
	// The caller may leave, and change its payload, while the batch is under way.
	payload := &f.jobs[place].Body.Payload
	*payload = bytes.Clone(*payload)
	g.mu.Unlock()

	select {
	case <-f.done:
		o.answer(&f.receipts[place])
		return
	case <-ctx.Done():
	}
	g.mu.Lock()
	taken := f.taken
	if !taken {
		f.left = append(f.left, place)
	}
	g.mu.Unlock()
	if !taken {
		notSent([]*Outgoing{o}, ctx.Err())
		return
	}
	select {
	case <-f.done: // in time after all
		o.answer(&f.receipts[place])
	default:
		o.answer(&broker.Receipt{Err: ctx.Err()})
	}
}

// join adds a job to the last flight in line, or to a new one if that would go
// beyond the bounds of a call, and returns its place there.
func (g *group) join(job *broker.NewJob) (f *flight, place int) {
	size := sizeOf(job)
	if n := len(g.line); n > 0 {
		f = g.line[n-1]
	}
	if f == nil || len(f.jobs) == maxSendJobs || f.size+size > maxSendBytes {
		f = &flight{load: loads.Get().(*load), since: time.Now(), calls: 1 + len(g.line), done: make(chan struct{})}
		g.line = append(g.line, f)
	}
	f.jobs, f.size = append(f.jobs, *job), f.size+size
	return f, len(f.jobs) - 1
}

// pays reports whether what has gathered is worth a second call in flight: it is
// half of the callers, or as much as a call takes.
func (g *group) pays() bool {
	if g.pair <= 0 || len(g.line) > 1 {
		return g.pair > 0
	}
	n := len(g.line[0].jobs) - len(g.line[0].left)
	return n >= g.pair && 2*n >= int(g.inside.Load())
}

// release ends a call in flight: whoever gathered meanwhile goes next.
func (g *group) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.line) == 0 {
		g.inFlight--
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
		f := g.take()
		if f == nil {
			return
		}
		f.send(g.client)
		f.end()
		g.gather()
	}
}

// gather lets callers that were just answered come back, as long as they do.
func (g *group) gather() {
	for before := -1; ; {
		runtime.Gosched()
		g.mu.Lock()
		n := 0
		if len(g.line) > 0 {
			n = len(g.line[0].jobs)
		}
		g.mu.Unlock()
		if n <= before || n >= maxSendJobs {
			return
		}
		before = n
	}
}

// take returns the next flight in line, or nil, when none is to follow this call. One
// that has waited behind several calls, for longer than one may take, is turned
// away, so that a store that hangs cannot hold up a long line of them; one whose
// callers have all left is not sent.
func (g *group) take() *flight {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.line) > 0 && (g.inFlight == 1 || g.pays()) {
		f := g.line[0]
		g.line = slices.Delete(g.line, 0, 1)
		f.taken = true
		switch {
		case f.calls > 1 && now.Sub(f.since) > g.client.timeout:
			f.receipts = slices.Repeat([]broker.Receipt{{Err: errLine}}, len(f.jobs))
			f.end()
		case len(f.left) < len(f.jobs):
			return f
		}
	}
	if g.inFlight--; g.inFlight == 0 {
		g.line = nil
	}
	return nil
}

var errLine = fmt.Errorf("%w: calls before this one took too long", broker.ErrUnavailable)

// send makes the call, without the jobs whose callers have left.
func (f *flight) send(c *Client) {
	if len(f.left) == 0 {
		f.receipts = c.call(context.Background(), f.jobs)
		return
	}
	slices.Sort(f.left)
	var jobs []broker.NewJob
	var places []int
	for i, left := 0, f.left; i < len(f.jobs); i++ {
		if len(left) > 0 && left[0] == i {
			left = left[1:]
			continue
		}
		jobs, places = append(jobs, f.jobs[i]), append(places, i)
	}
	f.receipts = make([]broker.Receipt, len(f.jobs))
	for i, r := range c.call(context.Background(), jobs) {
		f.receipts[places[i]] = r
	}
}

// end tells the callers their answers.
func (f *flight) end() {
	close(f.done)
	clear(f.jobs)
	f.jobs = f.jobs[:0]
	loads.Put(f.load)
}
