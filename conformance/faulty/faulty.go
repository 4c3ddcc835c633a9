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

// Fault is what goes wrong with a call. The zero value is nothing.
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

// Step says which calls have a fault.
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
	broker.Broker

	mu    sync.Mutex
	plan  Plan
	calls map[string]int // by method, and of all under ""
}

// Wrap returns b with the faults of a plan, which may be nil.
func Wrap(b broker.Broker, plan Plan) *Broker {
	f := &Broker{}
	f.Broker = broker.Wrap(b, f.around)
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

// around makes a call with the fault that the plan has for it.
func (b *Broker) around(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
	f := b.next(c.Method)
	if err := pass(ctx, c.Method, f.Delay); err != nil {
		return err
	}
	if f.Before != nil {
		return f.Before
	}
	inner := ctx
	if f.Within > 0 {
		short, cancel := context.WithTimeout(ctx, f.Within)
		defer cancel()
		inner = short
	}
	err := next(inner)
	if late := pass(ctx, c.Method, f.Linger); late != nil {
		c.Clear()
		return late
	}
	if f.After == nil {
		return err
	}
	if f.Cut && err == nil {
		if parts, lost := cut(c.Reply, f.After); parts {
			return lost
		}
	}
	c.Clear()
	return f.After
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

// cut takes the second half from an answer of several parts, which have the
// error instead, and returns the error of the call itself.
func cut(reply any, err error) (parts bool, call error) {
	switch r := reply.(type) {
	case *[]broker.Receipt:
		return true, cutParts(r, err, func(p *broker.Receipt) { *p = broker.Receipt{Queue: p.Queue, ID: p.ID, Err: err} })
	case *[]broker.Verdict:
		return true, cutVerdicts(r, err)
	case *[]broker.OperationResult:
		return true, cutParts(r, err, func(p *broker.OperationResult) { *p = broker.OperationResult{Ref: p.Ref, Err: err} })
	case *broker.Claimed:
		r.Jobs = r.Jobs[:len(r.Jobs)/2]
		if len(r.Verdicts) > 0 {
			r.SettleErr = cutVerdicts(&r.Verdicts, err)
		}
		return true, err
	case *broker.Retired:
		r.Released = r.Released[:len(r.Released)/2]
		return true, err
	}
	return false, nil
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

// Limits are those of the broker inside. Calls and answers are lost here, so that
// it counts as a store of several processes.
func (b *Broker) Limits() broker.Limits {
	limits := b.Broker.Limits()
	limits.InProcess = false
	return limits
}

// Unwrap is not there on purpose: nothing may go around the faults.
func (b *Broker) Unwrap() broker.Broker { return nil }
