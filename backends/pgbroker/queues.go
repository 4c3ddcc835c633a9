package pgbroker

import (
	"context"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Queues describes queues. The counts are exact as of the answer: totals plus
// what has changed since these were folded. §23.
func (b *Broker) Queues(ctx context.Context, req broker.QueuesRequest) (broker.QueuesReply, error) {
	reply, err := b.queues(ctx, &req)
	return reply, broker.About(err, "queues", "", "")
}

func (b *Broker) queues(ctx context.Context, req *broker.QueuesRequest) (reply broker.QueuesReply, err error) {
	var names []string
	if len(req.Names) > 0 {
		names = distinct(req.Names)
	}
	var at int64
	deltas := b.deltas.look()
	workers := make(map[string][]broker.WorkerInfo)
	steps := []step{b.byIndex(true), b.step("clock", one(&at), clockOf(req.Now).micros),
		deltas.step(b),
		b.step("queues", each(func(r rows) error {
			info, err := scanQueue(r)
			reply.Queues = append(reply.Queues, info)
			return err
		}), names, deltas.floor)}
	if req.Workers {
		steps = append(steps, b.step("queues_workers", each(func(r rows) error { return scanWorker(r, workers) }), names))
	}
	if err := b.call(ctx, steps...); err != nil {
		return broker.QueuesReply{}, err
	}
	b.deltas.raise(deltas)
	reply.Now = broker.FromMicros(at)
	for i := range reply.Queues {
		q := &reply.Queues[i]
		q.AsOf, q.Workers = reply.Now, workers[q.Name]
	}
	if deltas.many {
		_, err = b.foldSome(ctx)
	}
	return reply, err
}

// counted are the states that are counted, in the order of the columns.
var counted = [...]broker.State{broker.StatePending, broker.StateScheduled, broker.StateActive, broker.StateRetry,
	broker.StateCompleted, broker.StateDead, broker.StateCancelled}

func scanQueue(r rows) (broker.QueueInfo, error) {
	var p policyRow
	var counts [len(counted)]int64
	oldest := make([]*int64, len(counted)) // none for active; for pending, next
	var next [broker.Priorities]*int64
	info := broker.QueueInfo{Counts: make(map[broker.State]int64), Oldest: make(map[broker.State]time.Time)}
	layout, waiting := 0, int64(0)
	columns := append([]any{&info.Name, &layout}, p.columns()...)
	for i := range counts {
		columns = append(columns, &counts[i])
	}
	columns = append(columns, &next)
	for i, s := range counted {
		if s != broker.StatePending && s != broker.StateActive {
			columns = append(columns, &oldest[i])
		}
	}
	if err := r.Scan(append(columns, &waiting, &info.Suppressed)...); err != nil {
		return info, err
	}
	info.Counts[broker.StateWaiting] = waiting
	if layout > knownLayout {
		return info, broker.About(newerLayout(layout), "queues", info.Name, "")
	}
	info.Policy = p.policy()
	for i, s := range counted {
		info.Counts[s] = counts[i]
		if oldest[i] != nil {
			info.Oldest[s] = broker.FromMicros(*oldest[i])
		}
	}
	for i, created := range next {
		if created != nil {
			info.SetOldestPending(broker.Priority(i+1), broker.FromMicros(*created))
		}
	}
	return info, nil
}

func scanWorker(r rows, workers map[string][]broker.WorkerInfo) error {
	var queue, id string
	var until int64
	var held int
	var said []byte
	if err := r.Scan(&queue, &id, &until, &held, &said); err != nil {
		return err
	}
	info, err := broker.ParseWorkerInfo(said, id, broker.FromMicros(until), held)
	if err == nil {
		workers[queue] = append(workers[queue], info)
	}
	return err
}
