package pgbroker

import (
	"cmp"
	"context"
	"errors"

	"github.com/seed81422ce9/jobs/broker"
)

// Prune removes records whose retention is over, in a transaction for each queue, and folds
// the deltas of counts. Without a Now it also makes the partitions of coming days, and drops
// the partitions of past days with all their records. So a record that its queue keeps for a
// day or longer may stay for up to a day more. §23.
func (b *Broker) Prune(ctx context.Context, req broker.PruneRequest) (broker.Pruned, error) {
	if err := cmp.Or(b.usable(ctx), req.Check()); err != nil {
		return broker.Pruned{}, broker.About(err, "prune", "", "")
	}
	var got broker.Pruned
	now := clockOf(req.Now)
	var errs []error
	for _, queue := range distinct(req.Queues) {
		errs = append(errs, broker.About(b.pruneQueue(ctx, queue, now, req.Max, &got), "prune", queue, ""))
	}
	marks := 0
	err := b.run(ctx, b.byIndex(false), b.step("prune_marks", one(&marks), now.micros, req.Max))
	if err == nil {
		got.Other += marks
		got.More = got.More || marks == req.Max
	}
	err = errors.Join(err, b.run(ctx, b.step("waiter_leave", nil, 0)))
	if req.Now.IsZero() {
		err = errors.Join(err, b.turnDays(ctx, &got))
	}
	err = errors.Join(err, b.fold(ctx))
	return got, errors.Join(append(errs, broker.About(err, "prune", "", ""))...)
}

func (b *Broker) pruneQueue(ctx context.Context, queue string, now clock, limit int, got *broker.Pruned) error {
	var layout int
	var n [6]int
	err := b.run(ctx, b.byIndex(false),
		b.step("queue_layout", one(&layout), []string{queue}),
		b.step("prune_records", one(&n[0], &n[1]), now.micros, queue, limit),
		b.step("prune_surplus", one(&n[2], &n[3]), now.micros, queue, limit),
		b.step("prune_dead", one(&n[4]), now.micros, queue, limit),
		b.step("prune_rest", one(&n[5]), now.micros, queue, limit))
	if err = cmp.Or(err, checkLayout(layout)); err != nil {
		return err
	}
	got.Completed, got.Cancelled = got.Completed+n[0]+n[2], got.Cancelled+n[1]+n[3]
	got.Dead, got.Other = got.Dead+n[4], got.Other+n[5]
	got.More = got.More || n[0]+n[1] == limit || n[2]+n[3] == limit || n[4] == limit || n[5] >= limit
	return nil
}
