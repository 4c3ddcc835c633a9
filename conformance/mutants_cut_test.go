package conformance_test

import (
	"context"
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

var cutMutants = []mutant{
	{"a claim that fails gives jobs that were rolled back", "Fault/JobsBesideAnErrorAreLeased", always(func(p *patched) {
		next := p.claim
		p.claim = func(ctx context.Context, r broker.ClaimRequest) (broker.Claimed, error) {
			got, err := next(ctx, r)
			if late(ctx) {
				for i := range got.Jobs {
					p.settleAs(r.Now, r.Worker, &got.Jobs[i], broker.Release())
				}
				return got, ctx.Err()
			}
			return got, err
		}
	})},
	{"a reclaim that fails gives jobs that it did not take", "Fault/JobsBesideAnErrorAreLeased", always(func(p *patched) {
		next := p.reclaim
		p.reclaim = func(ctx context.Context, r broker.ReclaimRequest) (broker.Claimed, error) {
			got, err := next(ctx, r)
			if late(ctx) {
				for i := range got.Jobs {
					got.Jobs[i].Epoch++
				}
				return got, ctx.Err()
			}
			return got, err
		}
	})},
	{"an enqueue that timed out says that nothing was applied", "Fault/TimedOutEnqueueTellsTheTruth", always(func(p *patched) {
		next := p.enqueue
		p.enqueue = func(ctx context.Context, r broker.EnqueueRequest) ([]broker.Receipt, error) {
			got, err := next(ctx, r)
			if err == nil && late(ctx) {
				return nil, fmt.Errorf("%w: %w", broker.ErrUnavailable, ctx.Err())
			}
			return got, err
		}
	})},
}

// late reports whether a context with a short deadline has ended.
func late(ctx context.Context) bool {
	if end, ok := ctx.Deadline(); !ok || time.Until(end) > time.Second {
		return false
	}
	select {
	case <-time.After(time.Millisecond): // calls in memory take no time
	case <-ctx.Done():
	}
	return ctx.Err() != nil
}
