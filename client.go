package jobs

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/guard"
)

// Broker is a store of jobs. A program opens one and passes it to NewClient and
// NewServer. Package broker has its contract.
type Broker = broker.Broker

// Enqueuer is the part of a Client that enqueues. Code that takes an Enqueuer
// also works with a fake in tests.
type Enqueuer interface {
	Enqueue(ctx context.Context, task *Task, opts ...Option) (*JobInfo, error)
	EnqueueMany(ctx context.Context, tasks []*Task, opts ...Option) ([]Receipt, error)
}

var _ Enqueuer = (*Client)(nil)

// ClientConfig configures a Client. The zero value is ready to use.
type ClientConfig struct {
	// Defaults are options of every job. Options of the task and of the call
	// override them.
	Defaults []Option
	// Middleware is the enqueue chain, outermost first. Nil entries are skipped.
	Middleware []EnqueueMiddleware
	// CallTimeout limits each call to the broker. Zero or less means 5 seconds; with less
	// than 1 ms, calls of the client are refused.
	CallTimeout time.Duration
	// Retries is how often a call is repeated if the store was unavailable or
	// its answer was lost. The pauses are about 0.1 s, 0.4 s and so on. No
	// repetition starts after the caller's context has ended, or later than
	// CallTimeout after the first attempt. Zero means 2, a negative number none;
	// the maximum is 10.
	Retries int
}

const (
	defaultCallTimeout = 5 * time.Second
	defaultRetries     = 2
	maxRetries         = 10 // the pause before the 11th would be a day
)

// Client enqueues tasks. Any number of goroutines can use it. Use one client
// per process and broker: it groups concurrent calls of Enqueue into few calls
// to the broker.
type Client struct {
	cfg     ClientConfig
	broker  broker.Broker
	to      broker.Producer // the broker, or a transaction of its store
	inTx    bool            // made by In
	timeout time.Duration
	retries int
	chain   EnqueueFunc
	group   *group // nil: each job is sent on its own
	gate    *gate
	ids     *idSource
}

// NewClient makes a client of b, without a call to the store. Closing the client does
// not close b.
func NewClient(b broker.Broker, cfg ClientConfig) *Client {
	if guard.IsNil(b) {
		b = nil // calls say that the client has no broker
	}
	c := &Client{cfg: cfg, broker: b, to: b, gate: newGate(), ids: newIDSource()}
	if c.timeout = cfg.CallTimeout; c.timeout <= 0 {
		c.timeout = defaultCallTimeout
	}
	if c.retries = min(cfg.Retries, maxRetries); c.retries == 0 {
		c.retries = defaultRetries
	}
	c.chain = chainEnqueue(cfg.Middleware, storeBatch)
	c.group = &group{client: c}
	return c
}

// In returns a client that enqueues in the transaction e, with the defaults and
// the middleware of c. Its calls are neither grouped nor repeated, because a
// failed statement ends the transaction. A JobInfo is valid only if the
// transaction commits. Closing the new client does nothing: Close of c ends both.
func (c *Client) In(e broker.Producer) *Client {
	if c == nil {
		return nil
	}
	if guard.IsNil(e) {
		e = nil // calls say so
	}
	in := *c
	in.to, in.inTx, in.group, in.retries = e, true, nil, 0
	return &in
}

// Broker returns the broker that the client was made with. It is nil for a
// client made by In, whose calls belong to a transaction.
func (c *Client) Broker() broker.Broker {
	if c == nil || c.inTx {
		return nil
	}
	return c.broker
}

// Producer returns what the client enqueues into: its broker, or the transaction of In.
// It is for packages that also enqueue jobs of their own; calls of it have none of the
// client's defaults and middleware.
func (c *Client) Producer() broker.Producer {
	if c == nil {
		return nil
	}
	return c.to
}

// Enqueue makes a job of task and returns when the store has accepted it. From
// then on the job is handled at least once. The error says what happened:
//
//   - nil: the job is stored. The info has its ID.
//   - ErrDuplicate: the ID exists, or the unique key is held. The info is not
//     nil and names the job that holds it. With WithID, and only if an answer
//     was lost, this can be the job of this call.
//   - ErrOutcomeUnknown: the job may be stored, under the ID in the info.
//   - ErrUnavailable, ErrQueueFull, ErrInvalid, ErrTooLarge and any other
//     error: nothing was stored, and the info is nil.
//
// Enqueue repeats a call that failed in the store; see ClientConfig.Retries. A
// repetition after a lost answer does not store the job twice. There is one
// exception: if the job was completed meanwhile and left no record, it is
// stored and runs once more.
//
// If a call to the broker is in flight, the job goes with the next one, together
// with all jobs that arrive meanwhile. Enqueue returns when ctx ends; the calls of
// others go on. If the store hangs, Enqueue gives up after three times CallTimeout
// at most.
func (c *Client) Enqueue(ctx context.Context, task *Task, opts ...Option) (*JobInfo, error) {
	if err := c.enter(ctx); err != nil {
		return nil, broker.About(err, "enqueue", "", "")
	}
	defer c.gate.leave()
	one := singles.Get().(*single)
	if len(c.cfg.Middleware) == 0 && (task == nil || task.chain == nil) { // middleware may have kept a reference to it
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

// single holds the job of one call of Enqueue. Later calls reuse it.
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
// broker as possible. opts apply to each task. The receipts are in the order
// of the tasks. Each says what Enqueue would have returned: a refused task does
// not affect the others. The error is nil if every task was accepted. Otherwise
// it counts those that were not, and errors.Is finds their errors in it.
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

// Close makes further calls fail with ErrClosed, ends calls of Wait, and waits
// for the other calls under way, which are bounded in time. So do not call it from
// what these calls themselves call: enqueue middleware, or the function of OnProgress.
// It does not close the broker, which the caller opened. Closing again does nothing.
func (c *Client) Close() error {
	if c != nil && c.gate != nil && !c.inTx {
		c.gate.close()
	}
	return nil
}

// enter begins a call, or returns why it is refused. The caller calls gate.leave
// after it.
func (c *Client) enter(ctx context.Context) error {
	switch {
	case c != nil && c.gate != nil && c.inTx && c.to == nil:
		return errNoTx
	case c == nil || c.gate == nil || c.to == nil:
		return errNoBroker
	case ctx == nil:
		return broker.Invalid("context", "is nil; use context.Background()")
	case c.timeout < minDuration: // calls could be applied, and none would be answered
		return broker.Invalid("CallTimeout", "is %v; use %v or more, or 0 for %v", c.timeout, minDuration, defaultCallTimeout)
	case !c.gate.enter():
		return errClientClosed
	}
	return nil
}

var (
	errNoBroker     = broker.Invalid("client", "has no broker; make it with NewClient and give it one")
	errNoTx         = broker.Invalid("transaction", "is nil; pass what Tx of the store returns to Client.In")
	errClientClosed = &broker.Error{Err: ErrClosed, Hint: "the client was closed"}
)

// manyError is the error of an EnqueueMany with tasks that were not accepted.
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

// gate counts calls under way and admits none once it is closed.
type gate struct {
	mu      sync.Mutex
	inside  int
	closed  bool
	closing chan struct{} // closed when the gate is closed
	empty   chan struct{} // closed when the gate is closed and no call is under way
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

// add counts a goroutine that works for a call under way.
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
