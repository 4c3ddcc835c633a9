package observe

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/seed81422ce9/jobs/broker"
)

// measuredBroker measures the calls to a store.
type measuredBroker struct {
	broker.Broker
	m *Metrics
}

// Unwrap returns the broker that is measured, see broker.As.
func (b *measuredBroker) Unwrap() broker.Broker { return b.Broker }

// command is a call to the store, by the broker's name for it.
type command int

const (
	cmdEnqueue command = iota
	cmdClaim
	cmdRenew
	cmdRetire
	cmdSettle
	cmdReclaim
	cmdPrune
	cmdFind
	cmdQueues
	cmdOperate
	cmdPolicy
	cmdMark
	cmdWatch
	cmdPing
	commandCount
)

var commandNames = [commandCount]string{"enqueue", "claim", "renew", "retire", "settle", "reclaim", "prune", "find", "queues", "operate", "policy", "mark", "watch", "ping"}

// How a call failed.
const (
	failedUnavailable = iota
	failedUnknown
	failedRefused
	failureCount
)

var failureNames = [failureCount]string{"unavailable", "unknown", "refused"}

// commands holds the options of measurements of calls.
type commands struct {
	took   [commandCount][]metric.RecordOption
	failed [commandCount][failureCount][]metric.AddOption
}

func (c *commands) init() {
	for i, name := range commandNames {
		c.took[i] = recorded(labelCommand, name)
		for j, failure := range failureNames {
			c.failed[i][j] = added(labelCommand, name, labelError, failure)
		}
	}
}

// done measures a call that began at a time and ended now.
func (b *measuredBroker) done(ctx context.Context, c command, began time.Time, err error) {
	b.m.instruments.command.Record(ctx, time.Since(began).Seconds(), b.m.commands.took[c]...)
	b.failed(ctx, c, err)
}

// failed counts a failure, unless the caller gave the call up.
func (b *measuredBroker) failed(ctx context.Context, c command, err error) {
	if err == nil || errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	kind := failedRefused
	switch {
	case broker.MayHaveApplied(err):
		kind = failedUnknown
	case errors.Is(err, broker.ErrUnavailable):
		kind = failedUnavailable
	}
	b.m.instruments.storeErrors.Add(ctx, 1, b.m.commands.failed[c][kind]...)
}

// ofStore returns err if it is about the store and not about one job.
func ofStore(err error) error {
	if broker.StoreFailed(err) {
		return err
	}
	return nil
}

func (b *measuredBroker) Enqueue(ctx context.Context, req broker.EnqueueRequest) ([]broker.Receipt, error) {
	began := time.Now()
	receipts, err := b.Broker.Enqueue(ctx, req)
	failed := err
	for i := range receipts {
		if failed != nil {
			break // a call counts once, however many of its jobs it failed for
		}
		failed = ofStore(receipts[i].Err)
	}
	b.done(ctx, cmdEnqueue, began, failed)
	return receipts, err
}

func (b *measuredBroker) Claim(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
	began := time.Now()
	reply, err := b.Broker.Claim(ctx, req)
	if req.Wait > 0 {
		b.failed(ctx, cmdClaim, err)
	} else {
		b.done(ctx, cmdClaim, began, err)
	}
	b.failed(ctx, cmdSettle, b.settleFailure(reply.Verdicts, reply.SettleErr))
	return reply, err
}

func (b *measuredBroker) settleFailure(verdicts []broker.Verdict, err error) error {
	for i := range verdicts {
		if err != nil {
			break
		}
		err = ofStore(verdicts[i].Err)
	}
	return err
}

func (b *measuredBroker) Settle(ctx context.Context, req broker.SettleRequest) ([]broker.Verdict, error) {
	began := time.Now()
	verdicts, err := b.Broker.Settle(ctx, req)
	b.done(ctx, cmdSettle, began, b.settleFailure(verdicts, err))
	return verdicts, err
}

func (b *measuredBroker) Renew(ctx context.Context, req broker.RenewRequest) (broker.Renewed, error) {
	began := time.Now()
	reply, err := b.Broker.Renew(ctx, req)
	b.done(ctx, cmdRenew, began, err)
	return reply, err
}

func (b *measuredBroker) Retire(ctx context.Context, req broker.RetireRequest) (broker.Retired, error) {
	began := time.Now()
	reply, err := b.Broker.Retire(ctx, req)
	b.done(ctx, cmdRetire, began, err)
	return reply, err
}

func (b *measuredBroker) Reclaim(ctx context.Context, req broker.ReclaimRequest) (broker.Claimed, error) {
	began := time.Now()
	reply, err := b.Broker.Reclaim(ctx, req)
	b.done(ctx, cmdReclaim, began, err)
	return reply, err
}

func (b *measuredBroker) Prune(ctx context.Context, req broker.PruneRequest) (broker.Pruned, error) {
	began := time.Now()
	reply, err := b.Broker.Prune(ctx, req)
	b.done(ctx, cmdPrune, began, err)
	return reply, err
}

func (b *measuredBroker) Find(ctx context.Context, q broker.Query) (broker.Page, error) {
	began := time.Now()
	page, err := b.Broker.Find(ctx, q)
	b.done(ctx, cmdFind, began, err)
	return page, err
}

func (b *measuredBroker) Queues(ctx context.Context, req broker.QueuesRequest) (broker.QueuesReply, error) {
	began := time.Now()
	reply, err := b.Broker.Queues(ctx, req)
	b.done(ctx, cmdQueues, began, err)
	return reply, err
}

func (b *measuredBroker) Operate(ctx context.Context, op broker.Operation) ([]broker.OperationResult, error) {
	began := time.Now()
	results, err := b.Broker.Operate(ctx, op)
	b.done(ctx, cmdOperate, began, err)
	return results, err
}

func (b *measuredBroker) Policy(ctx context.Context, req broker.PolicyRequest) (broker.Policy, error) {
	began := time.Now()
	policy, err := b.Broker.Policy(ctx, req)
	b.done(ctx, cmdPolicy, began, err)
	return policy, err
}

func (b *measuredBroker) Mark(ctx context.Context, req broker.MarkRequest) (broker.Marked, error) {
	began := time.Now()
	marked, err := b.Broker.Mark(ctx, req)
	b.done(ctx, cmdMark, began, err)
	return marked, err
}

func (b *measuredBroker) Watch(ctx context.Context, req broker.WatchRequest) (<-chan broker.Event, error) {
	began := time.Now()
	events, err := b.Broker.Watch(ctx, req)
	b.done(ctx, cmdWatch, began, err)
	return events, err
}

func (b *measuredBroker) Ping(ctx context.Context) error {
	began := time.Now()
	err := b.Broker.Ping(ctx)
	b.done(ctx, cmdPing, began, err)
	return err
}
