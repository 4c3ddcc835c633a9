package membroker

import (
	"cmp"
	"context"
	"maps"
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
		if j := q.oldest(p + 1); j != nil {
			info.SetOldestPending(p+1, j.CreatedAt)
		}
	}
	info.Suppressed, info.Bytes, info.Totals = q.suppressed, q.bytes, q.totals
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
