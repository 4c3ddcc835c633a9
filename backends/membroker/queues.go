package membroker

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Queues describes queues as of now. §23.
func (b *Broker) Queues(ctx context.Context, req broker.QueuesRequest) (broker.QueuesReply, error) {
	now, err := b.begin(ctx, "queues", req.Now, nil)
	if err != nil {
		return broker.QueuesReply{}, err
	}
	defer b.end()
	names := slices.Clone(req.Names)
	if len(names) == 0 {
		names = slices.Collect(maps.Keys(b.store.queues))
	}
	slices.Sort(names)
	reply := broker.QueuesReply{Now: now}
	for _, name := range slices.Compact(names) {
		if q := b.store.queues[name]; q != nil {
			reply.Queues = append(reply.Queues, q.describe(req.Workers, now))
		}
	}
	return reply, nil
}

func (q *queue) describe(workers bool, now time.Time) broker.QueueInfo {
	info := broker.QueueInfo{Name: q.name, AsOf: now, Policy: q.policy,
		Counts: make(map[broker.State]int64), Oldest: make(map[broker.State]time.Time)}
	for _, state := range broker.States() {
		info.Counts[state] = int64(q.len(state))
		if first, ok := q.states[state].Min(); ok && timed(state) {
			info.Oldest[state] = broker.FromMicros(first.at)
		}
	}
	for p := range broker.Priority(broker.Priorities) {
		from := entry{at: int64(p) + 1, seq: math.MinInt64}
		for e := range q.states[broker.StatePending].from(from) {
			if e.at == from.at {
				info.SetOldestPending(p+1, e.job.CreatedAt)
			}
			break
		}
	}
	info.Suppressed = q.suppressed
	if workers {
		for _, w := range q.workers {
			if !w.ended {
				info.Workers = append(info.Workers, ownInfo(w.WorkerInfo))
			}
		}
		slices.SortFunc(info.Workers, func(a, b broker.WorkerInfo) int { return cmp.Compare(a.ID, b.ID) })
	}
	return info
}

// Policy changes what the request sets, in one step. Setting something in a
// queue that does not exist makes it exist; reading does not.
func (b *Broker) Policy(ctx context.Context, req broker.PolicyRequest) (broker.Policy, error) {
	if _, err := b.begin(ctx, "policy", time.Time{}, req.Check(b.Limits())); err != nil {
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
	req.Apply(&q.policy)
	q.touch() // it may have been resumed
	return q.policy, nil
}
