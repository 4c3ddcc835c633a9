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
	reply := broker.QueuesReply{Now: now.answer()}
	for _, name := range slices.Compact(names) {
		if q := b.store.queues[name]; q != nil {
			reply.Queues = append(reply.Queues, q.describe(req.Workers, now))
		}
	}
	return reply, nil
}

func (q *queue) describe(workers bool, now instant) broker.QueueInfo {
	info := broker.QueueInfo{
		Name:   q.name,
		Counts: make(map[broker.State]int64),
		Oldest: make(map[broker.State]time.Time),
		AsOf:   now.answer(),
		Policy: q.policy,
	}
	for _, state := range broker.States() {
		info.Counts[state] = int64(q.count(state))
		if timed(state) && q.count(state) > 0 {
			info.Oldest[state] = broker.FromMicros(q.times[state].next())
		}
	}
	for p := range q.ready {
		if j := q.ready[p].first; j != nil {
			info.SetOldestPending(broker.Priority(p+1), broker.FromMicros(j.created))
		}
	}
	info.Suppressed = q.suppressed
	if workers {
		for _, w := range q.workers {
			info.Workers = append(info.Workers, w.describe())
		}
		slices.SortFunc(info.Workers, func(a, b broker.WorkerInfo) int { return cmp.Compare(a.ID, b.ID) })
	}
	return info
}
