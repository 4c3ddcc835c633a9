package pgbroker

import (
	"cmp"
	"context"

	"github.com/seed81422ce9/jobs/broker"
)

// Mark reads, takes, keeps, sets or drops a mark. §24.
func (b *Broker) Mark(ctx context.Context, req broker.MarkRequest) (m broker.Marked, err error) {
	defer about(&err, "mark", "")
	if err := cmp.Or(b.usable(ctx), req.Check()); err != nil {
		return m, err
	}
	now := clockOf(req.Now)
	ttl := now.after(req.TTL)
	if req.Action == broker.MarkDrop {
		ttl = 0
	}
	var value []byte // nil keeps the value
	if req.Action == broker.MarkTake || req.Action == broker.MarkSet {
		value = append([]byte{}, req.Value...)
	}
	var changed, held *broker.Marked
	var steps []step
	switch req.Action {
	case broker.MarkTake:
		steps = append(steps, b.step("mark_take", readMark(&changed), now.micros, req.Name, req.Owner, ttl, value))
	case broker.MarkKeep, broker.MarkSet, broker.MarkDrop:
		steps = append(steps, b.step("mark_change", readMark(&changed), now.micros, req.Name, req.Owner, req.Fence, ttl, value))
	}
	steps = append(steps, b.step("mark_read", readMark(&held), now.micros, req.Name))
	if err := b.run(ctx, steps...); err != nil {
		return broker.Marked{}, err
	}
	switch {
	case req.Action == broker.MarkDrop && changed != nil:
		return broker.Marked{Held: true}, nil
	case changed != nil:
		changed.Held = true
		return *changed, nil
	case held == nil:
		return broker.Marked{}, nil
	}
	held.Held = req.Action == broker.MarkRead
	return *held, nil
}

func readMark(to **broker.Marked) func(rows) error {
	return each(func(r rows) error {
		var m broker.Marked
		var until int64
		err := r.Scan(&m.Owner, &m.Fence, &m.Value, &until)
		m.Until = broker.FromMicros(until)
		*to = &m
		return err
	})
}
