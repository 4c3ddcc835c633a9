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

func newCable(cut context.Context, b broker.Broker, l *ledger, worker func(id string)) *cable {
	c := &cable{ledger: l, cut: cut, worker: worker}
	c.Broker = broker.Wrap(b, c.around)
	return c
}

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

// around makes a call, unless the cable is cut, and loses the answer if it is cut
// meanwhile. The ledger has to know verdicts, so that a call that settles is not
// broken off.
func (c *cable) around(ctx context.Context, call *broker.Call, next func(context.Context) error) error {
	if err := c.dead(); err != nil {
		return err
	}
	var stop context.CancelFunc
	switch req := call.Request.(type) {
	case *broker.RenewRequest:
		if req.Register {
			c.worker(req.Worker)
		}
	case *broker.ClaimRequest:
		if len(req.Settle.Items) == 0 {
			ctx, stop = c.until(ctx)
			defer stop()
		}
	case *broker.WatchRequest:
		ctx, stop = c.until(ctx) // which ends with the watch
	}
	err := next(ctx)
	switch reply := call.Reply.(type) {
	case *broker.Claimed:
		if req, ok := call.Request.(*broker.ClaimRequest); ok {
			c.ledger.settled(req.Settle, reply.Verdicts)
		}
	case *[]broker.Verdict:
		c.ledger.settled(*call.Request.(*broker.SettleRequest), *reply)
	case *[]broker.OperationResult:
		c.ledger.decided(call.Request.(*broker.Operation).Kind, *reply)
	case *<-chan broker.Event:
		if err != nil {
			stop()
		}
	}
	if err := c.dead(); err != nil {
		call.Clear()
		return err
	}
	return err
}

// Close leaves the store open: it is everybody's.
func (c *cable) Close() error { return nil }
