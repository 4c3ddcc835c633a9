package pgbroker

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/seed81422ce9/jobs/broker"
)

// Reclaim ends workers and takes over their jobs in one round trip, which is
// one transaction. §8.
func (b *Broker) Reclaim(ctx context.Context, req broker.ReclaimRequest) (broker.Claimed, error) {
	if err := cmp.Or(b.usable(ctx), req.Check()); err != nil {
		return broker.Claimed{}, broker.About(err, "reclaim", "", "")
	}
	now, queues := clockOf(req.Now), distinct(req.Queues)
	c := &claiming{b: b, worker: req.Worker, now: now, limit: req.Max, state: make(map[string]queueState)}
	for _, q := range queues {
		c.shares = append(c.shares, broker.Share{Queue: q, Max: req.Max})
	}
	var callers, searched []string
	var at int64 // when the store looked for leases that had run out
	var got broker.Claimed
	err := b.run(ctx, b.byIndex(false),
		b.step("reclaim_end", each(func(r rows) error {
			var queue string
			var left bool
			err := r.Scan(&queue, &at, &left)
			if callers = append(callers, queue); !left {
				searched = append(searched, queue)
			}
			return err
		}), now.micros, req.Worker, queues),
		b.step("reclaim", func(r rows) error { return c.scan(r) }, req.Worker, queues, req.Max, now.micros, req.ByteLimit()),
		b.step("reclaim_drained", one(&got.More), queues),
		c.look(queues, 0, dueFloors{}))
	if err != nil {
		b.leases.doubt(req.Worker)
		return broker.Claimed{}, broker.About(err, "reclaim", "", "")
	}
	c.finish()
	b.leases.add(req.Worker, len(c.jobs))
	b.leases.found(req.Worker, searched, at)
	var errs []error
	for _, q := range queues {
		state := c.state[q]
		if state.err == nil && !slices.Contains(callers, q) {
			state.err = broker.ErrWorkerGone // the worker is not ended, but its leases ran out
		}
		if state.err == nil {
			got.NextDue = earlier(got.NextDue, state.nextDue)
		}
		errs = append(errs, broker.About(state.err, "reclaim", q, ""))
	}
	got.Jobs, got.Now = c.jobs, broker.FromMicros(c.at)
	return got, errors.Join(errs...)
}
