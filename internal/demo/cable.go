package demo

import (
	"context"

	"github.com/seed81422ce9/jobs/broker"
)

// cable connects one worker, or whoever watches, to the store, notes in the
// ledger what the store answers, and can be cut: then nothing reaches the store
// any more and no answer comes back, as if the process had been killed.
type cable struct {
	broker.Broker
	ledger *ledger
	cut    context.Context // ends when it is cut
	worker func(id string) // told of each worker that is registered
}

// Unwrap is not there on purpose: nothing may go around the cable.

// until bounds a call that may be broken off anywhere.
func (c *cable) until(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.cut, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// dead is the error of what goes through a cable that was cut.
func (c *cable) dead() error {
	if c.cut.Err() != nil {
		return broker.ErrUnavailable
	}
	return nil
}

// call makes a call, unless the cable is cut, and loses the answer if it is cut
// meanwhile.
func call[T any](c *cable, f func() (T, error)) (reply T, err error) {
	if err := c.dead(); err != nil {
		return reply, err
	}
	reply, err = f()
	if err := c.dead(); err != nil {
		return *new(T), err
	}
	return reply, err
}

func (c *cable) Claim(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
	if len(req.Settle.Items) == 0 { // otherwise the ledger has to know the verdicts
		var stop context.CancelFunc
		ctx, stop = c.until(ctx)
		defer stop()
	}
	return call(c, func() (broker.Claimed, error) {
		claimed, err := c.Broker.Claim(ctx, req)
		c.ledger.settled(req.Settle, claimed.Verdicts)
		return claimed, err
	})
}

func (c *cable) Settle(ctx context.Context, req broker.SettleRequest) ([]broker.Verdict, error) {
	return call(c, func() ([]broker.Verdict, error) {
		verdicts, err := c.Broker.Settle(ctx, req)
		c.ledger.settled(req, verdicts)
		return verdicts, err
	})
}

func (c *cable) Renew(ctx context.Context, req broker.RenewRequest) (broker.Renewed, error) {
	if req.Register {
		c.worker(req.Worker)
	}
	return call(c, func() (broker.Renewed, error) { return c.Broker.Renew(ctx, req) })
}

func (c *cable) Retire(ctx context.Context, req broker.RetireRequest) (broker.Retired, error) {
	return call(c, func() (broker.Retired, error) { return c.Broker.Retire(ctx, req) })
}

func (c *cable) Reclaim(ctx context.Context, req broker.ReclaimRequest) (broker.Claimed, error) {
	return call(c, func() (broker.Claimed, error) { return c.Broker.Reclaim(ctx, req) })
}

func (c *cable) Prune(ctx context.Context, req broker.PruneRequest) (broker.Pruned, error) {
	return call(c, func() (broker.Pruned, error) { return c.Broker.Prune(ctx, req) })
}

func (c *cable) Find(ctx context.Context, q broker.Query) (broker.Page, error) {
	return call(c, func() (broker.Page, error) { return c.Broker.Find(ctx, q) })
}

func (c *cable) Queues(ctx context.Context, req broker.QueuesRequest) (broker.QueuesReply, error) {
	return call(c, func() (broker.QueuesReply, error) { return c.Broker.Queues(ctx, req) })
}

func (c *cable) Operate(ctx context.Context, op broker.Operation) ([]broker.OperationResult, error) {
	return call(c, func() ([]broker.OperationResult, error) {
		results, err := c.Broker.Operate(ctx, op)
		c.ledger.decided(op.Kind, results)
		return results, err
	})
}

func (c *cable) Watch(ctx context.Context, req broker.WatchRequest) (<-chan broker.Event, error) {
	ctx, stop := c.until(ctx)
	events, err := call(c, func() (<-chan broker.Event, error) { return c.Broker.Watch(ctx, req) })
	if err != nil {
		stop()
	}
	return events, err
}

// Close leaves the store open: it is everybody's.
func (c *cable) Close() error { return nil }
