package membroker

import (
	"context"

	"github.com/seed81422ce9/jobs/broker"
)

// Enqueue accepts or refuses each job on its own, in order; the whole request
// is one step. It returns an error only when it stored nothing. §1, §20, §22.
func (b *Broker) Enqueue(ctx context.Context, req broker.EnqueueRequest) ([]broker.Receipt, error) {
	refused := req.Check()
	var jobs []*job
	receipts := make([]broker.Receipt, len(req.Jobs))
	if refused == nil {
		jobs = b.store.accept(req.Jobs, receipts)
	}
	now, err := b.begin(ctx, "enqueue", req.Now, refused)
	if err != nil {
		return nil, err
	}
	defer b.end()
	var q *queue
	for i, j := range jobs {
		if name := req.Jobs[i].Queue; q == nil || q.name != name {
			q = b.store.queues[name]
		}
		if j != nil && q != nil {
			q.jobs.fetch(j.hash)
		}
	}
	for i, j := range jobs {
		if j != nil {
			b.store.enqueue(j, &req.Jobs[i], &receipts[i], now)
		}
	}
	return receipts, nil
}

// accept copies the valid jobs of a request, before the store is locked; the
// others stay nil and their receipts say why.
func (s *Store) accept(news []broker.NewJob, receipts []broker.Receipt) []*job {
	jobs := make([]*job, len(news))
	payloads, ids := arena{chunk: storeChunk}, names{}
	for i := range news {
		payloads.left += len(news[i].Body.Payload) + packedSize(news[i].Body.Headers)
		ids.left += len(news[i].ID)
	}
	for i := range news {
		n := &news[i]
		receipts[i] = broker.Receipt{Queue: n.Queue, ID: n.ID}
		if err := n.Check(broker.Limits{}); err != nil {
			receipts[i].Err = err
			continue
		}
		jobs[i] = &job{id: ids.copy(n.ID), hash: hashOf(s.seed, n.ID), Body: s.bodies.of(&n.Body), payload: payloads.pack(n.Body.Payload, n.Body.Headers)}
	}
	return jobs
}

// enqueue checks in the contract's order, then stores.
func (s *Store) enqueue(j *job, n *broker.NewJob, r *broker.Receipt, now instant) {
	q := s.queue(n.Queue)
	refuse := func(err error, holder string) {
		r.Err, r.Holder = broker.About(err, "enqueue", n.Queue, n.ID), holder
	}
	if n.Restore != nil {
		if other := q.jobs.find(j.id, j.hash); other != nil && other.state == broker.StateWaiting {
			refuse(broker.Held(other.held.by), other.held.by)
			return
		}
	}
	if q.exists(j, n, now) {
		refuse(broker.Duplicate(j.id, j.id), j.id)
		return
	}
	if depth, limit := q.depth(), q.policy.MaxDepth; n.TakesRoom() && limit > 0 && depth >= limit {
		refuse(broker.QueueFull(depth, limit), "")
		return
	}
	if n.TakesKey() {
		if holder, held := q.heldBy(j.Unique.Key, now); held {
			refuse(broker.Duplicate(j.id, holder), holder)
			return
		}
		q.takeKey(j, now)
	}
	j.created = now.ceil
	event, past := broker.OnEnqueue, n.Restore
	if past != nil {
		event = broker.OnRestore
		j.restore(past, now)
	}
	at, ahead := now.due(n.Delay, n.RunAt)
	switch {
	case past != nil && past.State.Final():
		q.restore(j, past.State, now)
		r.State = past.State
		return
	case past != nil && past.State == broker.StateRetry:
		q.add(j, event, broker.StateRetry, at)
	case ahead:
		q.add(j, event, broker.StateScheduled, at)
	default:
		q.add(j, event, broker.StatePending, 0)
	}
	if r.State = j.state; timed(j.state) {
		r.RunAt = broker.FromMicros(at)
	}
}

// restore gives a new job its past.
func (j *job) restore(past *broker.Restored, now instant) {
	j.write(ownHead(past.NewHead(now.stamp())))
	j.head.FinishedAt = broker.FromMicros(broker.Micros(j.head.FinishedAt))
	if !past.CreatedAt.IsZero() {
		j.created = broker.Micros(past.CreatedAt)
	}
}

// restore keeps a job that had ended for as long as it would have been kept if it
// had ended here (§29).
func (q *queue) restore(j *job, to broker.State, now instant) {
	at := broker.Micros(j.head.FinishedAt)
	if to == broker.StateDead {
		q.add(j, broker.OnRestore, to, at)
		return
	}
	lapse := at + broker.DurationMicros(q.retention(j))
	if !now.reached(lapse) {
		q.add(j, broker.OnRestore, to, at)
		j.lapse = lapse
		q.lapses.add(j.lapse, j.seq, j)
	}
}

// depth is how many jobs count for the queue's limit; retries do not.
func (q *queue) depth() int64 {
	return int64(q.count(broker.StatePending) + q.count(broker.StateScheduled) + q.count(broker.StateWaiting))
}
