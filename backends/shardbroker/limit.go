package shardbroker

import (
	"context"
	"fmt"
	"strconv"

	"github.com/seed81422ce9/jobs/broker"
)

// A limit whose parts are lent is stored as a whole in a mark, since the parts add up to less while one
// of them moves.
const (
	maxActiveMark = "max-active"
	rateMark      = "rate" // its Jobs

	limitOwner = "limit" // of these marks, whichever process sets a limit
)

// limit returns a limit as it was set, or 0 if no mark holds it, and a number that changes whenever
// it is set.
func (b *Broker) limit(ctx context.Context, mark, queue string) (total, fence int64, err error) {
	got, err := b.Mark(ctx, broker.MarkRequest{Action: broker.MarkRead, Name: markOf(mark, queue)})
	if err != nil || !got.Held {
		return 0, 0, err
	}
	total, err = strconv.ParseInt(string(got.Value), 10, 64)
	return total, got.Fence, err
}

// noteLimit stores a limit as it is set; 0 for none.
func (b *Broker) noteLimit(ctx context.Context, mark, queue string, total int64) (fence int64, err error) {
	req := broker.MarkRequest{Action: broker.MarkTake, Name: markOf(mark, queue), Owner: limitOwner, TTL: broker.MaxDelay,
		Value: strconv.AppendInt(nil, max(total, 0), 10)}
	got, err := b.Mark(ctx, req)
	if err != nil {
		return 0, err
	}
	req.Action, req.Fence = broker.MarkSet, got.Fence
	if got, err = b.Mark(ctx, req); err == nil && !got.Held {
		return 0, fmt.Errorf("%w: another call sets the limit of queue %q, try again", broker.ErrUnavailable, queue)
	}
	return req.Fence, err
}
