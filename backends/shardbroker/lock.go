package shardbroker

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

type marker func(context.Context, broker.MarkRequest) (broker.Marked, error)

// lock is a mark that a call holds.
type lock struct {
	mark marker
	req  broker.MarkRequest
}

// lock waits for a mark and takes it, for at most quietTime. Each call uses its own owner,
// so that calls of one process exclude each other too.
func (b *Broker) lock(ctx context.Context, mark marker, name string, now time.Time) (*lock, error) {
	req := broker.MarkRequest{Now: now, Name: name, Action: broker.MarkTake, Owner: rand.Text(), TTL: quietTime}
	for {
		got, err := mark(ctx, req)
		if err != nil {
			return nil, err
		}
		if got.Held {
			req.Fence = got.Fence
			return &lock{mark, req}, nil
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
}

// keep holds the mark for quietTime from now on. It fails if the time was over before.
func (l *lock) keep(ctx context.Context) error {
	req := l.req
	req.Action = broker.MarkKeep
	got, err := l.mark(ctx, req)
	if err == nil && !got.Held {
		err = fmt.Errorf("%w: the call took too long, and another one may have begun; try again", broker.ErrUnavailable)
	}
	return err
}

// drop frees the mark. A nil lock has none.
func (l *lock) drop(ctx context.Context) {
	if l != nil {
		req := l.req
		req.Action = broker.MarkDrop
		_, _ = l.mark(context.WithoutCancel(ctx), req)
	}
}
