package membroker

import (
	"context"
	"slices"

	"github.com/seed81422ce9/jobs/broker"
)

// Renew registers a worker or extends its leases, in all the named queues or,
// when one of them has ended the worker, in none. §6, §7, §8.
func (b *Broker) Renew(ctx context.Context, req broker.RenewRequest) (broker.Renewed, error) {
	now, err := b.begin(ctx, "renew", req.Now, req.Check())
	if err != nil {
		return broker.Renewed{}, err
	}
	defer b.end()
	got := broker.Renewed{Now: now.answer(), Held: make(map[string]int, len(req.Queues))}
	for _, name := range req.Queues {
		got.Lost = got.Lost || b.store.lost(name, &req)
	}
	for _, name := range req.Queues {
		if _, twice := got.Held[name]; twice {
			continue
		}
		got.Held[name] = 0
		if !got.Lost {
			b.store.queue(name).renew(&req, &got, now)
		} else if q := b.store.queues[name]; q != nil && q.holderOf(req.Worker) != nil {
			got.Held[name] = q.holderOf(req.Worker).held.len()
		}
	}
	return got, nil
}

// lost reports whether the worker's ID is dead in a queue, or not known there.
func (s *Store) lost(name string, req *broker.RenewRequest) bool {
	q := s.queues[name]
	if req.Register {
		return q != nil && q.ended[req.Worker] != nil
	}
	return q == nil || q.workers[req.Worker] == nil
}

func (q *queue) renew(req *broker.RenewRequest, got *broker.Renewed, now instant) {
	w := q.workers[req.Worker]
	if w == nil {
		w = &worker{id: req.Worker, held: bag{kind: byHolder}}
		q.workers[req.Worker] = w
	}
	w.until = now.plus(req.Lease)
	if req.Register || req.Describe {
		w.info = ownInfo(req.Info)
		w.info.ID = req.Worker
		w.info.StartedAt = broker.FromMicros(broker.Micros(w.info.StartedAt))
		for i := range w.info.Longest {
			r := &w.info.Longest[i]
			r.Since = broker.FromMicros(broker.Micros(r.Since))
		}
	}
	got.Held[q.name] = w.held.len()
	for _, other := range q.workers {
		got.NextLapse = earlier(got.NextLapse, other.until)
	}
	if len(q.orphans) > 0 {
		got.NextLapse = earlier(got.NextLapse, now.floor)
	}
	if w.cancels > 0 {
		for _, j := range w.held.all() {
			if j.cancelRequested {
				got.Cancel = append(got.Cancel, j.ref(q.name))
			}
		}
	}
}

// describe is what operators are told of a worker.
func (w *worker) describe() broker.WorkerInfo {
	info := ownInfo(w.info)
	info.Until, info.Held = broker.FromMicros(w.until), w.held.len()
	return info
}

func ownInfo(i broker.WorkerInfo) broker.WorkerInfo {
	i.Queues, i.Types, i.Longest = slices.Clone(i.Queues), slices.Clone(i.Types), slices.Clone(i.Longest)
	return i
}
