package jobs

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// ClientConfig configures a Client. The zero value is ready to use.
type ClientConfig struct {
	// Defaults are options of every job, before those of its task and of the
	// call, which win.
	Defaults []Option
	// Middleware is the enqueue chain, outermost first. Nil entries are skipped.
	Middleware []EnqueueMiddleware
	// CallTimeout bounds each call to the broker. Zero or less means 5 seconds.
	CallTimeout time.Duration
	// Retries is how often a call is repeated when the store was unavailable
	// or its answer was lost, after about 0.1 s, 0.4 s and so on, as long as
	// the caller's context lasts; no repeat begins once CallTimeout has passed
	// since the first attempt. Zero means 2, a negative number none.
	Retries int
}

const (
	defaultCallTimeout = 5 * time.Second
	defaultRetries     = 2
	maxRetries         = 10 // the pause before another one would be a day
)

// Client enqueues tasks. It may be used from any number of goroutines, and one
// client per process and broker is best: concurrent calls of Enqueue are then
// grouped into few calls to the broker.
type Client struct {
	cfg     ClientConfig
	broker  broker.Broker
	to      broker.Producer // the broker, or a transaction of its store
	bound   bool            // made by In
	timeout time.Duration
	retries int
	chain   EnqueueFunc
	group   *group // nil: each job is sent on its own
	gate    *gate
	ids     *idSource
}

// NewClient makes a client of b, which it asks for its Limits. Closing the client
// does not close b.
func NewClient(b broker.Broker, cfg ClientConfig) *Client {
	c := &Client{cfg: cfg, broker: b, to: b, gate: newGate(), ids: newIDSource()}
	if c.timeout = cfg.CallTimeout; c.timeout <= 0 {
		c.timeout = defaultCallTimeout
	}
	if c.retries = min(cfg.Retries, maxRetries); c.retries == 0 {
		c.retries = defaultRetries
	}
	c.chain = chainEnqueue(cfg.Middleware, storeEach)
	c.group = &group{client: c}
	if b != nil {
		c.group.pair = b.Limits().PairFrom
	}
	return c
}

// In returns a client with the defaults and the chain of c that enqueues
// through e: inside the transaction that e stands for. Its calls are neither
// grouped nor repeated, because a failed statement decides the transaction; a
// JobInfo holds only if that commits. Closing it does nothing: it ends with c.
func (c *Client) In(e broker.Producer) *Client {
	if c == nil {
		return nil
	}
	in := *c
	in.to, in.bound, in.group, in.retries = e, true, nil, 0
	return &in
}

// Enqueue stores a job made of task and returns once the store has accepted
// it. It is handled at least once from then on. The error says what happened:
//
//   - nil: the job is stored; the info says under which ID.
//   - ErrDuplicate: its ID exists or its unique key is held. The info is not
//     nil and names the job that holds it. With WithID, and only when an
//     answer was lost on the way, that job may be this call's own.
//   - ErrOutcomeUnknown: it may have been stored, under the ID in the info.
//   - ErrUnavailable, ErrQueueFull, ErrInvalid, ErrTooLarge and any other
//     error: nothing was stored, and the info is nil.
//
// Failures of the store are repeated first, see ClientConfig.Retries. A job
// whose answer was lost is not stored twice by a repeat, except when it was
// already done, and its record gone, by the time of the repeat: it may then
// run once more.
//
// A call that finds another one under way shares the next call to the broker
// with all that came meanwhile. It returns when ctx ends, the others go on. A
// store that hangs is given up after three times CallTimeout at most.
func (c *Client) Enqueue(ctx context.Context, task *Task, opts ...Option) (*JobInfo, error) {
	if err := c.enter(ctx); err != nil {
		return nil, broker.About(err, "enqueue", "", "")
	}
	defer c.gate.leave()
	one := singles.Get().(*single)
	if len(c.cfg.Middleware) == 0 { // no one else may have kept it
		defer one.free()
	}
	o := &one.Outgoing
	if err := o.fill(c, task, opts); err != nil {
		return nil, broker.About(err, "enqueue", o.Queue, "")
	}
	one.batch[0] = o
	c.chain(ctx, one.batch[:])
	o.check()
	if o.Info.Queue == "" {
		return nil, o.Err
	}
	info := o.Info
	return &info, o.Err
}

