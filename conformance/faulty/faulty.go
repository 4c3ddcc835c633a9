// Package faulty wraps a broker in the failures of a network: calls that never
// arrive, calls that are carried out although their reply is lost or cut short,
// calls that time out before, while or after the store carries them out, and slow calls. It works with
// every backend, and in an application's own tests:
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

// ErrReplyLost is the error of a call that was carried out, though its caller cannot
// know that: broker.MayHaveApplied reports true for it.
var ErrReplyLost = errors.New("faulty: connection lost before the reply")

// Fault is what goes wrong with a call. The zero value is no fault.
type Fault struct {
	Delay  time.Duration // passes before the call; if its context ends meanwhile, the call is not made
	Before error         // answered instead of making the call
	Within time.Duration // timeout of the context that the store sees; zero leaves the caller's context
	Linger time.Duration // passes after the call; if its context ends meanwhile, the answer is that error
	After  error         // answered after making the call, instead of its answer

	// Cut loses only the second half of an answer that has several parts, as when
	// one of several queues or nodes does not answer. Lost receipts, verdicts and
	// results have After as their error. Lost jobs and released refs are missing,
	// and the call returns After. Cut needs After.
	Cut bool
}

// The faults of a network.
var (
	// Unavailable: the call is not made, and its caller knows that.
	Unavailable = Fault{Before: broker.ErrUnavailable}
	// ReplyLost: the call is made, and its caller gets no answer.
	ReplyLost = Fault{After: ErrReplyLost}
	// ReplyCut: the call is made, and its caller gets half of the answer.
	ReplyCut = Fault{After: ErrReplyLost, Cut: true}
)

// Slow delays a call.
func Slow(d time.Duration) Fault { return Fault{Delay: d} }

// SlowReply delays the answer of a call that was made.
func SlowReply(d time.Duration) Fault { return Fault{Linger: d} }

// Expire ends a call's context while the store may be working on it. The answer is
// the store's own.
func Expire(d time.Duration) Fault { return Fault{Within: d} }

// Step says which calls have a fault.
type Step struct {
	Method string // name of a method of broker.Broker; empty means all
	Call   int    // the nth call of that method since the plan was set, from 1; 0 means all
	Fault  Fault
}

// Plan lists the faults. If several steps match a call, the first applies.
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

// Set replaces the plan and resets the counts of calls. It may be called at any time.
func (b *Broker) Set(plan Plan) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.plan, b.calls = plan, make(map[string]int)
}

// Calls returns how many calls of a method were made since the plan was set, or of
// all methods if method is empty.
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

// around makes a call with the fault that the plan gives it.
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

// pass waits for d, unless the context ends first.
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

// cut loses the second half of an answer. parts reports whether the answer has
// parts, and call is the error that the whole call then returns.
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

// cutParts calls lose for the second half of the parts. An answer with fewer than two parts is lost
// completely: cutParts returns err for the call.
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

// Limits returns the limits of the wrapped broker, but without InProcess: calls and
// answers can be lost, as with a store outside the process.
func (b *Broker) Limits() broker.Limits {
	limits := b.Broker.Limits()
	limits.InProcess = false
	return limits
}

// Unwrap returns nil: nothing may bypass the faults.
func (b *Broker) Unwrap() broker.Broker { return nil }
