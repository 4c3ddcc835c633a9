package pgbroker

import (
	"context"

	"github.com/seed81422ce9/jobs/broker"
)

// Mark reads, takes, keeps, sets or drops a mark. §24.
func (b *Broker) Mark(ctx context.Context, req broker.MarkRequest) (broker.Marked, error) {
	if err := firstOf(b.usable(ctx), req.Check()); err != nil {
		return broker.Marked{}, broker.About(err, "mark", "", "")
	}
	m, err := b.mark(ctx, &req)
	return m, broker.About(err, "mark", "", "")
}

func (b *Broker) mark(ctx context.Context, req *broker.MarkRequest) (broker.Marked, error) {
	now := clockOf(req.Now)
	var changed, held *broker.Marked
	var steps []step
	switch req.Action {
	case broker.MarkTake:
		steps = append(steps, b.step("mark_take", readMark(&changed), now.micros, req.Name, req.Owner, now.after(req.TTL),
			notNil(req.Value)))
	case broker.MarkKeep:
		steps = append(steps, b.step("mark_change", readMark(&changed), now.micros, req.Name, req.Owner, req.Fence, now.after(req.TTL),
			nil))
	case broker.MarkSet:
		steps = append(steps, b.step("mark_change", readMark(&changed), now.micros, req.Name, req.Owner, req.Fence, now.after(req.TTL),
			notNil(req.Value)))
	case broker.MarkDrop:
		steps = append(steps, b.step("mark_change", readMark(&changed), now.micros, req.Name, req.Owner, req.Fence, int64(0), nil))
	}
	steps = append(steps, b.step("mark_read", readMark(&held), now.micros, req.Name))
	if err := b.call(ctx, steps...); err != nil {
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

// notNil returns p, or an empty slice for nil, since nil would be stored as null.
func notNil(p []byte) []byte {
	if p == nil {
		return []byte{}
	}
	return p
}
