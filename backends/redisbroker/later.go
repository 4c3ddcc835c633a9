package redisbroker

import (
	"context"

	"github.com/seed81422ce9/jobs/broker"
)

// Prune answers ErrUnsupported.
func (b *Broker) Prune(context.Context, broker.PruneRequest) (broker.Pruned, error) {
	return broker.Pruned{}, broker.ErrUnsupported
}

// Find answers ErrUnsupported.
func (b *Broker) Find(context.Context, broker.Query) (broker.Page, error) {
	return broker.Page{}, broker.ErrUnsupported
}

// Queues answers ErrUnsupported.
func (b *Broker) Queues(context.Context, broker.QueuesRequest) (broker.QueuesReply, error) {
	return broker.QueuesReply{}, broker.ErrUnsupported
}

// Operate answers ErrUnsupported.
func (b *Broker) Operate(context.Context, broker.Operation) ([]broker.OperationResult, error) {
	return nil, broker.ErrUnsupported
}

// Policy answers ErrUnsupported.
func (b *Broker) Policy(context.Context, broker.PolicyRequest) (broker.Policy, error) {
	return broker.Policy{}, broker.ErrUnsupported
}

// Mark answers ErrUnsupported.
func (b *Broker) Mark(context.Context, broker.MarkRequest) (broker.Marked, error) {
	return broker.Marked{}, broker.ErrUnsupported
}

// Watch answers ErrUnsupported.
func (b *Broker) Watch(context.Context, broker.WatchRequest) (<-chan broker.Event, error) {
	return nil, broker.ErrUnsupported
}
