package observe

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/semconv/v1.43.0/messagingconv"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

// messaging records the metrics of OpenTelemetry's conventions for messaging
// systems. A nil *messaging records nothing.
type messaging struct {
	sent     messagingconv.ClientSentMessages
	consumed messagingconv.ClientConsumedMessages
	call     messagingconv.ClientOperationDuration
	run      messagingconv.ProcessDuration

	queue func(string) string // returns the bounded label for a queue's name
	sets  sync.Map            // messagingKey → attribute.Set
}

type messagingKey struct {
	op     operation
	queue  string // empty for several queues
	failed bool
}

func newMessaging(meter metric.Meter, queue func(string) string) (*messaging, error) {
	buckets := metric.WithExplicitBucketBoundaries(storeSeconds...)
	g := &messaging{queue: queue}
	var err error
	if g.sent, err = messagingconv.NewClientSentMessages(meter); err != nil {
		return nil, err
	}
	if g.consumed, err = messagingconv.NewClientConsumedMessages(meter); err != nil {
		return nil, err
	}
	if g.call, err = messagingconv.NewClientOperationDuration(meter, buckets); err != nil {
		return nil, err
	}
	g.run, err = messagingconv.NewProcessDuration(meter, metric.WithExplicitBucketBoundaries(jobSeconds...))
	return g, err
}

// set returns the attributes of an operation on a queue.
func (g *messaging) set(op operation, queue string, failed bool) attribute.Set {
	if queue != "" {
		queue = g.queue(queue)
	}
	key := messagingKey{op, queue, failed}
	if set, ok := g.sets.Load(key); ok {
		return set.(attribute.Set)
	}
	typ := operations[op].typ
	all := []attribute.KeyValue{semconv.MessagingSystemKey.String("jobs"), semconv.MessagingOperationName(typ.Value.AsString()), typ}
	if queue != "" {
		all = append(all, semconv.MessagingDestinationName(queue))
	}
	if failed {
		all = append(all, semconv.ErrorTypeOther)
	}
	set := attribute.NewSet(all...)
	g.sets.Store(key, set)
	return set
}

// enqueued measures a batch that was sent, accepted or not.
func (g *messaging) enqueued(ctx context.Context, batch []*jobs.Outgoing, took time.Duration) {
	if g == nil {
		return
	}
	failed := false
	for _, o := range batch {
		failed = failed || o.Err != nil
		g.sent.AddSet(ctx, 1, g.set(opSend, o.Queue, o.Err != nil))
	}
	g.call.RecordSet(ctx, took.Seconds(), g.set(opSend, commonQueue(len(batch), func(i int) string { return batch[i].Queue }), failed))
}

// claimed measures a claim.
func (g *messaging) claimed(e *jobs.ClaimEvent) {
	if g == nil {
		return
	}
	ctx := context.Background()
	for i := range e.Jobs {
		g.consumed.AddSet(ctx, 1, g.set(opReceive, e.Jobs[i].Queue, false))
	}
	if !e.Waited { // the duration of a waiting claim says nothing about the store
		g.call.RecordSet(ctx, e.Took.Seconds(), g.set(opReceive, queueOf(e.Jobs), e.Err != nil))
	}
}

// settled measures an attempt to settle.
func (g *messaging) settled(e *jobs.SettleEvent) {
	if g == nil {
		return
	}
	queue := commonQueue(len(e.Items), func(i int) string { return e.Items[i].Job.Queue })
	g.call.RecordSet(context.Background(), e.Took.Seconds(), g.set(opSettle, queue, e.Err != nil))
}

// ran measures a run of a handler.
func (g *messaging) ran(ctx context.Context, queue string, took time.Duration, failed bool) {
	if g != nil {
		g.run.RecordSet(ctx, took.Seconds(), g.set(opProcess, queue, failed))
	}
}

func queueOf(list []broker.Job) string {
	return commonQueue(len(list), func(i int) string { return list[i].Queue })
}
