package shardbroker

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/seed81422ce9/jobs/broker"
)

// Queues adds up what the shards report about each queue. With an error, the parts of some
// shards are missing. §23.
func (b *Broker) Queues(ctx context.Context, req broker.QueuesRequest) (broker.QueuesReply, error) {
	answers := ask(ctx, b.shards, func(s *shard) (broker.QueuesReply, error) { return s.Broker.Queues(ctx, req) })
	var reply broker.QueuesReply
	all := make(map[string]*broker.QueueInfo)
	policies := make(map[string][]broker.Policy)
	type worker struct{ queue, id string }
	workers := make(map[worker]int) // how many of the shards that are not new know it
	served := make(map[string]int)  // by queue: how many of the shards that are not new have it
	for _, a := range answers {
		reply.Now = later(reply.Now, a.got.Now)
		for i := range a.got.Queues {
			q := &a.got.Queues[i]
			policies[q.Name] = append(policies[q.Name], q.Policy)
			if a.of.From.IsZero() {
				served[q.Name]++
				for _, w := range q.Workers {
					workers[worker{q.Name, w.ID}]++
				}
			}
			if all[q.Name] == nil {
				all[q.Name] = q
			} else {
				addQueue(all[q.Name], q)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		q := all[name]
		q.Policy = whole(policies[name][:min(b.parts, len(policies[name]))])
		// A worker that one shard has ended is ended, even if other shards still know it.
		q.Workers = slices.DeleteFunc(q.Workers, func(w broker.WorkerInfo) bool { return workers[worker{name, w.ID}] < served[name] })
		reply.Queues = append(reply.Queues, *q)
	}
	return reply, failed(answers)
}

func addQueue(to, q *broker.QueueInfo) {
	for state, n := range q.Counts {
		to.Counts[state] += n
	}
	for state, at := range q.Oldest {
		to.Oldest[state] = earlier(to.Oldest[state], at)
	}
	for p, at := range q.OldestPending {
		to.SetOldestPending(p, earlier(to.OldestPending[p], at))
	}
	to.Suppressed += q.Suppressed
	to.Bytes += q.Bytes
	to.Totals = to.Totals.Plus(q.Totals)
	to.AsOf = earlier(to.AsOf, q.AsOf)
	for _, w := range q.Workers {
		if i := slices.IndexFunc(to.Workers, func(o broker.WorkerInfo) bool { return o.ID == w.ID }); i >= 0 {
			to.Workers[i].Held += w.Held
			to.Workers[i].Until = earlier(to.Workers[i].Until, w.Until)
		} else {
			to.Workers = append(to.Workers, w)
		}
	}
	slices.SortFunc(to.Workers, func(x, y broker.WorkerInfo) int { return cmp.Compare(x.ID, y.ID) })
}
