package demo

import (
	"context"
	"slices"

	"github.com/seed81422ce9/jobs/broker"
)

// scope is the store as whoever watches the demo sees it: with the demo's
// queues alone, because others' are none of its business.
type scope struct {
	broker.Broker
	names []string
}

// foreign refuses what concerns another queue.
func (s *scope) foreign(op string, queues ...string) error {
	for _, q := range queues {
		if !slices.Contains(s.names, q) {
			return broker.About(broker.ErrNotFound, op, q, "")
		}
	}
	return nil
}

func (s *scope) Queues(ctx context.Context, req broker.QueuesRequest) (broker.QueuesReply, error) {
	if len(req.Names) == 0 {
		req.Names = s.names
	}
	if err := s.foreign("queues", req.Names...); err != nil {
		return broker.QueuesReply{}, err
	}
	return s.Broker.Queues(ctx, req)
}

func (s *scope) Find(ctx context.Context, q broker.Query) (broker.Page, error) {
	if err := s.foreign("find", q.Queue); err != nil {
		return broker.Page{}, err
	}
	return s.Broker.Find(ctx, q)
}

func (s *scope) Operate(ctx context.Context, op broker.Operation) ([]broker.OperationResult, error) {
	for _, ref := range op.Refs {
		if err := s.foreign(op.Kind.String(), ref.Queue); err != nil {
			return nil, err
		}
	}
	return s.Broker.Operate(ctx, op)
}

func (s *scope) Policy(ctx context.Context, req broker.PolicyRequest) (broker.Policy, error) {
	if err := s.foreign("policy", req.Queue); err != nil {
		return broker.Policy{}, err
	}
	return s.Broker.Policy(ctx, req)
}

func (s *scope) Watch(ctx context.Context, req broker.WatchRequest) (<-chan broker.Event, error) {
	if err := s.foreign("watch", req.Queues...); err != nil {
		return nil, err
	}
	return s.Broker.Watch(ctx, req)
}
