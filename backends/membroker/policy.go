package membroker

import (
	"context"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Policy changes what the request sets, in one step. Setting something in a
// queue that does not exist makes it exist; reading does not.
func (b *Broker) Policy(ctx context.Context, req broker.PolicyRequest) (broker.Policy, error) {
	if _, err := b.begin(ctx, "policy", time.Time{}, req.Check()); err != nil {
		return broker.Policy{}, err
	}
	defer b.end()
	if (req == broker.PolicyRequest{Queue: req.Queue}) {
		if q := b.store.queues[req.Queue]; q != nil {
			return q.policy, nil
		}
		return broker.Policy{}, nil
	}
	q := b.store.queue(req.Queue)
	p := &q.policy
	set(&p.Paused, req.Paused)
	set(&p.MaxDepth, req.MaxDepth)
	set(&p.RetainCompleted, req.RetainCompleted)
	set(&p.RetainDead, req.RetainDead)
	set(&p.DuplicateSpan, req.DuplicateSpan)
	p.RetainCompleted.Age, p.RetainDead.Age = upTo(p.RetainCompleted.Age), upTo(p.RetainDead.Age)
	p.DuplicateSpan = upTo(p.DuplicateSpan)
	q.touch() // it may have been resumed
	return *p, nil
}

func set[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}
