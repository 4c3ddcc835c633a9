// Package faulty wraps a broker in the failures of a network: calls that never
// arrive, calls that are carried out although their reply is lost, and slow
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
	Delay  time.Duration // passes before the call, or until its context ends
	Before error         // answered instead of making the call
	After  error         // answered after making the call, whatever that said
}

// The faults of a network.
var (
	// Unavailable: the call is not made, and its caller is told so.
	Unavailable = Fault{Before: broker.ErrUnavailable}
	// ReplyLost: the call is made, and its caller is not told.
	ReplyLost = Fault{After: ErrReplyLost}
)

// Slow delays a call.
func Slow(d time.Duration) Fault { return Fault{Delay: d} }

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

// through makes a call with the fault that the plan has for it.
func through[R any](ctx context.Context, b *Broker, method string, call func() (R, error)) (R, error) {
	var none R
	f := b.next(method)
	if f.Delay > 0 {
		t := time.NewTimer(f.Delay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return none, fmt.Errorf("faulty: %s: %w", method, ctx.Err())
		}
	}
	if f.Before != nil {
		return none, f.Before
	}
	r, err := call()
	if f.After != nil {
		return none, f.After
	}
	return r, err
}

// Enqueue implements broker.Broker.
func (b *Broker) Enqueue(ctx context.Context, req broker.EnqueueRequest) ([]broker.Receipt, error) {
	return through(ctx, b, "Enqueue", func() ([]broker.Receipt, error) { return b.inner.Enqueue(ctx, req) })
}

// Claim implements broker.Broker.
func (b *Broker) Claim(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
	return through(ctx, b, "Claim", func() (broker.Claimed, error) { return b.inner.Claim(ctx, req) })
}

// Renew implements broker.Broker.
func (b *Broker) Renew(ctx context.Context, req broker.RenewRequest) (broker.Renewed, error) {
	return through(ctx, b, "Renew", func() (broker.Renewed, error) { return b.inner.Renew(ctx, req) })
}

// Retire implements broker.Broker.
func (b *Broker) Retire(ctx context.Context, req broker.RetireRequest) (broker.Retired, error) {
	return through(ctx, b, "Retire", func() (broker.Retired, error) { return b.inner.Retire(ctx, req) })
}

// Settle implements broker.Broker.
func (b *Broker) Settle(ctx context.Context, req broker.SettleRequest) ([]broker.Verdict, error) {
	return through(ctx, b, "Settle", func() ([]broker.Verdict, error) { return b.inner.Settle(ctx, req) })
}

// Reclaim implements broker.Broker.
func (b *Broker) Reclaim(ctx context.Context, req broker.ReclaimRequest) (broker.Claimed, error) {
	return through(ctx, b, "Reclaim", func() (broker.Claimed, error) { return b.inner.Reclaim(ctx, req) })
}

// Prune implements broker.Broker.
func (b *Broker) Prune(ctx context.Context, req broker.PruneRequest) (broker.Pruned, error) {
	return through(ctx, b, "Prune", func() (broker.Pruned, error) { return b.inner.Prune(ctx, req) })
}

// Find implements broker.Broker.
func (b *Broker) Find(ctx context.Context, q broker.Query) (broker.Page, error) {
	return through(ctx, b, "Find", func() (broker.Page, error) { return b.inner.Find(ctx, q) })
}

// Queues implements broker.Broker.
func (b *Broker) Queues(ctx context.Context, req broker.QueuesRequest) (broker.QueuesReply, error) {
	return through(ctx, b, "Queues", func() (broker.QueuesReply, error) { return b.inner.Queues(ctx, req) })
}

// Operate implements broker.Broker.
func (b *Broker) Operate(ctx context.Context, op broker.Operation) ([]broker.OperationResult, error) {
	return through(ctx, b, "Operate", func() ([]broker.OperationResult, error) { return b.inner.Operate(ctx, op) })
}

// Policy implements broker.Broker.
func (b *Broker) Policy(ctx context.Context, req broker.PolicyRequest) (broker.Policy, error) {
	return through(ctx, b, "Policy", func() (broker.Policy, error) { return b.inner.Policy(ctx, req) })
}

// Mark implements broker.Broker.
func (b *Broker) Mark(ctx context.Context, req broker.MarkRequest) (broker.Marked, error) {
	return through(ctx, b, "Mark", func() (broker.Marked, error) { return b.inner.Mark(ctx, req) })
}

// Watch implements broker.Broker. A watch whose reply is lost goes on in the
// store until its context ends.
func (b *Broker) Watch(ctx context.Context, req broker.WatchRequest) (<-chan broker.Event, error) {
	return through(ctx, b, "Watch", func() (<-chan broker.Event, error) { return b.inner.Watch(ctx, req) })
}

// Ping implements broker.Broker.
func (b *Broker) Ping(ctx context.Context) error {
	_, err := through(ctx, b, "Ping", func() (struct{}, error) { return struct{}{}, b.inner.Ping(ctx) })
	return err
}

// Limits implements broker.Broker.
func (b *Broker) Limits() broker.Limits { return b.inner.Limits() }

// Close implements broker.Broker.
func (b *Broker) Close() error { return b.inner.Close() }
