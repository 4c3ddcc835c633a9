package membroker

import (
	"context"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/journal"
)

// Policy changes the rules that the request sets, in one step. Setting a rule creates the
// queue if it does not exist; reading does not.
func (b *Broker) Policy(ctx context.Context, req broker.PolicyRequest) (broker.Policy, error) {
	if _, err := b.begin(ctx, "policy", time.Time{}, req.Check(b.Limits())); err != nil {
		return broker.Policy{}, err
	}
	defer b.end()
	if (req == broker.PolicyRequest{Queue: req.Queue, Key: req.Key}) {
		return b.store.policy(req.Queue, req.Key), nil
	}
	b.store.at = time.Time{} // a policy request has no time: the next claim finds out what a rate allows
	q := b.store.queue(req.Queue)
	if req.Key != "" {
		l := q.laneOf(req.Key)
		req.Apply(&l.own)
		q.noteLane(l)
		q.rule(l)
		q.forget(l)
		q.touch()
		return l.own, nil
	}
	req.Apply(&q.policy)
	q.note(journal.Queues, "")
	if q.policy.Rate.Jobs == 0 {
		q.starts = broker.Bucket{}
	}
	if q.policy.RetryRate.Jobs == 0 {
		q.retries = broker.Bucket{}
	}
	for l := range q.all() {
		q.rule(l)
	}
	q.touch() // the queue may have been resumed
	return q.policy, nil
}

// policy returns the policy of a queue or, unless key is empty, of a key.
func (s *Store) policy(queue, key string) broker.Policy {
	q := s.queues[queue]
	switch {
	case q == nil || key != "" && q.lane(key) == nil:
		return broker.Policy{}
	case key == "":
		return q.policy
	}
	return q.lane(key).own
}
