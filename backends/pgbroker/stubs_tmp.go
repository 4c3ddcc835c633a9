package pgbroker

import (
	"context"
	"github.com/seed81422ce9/jobs/broker"
)

func (b *Broker) Prune(ctx context.Context, req broker.PruneRequest) (broker.Pruned, error) {
	return broker.Pruned{}, broker.ErrUnsupported
}
func (b *Broker) Find(ctx context.Context, q broker.Query) (broker.Page, error) {
	return broker.Page{}, broker.ErrUnsupported
}
func (b *Broker) Queues(ctx context.Context, req broker.QueuesRequest) (broker.QueuesReply, error) {
	return broker.QueuesReply{}, broker.ErrUnsupported
}
func (b *Broker) Operate(ctx context.Context, op broker.Operation) ([]broker.OperationResult, error) {
	return nil, broker.ErrUnsupported
}
func (b *Broker) Policy(ctx context.Context, req broker.PolicyRequest) (broker.Policy, error) {
	return broker.Policy{}, broker.ErrUnsupported
}
func (b *Broker) Mark(ctx context.Context, req broker.MarkRequest) (broker.Marked, error) {
	return broker.Marked{}, broker.ErrUnsupported
}
func (b *Broker) Watch(ctx context.Context, req broker.WatchRequest) (<-chan broker.Event, error) {
	return nil, broker.ErrUnsupported
}
