package pgbroker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed81422ce9/jobs/broker"
)

// Renew writes one row per queue, commits, and then counts what the worker
// holds: however long the count takes, the leases are extended. An error of the
// count leaves them so. §6, §7, §8.
func (b *Broker) Renew(ctx context.Context, req broker.RenewRequest) (broker.Renewed, error) {
	if err := firstOf(b.usable(ctx), req.Check()); err != nil {
		return broker.Renewed{}, broker.About(err, "renew", "", "")
	}
	got, err := b.renew(ctx, &req)
	return got, broker.About(err, "renew", "", "")
}

func (b *Broker) renew(ctx context.Context, req *broker.RenewRequest) (broker.Renewed, error) {
	now, queues := clockOf(req.Now), distinct(req.Queues)
	alive := 0
	count := each(func(rows) error { alive++; return nil })
	lease := now.after(req.Lease)
	steps := []step{b.step("renew", count, now.micros, req.Worker, queues, lease)}
	if req.Register {
		steps = []step{
			b.step("register_queue", nil, queues),
			b.step("renew_register", count, now.micros, req.Worker, queues, lease, broker.AppendWorkerInfo([]byte{}, &req.Info)),
		}
	}
	if err := b.call(ctx, steps...); err != nil {
		return broker.Renewed{}, err
	}
	got := broker.Renewed{Held: make(map[string]int, len(queues)), Lost: alive < len(queues)}
	for _, q := range queues {
		got.Held[q] = 0
	}
	err := b.call(ctx, b.byIndex(true), b.step("renew_held", each(func(r rows) error {
		var queue string
		var at int64
		var layout, held int
		var ids []string
		var epochs []int64
		if err := r.Scan(&queue, &at, &layout, &held, &ids, &epochs); err != nil {
			return err
		}
		if layout > knownLayout {
			return newerLayout(layout)
		}
		got.Now, got.Held[queue] = broker.FromMicros(at), held
		for i, id := range ids {
			got.Cancel = append(got.Cancel, broker.Ref{Queue: queue, ID: id, Epoch: epochs[i]})
		}
		return nil
	}), now.micros, req.Worker, queues))
	if err != nil && !errors.Is(err, broker.ErrNewerForm) {
		// Not ErrUnavailable, of which the contract says that nothing was applied.
		err = fmt.Errorf("leases were extended, but not counted: %v", err)
	}
	if got.Now.IsZero() {
		got.Now = req.Now
	}
	return got, err
}

// distinct is names without repetitions, sorted, so that rows are locked in the
// same order by all.
func distinct(names []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(names)))
}
