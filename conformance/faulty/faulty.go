// Package faulty wraps a broker in the failures of a network: calls that never
// arrive, calls that are carried out although their reply is lost or cut short,
// calls that time out before, while or after the store carries them out, and slow
// ones. It works over every backend, and in an application's own tests:
//
//	b := faulty.Wrap(membroker.New(), faulty.Plan{
//		{Method: "Settle", Call: 1, Fault: faulty.ReplyLost},
//		{Method: "Claim", Fault: faulty.Slow(time.Second)},
//	})
package faulty

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// ErrReplyLost is the error of a call that was carried out, for all its caller
// knows perhaps not: broker.MayHaveApplied reports true.
var ErrReplyLost = errors.New("faulty: connection lost before the reply")

// Fault is what befalls a call. The zero value is none.
type Fault struct {
	Delay  time.Duration // passes before the call, or until its context ends: then the call is not made
	Before error         // answered instead of making the call
	Within time.Duration // the store sees a context that ends so long after the call began; zero: the caller's
	Linger time.Duration // passes after the call, or until its context ends: then its error is the answer
	After  error         // answered after making the call, whatever that said

	// Cut loses only the second half of an answer that has several parts, which
	// is how several queues or nodes answer. Receipts, verdicts and results that
	// are lost have After as their error; jobs and released refs are missing
	// beside it. It needs After.
	Cut bool
}

// The faults of a network.
var (
	// Unavailable: the call is not made, and its caller is told so.
	Unavailable = Fault{Before: broker.ErrUnavailable}
	// ReplyLost: the call is made, and its caller is not told.
	ReplyLost = Fault{After: ErrReplyLost}
	// ReplyCut: the call is made, and its caller is told half of the answer.
	ReplyCut = Fault{After: ErrReplyLost, Cut: true}
)

// Slow delays a call.
func Slow(d time.Duration) Fault { return Fault{Delay: d} }

// SlowReply delays the answer of a call that was made.
func SlowReply(d time.Duration) Fault { return Fault{Linger: d} }

// Expire ends a call's context while the store may be at work on it. Its answer
// is the store's own.
func Expire(d time.Duration) Fault { return Fault{Within: d} }

// Step says which calls a fault befalls.
type Step struct {
	Method string // of broker.Broker, as it is spelt there; empty means every one
	Call   int    // the nth call of that method since the plan was set, from 1; 0 means each
	Fault  Fault
}

// Plan is what will go wrong. Of several steps that mean a call, the first
// counts.
type Plan []Step

// Broker is a broker with faults. Limits and Close never fail.
type Broker struct {
	inner broker.Broker

	mu    sync.Mutex
	plan  Plan
	calls map[string]int // by method, and of all under ""
}

// Wrap returns b with the faults of a plan, which may be nil.
func Wrap(b broker.Broker, plan Plan) *Broker {
	f := &Broker{inner: b}
	f.Set(plan)
	return f
}

// Set replaces the plan and counts calls anew. It may be called at any time.
func (b *Broker) Set(plan Plan) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.plan, b.calls = plan, make(map[string]int)
}

// Calls says how many calls of a method were made since the plan was set, or
// of all methods when it is empty.
func (b *Broker) Calls(method string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls[method]
}

func (b *Broker) next(method string) Fault {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls[method]++
	b.calls[""]++
	for _, s := range b.plan {
		if (s.Method == "" || s.Method == method) && (s.Call == 0 || s.Call == b.calls[s.Method]) {
			return s.Fault
		}
	}
	return Fault{}
}

// through makes a call with the fault that the plan has for it. cut takes the
// second half from an answer, whose parts there have the error instead, and
// returns the error of the call itself; nil for answers of one part.
func through[R any](ctx context.Context, b *Broker, method string, cut func(*R, error) error, call func(context.Context) (R, error)) (R, error) {
	var none R
	f := b.next(method)
	if err := pass(ctx, method, f.Delay); err != nil {
		return none, err
	}
	if f.Before != nil {
		return none, f.Before
	}
	inner := ctx
	if f.Within > 0 {
		short, cancel := context.WithTimeout(ctx, f.Within)
		defer cancel()
		inner = short
	}
	r, err := call(inner)
	if late := pass(ctx, method, f.Linger); late != nil {
		return none, late
	}
	switch {
	case f.After == nil:
		return r, err
	case f.Cut && cut != nil && err == nil:
		return r, cut(&r, f.After)
	}
	return none, f.After
}

// pass lets time go by, unless the context ends first.
func pass(ctx context.Context, method string, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("faulty: %s: %w", method, ctx.Err())
	}
}

// cutClaim takes the second half of the jobs away, and of the verdicts.
func cutClaim(c *broker.Claimed, err error) error {
	c.Jobs = c.Jobs[:len(c.Jobs)/2]
	if len(c.Verdicts) > 0 {
		c.SettleErr = cutVerdicts(&c.Verdicts, err)
	}
	return err
}

func cutVerdicts(all *[]broker.Verdict, err error) error {
	return cutParts(all, err, func(v *broker.Verdict) { v.State, v.Err = broker.StateNone, err })
}

