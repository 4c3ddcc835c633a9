package demo

import (
	"context"
	"slices"
	"strings"

	"github.com/seed81422ce9/jobs/broker"
)

// scoped is the store as whoever watches the demo sees it: with the demo's
// queues alone, because others' are none of its business.
func scoped(b broker.Broker, names []string) broker.Broker {
	return broker.Wrap(b, func(ctx context.Context, call *broker.Call, next func(context.Context) error) error {
		var queues []string
		switch req := call.Request.(type) {
		case *broker.QueuesRequest:
			if len(req.Names) == 0 {
				req.Names = names
			}
			queues = req.Names
		case *broker.Query:
			queues = []string{req.Queue}
		case *broker.Operation:
			for _, ref := range req.Refs {
				queues = append(queues, ref.Queue)
			}
		case *broker.PolicyRequest:
			queues = []string{req.Queue}
		case *broker.KeysRequest:
			queues = []string{req.Queue}
		case *broker.WatchRequest:
			queues = req.Queues
		}
		for _, queue := range queues {
			if !slices.Contains(names, queue) {
				return broker.About(broker.ErrNotFound, strings.ToLower(call.Method), queue, "")
			}
		}
		return next(ctx)
	})
}