// single is a job on its way alone.
type single struct {
	Outgoing
	batch [1]*Outgoing
}

var singles = sync.Pool{New: func() any { return new(single) }}

func (s *single) free() {
	*s = single{}
	singles.Put(s)
}

// EnqueueMany enqueues tasks, of any types and queues, in as few calls to the
// broker as it takes; opts apply to each. The receipts stand in the order of
// the tasks, and each says what Enqueue would have said: one bad task harms no
// other. The error is nil when every task was accepted; otherwise it counts
// those that were not, and errors.Is finds their errors in it.
//
// Tasks are stored in their order. More than 1000 tasks or 4 MiB are split
// into several calls; when the store fails for good on the way, the tasks
// after that are refused with ErrUnavailable.
func (c *Client) EnqueueMany(ctx context.Context, tasks []*Task, opts ...Option) ([]Receipt, error) {
	if err := c.enter(ctx); err != nil {
		return nil, broker.About(err, "enqueue", "", "")
	}
	defer c.gate.leave()
	all := make([]Outgoing, len(tasks))
	batch := make([]*Outgoing, 0, len(tasks))
	for i, task := range tasks {
		o := &all[i]
		if err := o.fill(c, task, opts); err != nil {
			o.Err = broker.About(err, "enqueue", o.Queue, "")
			continue
		}
		batch = append(batch, o)
	}
	if len(batch) > 0 {
		c.chain(ctx, batch)
	}
	receipts := make([]Receipt, len(tasks))
	var refused manyError
	for i := range all {
		o := &all[i]
		o.check()
		if o.Err != nil {
			refused.add(i, len(all), o.Err)
		}
		receipts[i] = Receipt{JobInfo: o.Info, Err: o.Err}
	}
	return receipts, refused.orNil()
}

// Close refuses further calls with ErrClosed, ends those of Wait, and waits for
// the others under way, which are bounded in time. It does not close the broker, which the
// caller opened. Closing again does nothing.
func (c *Client) Close() error {
	if c != nil && c.gate != nil && !c.bound {
		c.gate.close()
	}
	return nil
}

// enter begins a call, if there can be any.
func (c *Client) enter(ctx context.Context) error {
	switch {
	case c == nil || c.gate == nil || c.to == nil:
		return errNoBroker
	case ctx == nil:
		return broker.Invalid("context", "is nil; use context.Background()")
	case !c.gate.enter():
		return errClientClosed
	}
	return nil
}

var (
	errNoBroker     = broker.Invalid("client", "has no broker; make it with NewClient and give it one")
	errClientClosed = &broker.Error{Err: ErrClosed, Hint: "the client was closed"}
)

// manyError is the error of an EnqueueMany that not every task survived.
type manyError struct {
	of, first int
	errs      []error
}

func (e *manyError) add(i, of int, err error) {
	if len(e.errs) == 0 {
		e.of, e.first = of, i
	}
	e.errs = append(e.errs, err)
}

func (e *manyError) orNil() error {
	if len(e.errs) == 0 {
		return nil
	}
	return e
}

func (e *manyError) Error() string {
	return fmt.Sprintf("jobs: %d of %d tasks were not accepted; the first is number %d (from 0): %v",
		len(e.errs), e.of, e.first, e.errs[0])
}

func (e *manyError) Unwrap() []error { return e.errs }

// gate counts calls under way and lets none in once it is closed.
type gate struct {
	mu      sync.Mutex
	inside  int
	closed  bool
	closing chan struct{} // closed when the gate is
	empty   chan struct{} // closed when, after that, nobody is inside
}

func newGate() *gate {
	return &gate{closing: make(chan struct{}), empty: make(chan struct{})}
}

func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.inside++
	return true
}

// add lets in somebody who works for a call that is inside.
func (g *gate) add() {
	g.mu.Lock()
	g.inside++
	g.mu.Unlock()
}

func (g *gate) leave() {
	g.mu.Lock()
	if g.inside--; g.inside == 0 && g.closed {
		close(g.empty)
	}
	g.mu.Unlock()
}

func (g *gate) close() {
	g.mu.Lock()
	if !g.closed {
		g.closed = true
		close(g.closing)
		if g.inside == 0 {
			close(g.empty)
		}
	}
	g.mu.Unlock()
	<-g.empty
}