// cutParts makes the second half of an answer's parts unknown. Of a single one
// nothing is known, so that the whole call failed.
func cutParts[P any](parts *[]P, err error, lose func(*P)) error {
	if len(*parts) < 2 {
		*parts = nil
		return err
	}
	for i := len(*parts) / 2; i < len(*parts); i++ {
		lose(&(*parts)[i])
	}
	return nil
}

// Enqueue implements broker.Broker.
func (b *Broker) Enqueue(ctx context.Context, req broker.EnqueueRequest) ([]broker.Receipt, error) {
	return through(ctx, b, "Enqueue", func(all *[]broker.Receipt, err error) error {
		return cutParts(all, err, func(r *broker.Receipt) { *r = broker.Receipt{Queue: r.Queue, ID: r.ID, Err: err} })
	}, func(ctx context.Context) ([]broker.Receipt, error) { return b.inner.Enqueue(ctx, req) })
}

// Claim implements broker.Broker.
func (b *Broker) Claim(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
	return through(ctx, b, "Claim", cutClaim, func(ctx context.Context) (broker.Claimed, error) { return b.inner.Claim(ctx, req) })
}

// Renew implements broker.Broker.
func (b *Broker) Renew(ctx context.Context, req broker.RenewRequest) (broker.Renewed, error) {
	return through(ctx, b, "Renew", nil, func(ctx context.Context) (broker.Renewed, error) { return b.inner.Renew(ctx, req) })
}

// Retire implements broker.Broker.
func (b *Broker) Retire(ctx context.Context, req broker.RetireRequest) (broker.Retired, error) {
	return through(ctx, b, "Retire", func(all *broker.Retired, err error) error {
		all.Released = all.Released[:len(all.Released)/2]
		return err
	}, func(ctx context.Context) (broker.Retired, error) { return b.inner.Retire(ctx, req) })
}

// Settle implements broker.Broker.
func (b *Broker) Settle(ctx context.Context, req broker.SettleRequest) ([]broker.Verdict, error) {
	return through(ctx, b, "Settle", cutVerdicts, func(ctx context.Context) ([]broker.Verdict, error) { return b.inner.Settle(ctx, req) })
}

// Reclaim implements broker.Broker.
func (b *Broker) Reclaim(ctx context.Context, req broker.ReclaimRequest) (broker.Claimed, error) {
	return through(ctx, b, "Reclaim", cutClaim, func(ctx context.Context) (broker.Claimed, error) { return b.inner.Reclaim(ctx, req) })
}

// Prune implements broker.Broker.
func (b *Broker) Prune(ctx context.Context, req broker.PruneRequest) (broker.Pruned, error) {
	return through(ctx, b, "Prune", nil, func(ctx context.Context) (broker.Pruned, error) { return b.inner.Prune(ctx, req) })
}

// Find implements broker.Broker.
func (b *Broker) Find(ctx context.Context, q broker.Query) (broker.Page, error) {
	return through(ctx, b, "Find", nil, func(ctx context.Context) (broker.Page, error) { return b.inner.Find(ctx, q) })
}

// Queues implements broker.Broker.
func (b *Broker) Queues(ctx context.Context, req broker.QueuesRequest) (broker.QueuesReply, error) {
	return through(ctx, b, "Queues", nil, func(ctx context.Context) (broker.QueuesReply, error) { return b.inner.Queues(ctx, req) })
}

// Operate implements broker.Broker.
func (b *Broker) Operate(ctx context.Context, op broker.Operation) ([]broker.OperationResult, error) {
	return through(ctx, b, "Operate", func(all *[]broker.OperationResult, err error) error {
		return cutParts(all, err, func(r *broker.OperationResult) { *r = broker.OperationResult{Ref: r.Ref, Err: err} })
	}, func(ctx context.Context) ([]broker.OperationResult, error) { return b.inner.Operate(ctx, op) })
}

// Policy implements broker.Broker.
func (b *Broker) Policy(ctx context.Context, req broker.PolicyRequest) (broker.Policy, error) {
	return through(ctx, b, "Policy", nil, func(ctx context.Context) (broker.Policy, error) { return b.inner.Policy(ctx, req) })
}

// Mark implements broker.Broker.
func (b *Broker) Mark(ctx context.Context, req broker.MarkRequest) (broker.Marked, error) {
	return through(ctx, b, "Mark", nil, func(ctx context.Context) (broker.Marked, error) { return b.inner.Mark(ctx, req) })
}

// Watch implements broker.Broker. A watch whose reply is lost goes on in the
// store until its context ends.
func (b *Broker) Watch(ctx context.Context, req broker.WatchRequest) (<-chan broker.Event, error) {
	return through(ctx, b, "Watch", nil, func(ctx context.Context) (<-chan broker.Event, error) { return b.inner.Watch(ctx, req) })
}

// Ping implements broker.Broker.
func (b *Broker) Ping(ctx context.Context) error {
	_, err := through(ctx, b, "Ping", nil, func(ctx context.Context) (struct{}, error) { return struct{}{}, b.inner.Ping(ctx) })
	return err
}

// Limits implements broker.Broker.
func (b *Broker) Limits() broker.Limits {
	limits := b.inner.Limits()
	limits.InProcess = false // calls and answers are lost here
	return limits
}

// Close implements broker.Broker.
func (b *Broker) Close() error { return b.inner.Close() }
