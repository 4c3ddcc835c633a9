package pgbroker

import (
	"context"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Policy changes what the request sets, in one statement. Setting something in
// a queue that is not known makes it known; reading does not.
func (b *Broker) Policy(ctx context.Context, req broker.PolicyRequest) (broker.Policy, error) {
	if err := firstOf(b.usable(ctx), req.Check()); err != nil {
		return broker.Policy{}, broker.About(err, "policy", "", "")
	}
	p, err := b.policy(ctx, &req)
	return p, broker.About(err, "policy", req.Queue, "")
}

func (b *Broker) policy(ctx context.Context, req *broker.PolicyRequest) (broker.Policy, error) {
	var p policyRow
	layout, found := 0, false
	read := func(r rows, more ...any) error {
		if !r.Next() {
			return nil
		}
		found = true
		return r.Scan(append(append([]any{&layout}, p.columns()...), more...)...)
	}
	if (*req == broker.PolicyRequest{Queue: req.Queue}) {
		if err := b.call(ctx, b.step("policy", func(r rows) error { return read(r) }, req.Queue)); err != nil {
			return broker.Policy{}, err
		}
		if layout > knownLayout {
			return broker.Policy{}, newerLayout(layout)
		}
		return p.policy(), nil
	}
	keptAge, keptCount := retention(req.RetainCompleted)
	deadAge, deadCount := retention(req.RetainDead)
	var span *int64
	if req.DuplicateSpan != nil {
		us := broker.DurationMicros(*req.DuplicateSpan)
		span = &us
	}
	wake := b.waker.message(req.Queue, false) // it may have been resumed
	var ignored any
	err := b.call(ctx, b.step("policy_set", func(r rows) error { return read(r, &ignored) },
		req.Queue, req.Paused, req.MaxDepth, keptAge, keptCount, deadAge, deadCount, span, wake.channel, wake.payload, req.PriorityRound))
	b.waker.wake(req.Queue, false)
	if err == nil && !found {
		if layout, err = b.layout(ctx, req.Queue); err == nil {
			err = newerLayout(layout)
		}
	}
	if err != nil {
		return broker.Policy{}, err
	}
	return p.policy(), nil
}

func retention(r *broker.Retention) (age, count *int64) {
	if r == nil {
		return nil, nil
	}
	us := broker.DurationMicros(r.Age)
	return &us, &r.Count
}

// policyRow receives a queue's policy.
type policyRow struct {
	paused                                                        bool
	depth, keptAge, keptCount, deadAge, deadCount, dupSpan, round int64
}

func (p *policyRow) columns() []any {
	return []any{&p.paused, &p.depth, &p.keptAge, &p.keptCount, &p.deadAge, &p.deadCount, &p.dupSpan, &p.round}
}

func (p *policyRow) policy() broker.Policy {
	return broker.Policy{
		Paused:          p.paused,
		MaxDepth:        p.depth,
		RetainCompleted: broker.Retention{Age: micros(p.keptAge), Count: p.keptCount},
		RetainDead:      broker.Retention{Age: micros(p.deadAge), Count: p.deadCount},
		DuplicateSpan:   micros(p.dupSpan),
		PriorityRound:   p.round,
	}
}

func micros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
