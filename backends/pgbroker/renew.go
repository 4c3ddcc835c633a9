package pgbroker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Renew writes one row for each queue, on a connection of the broker's own, and commits.
// Then it counts what the worker holds: the leases are extended however long that takes.
// The leases of a worker that has leased very many jobs are counted once a minute. If the
// count fails, Held and Cancel are empty and NextLapse is not known. §6, §7, §8.
func (b *Broker) Renew(ctx context.Context, req broker.RenewRequest) (broker.Renewed, error) {
	if err := firstOf(b.usable(ctx), req.Check()); err != nil {
		return broker.Renewed{}, broker.About(err, "renew", "", "")
	}
	got, err := b.renew(ctx, &req)
	return got, broker.About(err, "renew", "", "")
}

func (b *Broker) renew(ctx context.Context, req *broker.RenewRequest) (broker.Renewed, error) {
	now, queues := clockOf(req.Now), distinct(req.Queues)
	var alive int
	var at int64
	count := func(r rows) error {
		alive = 0 // a pulse that was not applied is sent once more
		return each(func(r rows) error { alive++; return r.Scan(&at) })(r)
	}
	lease := now.after(req.Lease)
	var info []byte
	if req.Describe {
		info = broker.AppendWorkerInfo([]byte{}, &req.Info)
	}
	steps := []step{b.byIndex(false), b.step("renew", count, now.micros, req.Worker, queues, lease, info)}
	if req.Register {
		steps = []step{
			b.step("register_queue", nil, queues),
			b.step("renew_register", count, now.micros, req.Worker, queues, lease, broker.AppendWorkerInfo([]byte{}, &req.Info)),
		}
	}
	if err := b.pulse.run(ctx, steps...); err != nil {
		return broker.Renewed{}, err
	}
	uncounted := broker.Renewed{Now: broker.FromMicros(at), Lost: alive < len(queues)}
	if uncounted.Lost {
		b.leases.forget(req.Worker)
	}
	counted := b.leases.count(req.Worker, time.Now())
	var got broker.Renewed
	err := b.pulse.run(ctx, b.byIndex(true), b.step("renew_held", func(r rows) error {
		if got = uncounted; counted {
			got.Held = make(map[string]int, len(queues))
		}
		return each(func(r rows) error { return scanHeld(r, &got) })(r)
	}, now.micros, req.Worker, queues, counted))
	if errors.Is(err, broker.ErrNewerForm) {
		return uncounted, err
	}
	if err != nil {
		return uncounted, nil
	}
	for _, q := range queues {
		if _, known := got.Held[q]; counted && !known {
			got.Held[q] = 0
		}
	}
	return got, nil
}

// scanHeld reads a row of renew_held.sql.
func scanHeld(r rows, got *broker.Renewed) error {
	var queue string
	var at int64
	var layout int
	var held *int
	var lapse *int64
	var ids []string
	var epochs []int64
	if err := r.Scan(&queue, &at, &layout, &held, &lapse, &ids, &epochs); err != nil {
		return err
	}
	if layout > knownLayout {
		return newerLayout(layout)
	}
	if got.Now = broker.FromMicros(at); held != nil {
		got.Held[queue] = *held
	}
	if lapse != nil {
		got.NextLapse = earlier(got.NextLapse, broker.FromMicros(*lapse))
	}
	for i, id := range ids {
		got.Cancel = append(got.Cancel, broker.Ref{Queue: queue, ID: id, Epoch: epochs[i]})
	}
	return nil
}

// distinct returns names without repetitions, sorted, so that all calls lock rows in the
// same order.
func distinct(names []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(names)))
}
