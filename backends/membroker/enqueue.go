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
		jobs = accept(req.Jobs, receipts)
	}
	now, err := b.begin(ctx, "enqueue", req.Now, refused)
	if err != nil {
		return nil, err
	}
	defer b.end()
	for i, j := range jobs {
		if j != nil {
			b.store.enqueue(j, &req.Jobs[i], &receipts[i], now)
		}
	}
	return receipts, nil
}

// accept copies the valid jobs of a request, before the store is locked; the
// others stay nil and their receipts say why.
func accept(news []broker.NewJob, receipts []broker.Receipt) []*job {
	jobs := make([]*job, len(news))
	bytes := arena{chunk: storeChunk}
	for i := range news {
		bytes.left += len(news[i].Body.Payload)
	}
	for i := range news {
		n := &news[i]
		receipts[i] = broker.Receipt{Queue: n.Queue, ID: n.ID}
		if err := n.Check(broker.Limits{}); err != nil {
			receipts[i].Err = err
			continue
		}
		jobs[i] = newJob(n, &bytes)
	}
	return jobs
}

// enqueue checks in the contract's order, then stores.
func (s *Store) enqueue(j *job, n *broker.NewJob, r *broker.Receipt, now instant) {
	q := s.queue(n.Queue)
	refuse := func(err error, holder string) {
		r.Err, r.Holder = broker.About(err, "enqueue", n.Queue, n.ID), holder
	}
	if q.exists(j.id, now) {
		refuse(broker.ErrDuplicate, j.id)
		return
	}
	if q.full() {
		refuse(broker.ErrQueueFull, "")
		return
	}
	if holder, held := q.heldBy(j.Unique.Key, now); held {
		refuse(broker.ErrDuplicate, holder)
		return
	}
	q.takeKey(j, now)
	j.created = now.ceil
	if at, ahead := now.due(n.Delay, n.RunAt); ahead {
		q.add(j, broker.StateScheduled, at)
		r.RunAt = broker.FromMicros(at)
	} else {
		q.add(j, broker.StatePending, 0)
	}
	r.State = j.state
}

// full reports whether the queue's depth limit is reached; retries do not count.
func (q *queue) full() bool {
	depth := q.count(broker.StatePending) + q.count(broker.StateScheduled) + q.count(broker.StateWaiting)
	return q.policy.MaxDepth > 0 && int64(depth) >= q.policy.MaxDepth
}
