package membroker

import (
	"context"
	"errors"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Enqueue accepts or refuses each job on its own, in order; the whole request
// is one step. It returns an error only when it stored nothing. §1, §18, §20.
func (b *Broker) Enqueue(ctx context.Context, req broker.EnqueueRequest) ([]broker.Receipt, error) {
	refused := req.Check()
	receipts, jobs := make([]broker.Receipt, len(req.Jobs)), make([]*job, len(req.Jobs))
	for i := range req.Jobs { // copied before the store is locked
		n := &req.Jobs[i]
		receipts[i] = broker.Receipt{Queue: n.Queue, ID: n.ID, Err: n.Check(broker.Limits{})}
		if receipts[i].Err == nil {
			jobs[i] = newJob(n)
		}
	}
	now, err := b.begin(ctx, "enqueue", req.Now, refused)
	if err != nil {
		return nil, err
	}
	defer b.end()
	for i, j := range jobs {
		if j != nil {
			r := &receipts[i]
			holder, err := b.store.enqueue(j, &req.Jobs[i], r, now)
			if r.Err = broker.About(err, "enqueue", r.Queue, r.ID); err != nil {
				r.Holder = holder
			}
		}
	}
	return receipts, nil
}

// Try returns what Enqueue would return now, and stores nothing: it enqueues in a copy of the
// queues. It is for tests of code that enqueues in a transaction.
func (b *Broker) Try(ctx context.Context, req broker.EnqueueRequest) ([]broker.Receipt, error) {
	now, err := b.begin(ctx, "enqueue", req.Now, req.Check())
	if err != nil {
		return nil, err
	}
	scratch := NewStore()
	for _, n := range req.Jobs {
		if q := b.store.queues[n.Queue]; q != nil && scratch.queues[n.Queue] == nil {
			err = errors.Join(err, scratch.clone(q))
		}
	}
	b.end()
	if err != nil {
		return nil, err
	}
	req.Now = now
	return scratch.Open().Enqueue(ctx, req)
}

// enqueue makes the checks in the order of §18, then stores the job. With an error, holder says
// what has the ID, the unique key or the waiting job, if anything.
func (s *Store) enqueue(j *job, n *broker.NewJob, r *broker.Receipt, now time.Time) (holder string, err error) {
	q := s.queue(n.Queue)
	if err := q.policy.Admit(n); err != nil {
		return "", err
	}
	if other := q.jobs[j.ID]; n.Restore != nil && other != nil && other.State == broker.StateWaiting {
		return other.Holder, broker.Held(other.Holder)
	}
	if q.exists(n, now) {
		if into := q.remembered[j.ID].into; into != "" && q.jobs[j.ID] == nil && n.Meets() {
			r.ID, r.Holder, r.Replaced = into, into, true
			return "", nil
		}
		return j.ID, broker.Duplicate(j.ID, j.ID)
	}
	behind := ""
	if holder, held := q.holderOf(j.Unique.Key, now); held && n.Meets() {
		var met bool
		if met, err = q.meet(j, n, holder, r, now); met {
			return r.Holder, err
		}
		behind = holder
	}
	if n.TakesRoom() {
		if err := q.room(j.Key); err != nil {
			return "", err
		}
	}
	if n.TakesKey() && behind == "" {
		if holder, held := q.holderOf(j.Unique.Key, now); held {
			return holder, broker.Duplicate(j.ID, holder)
		}
		q.takeKey(j, now)
	}
	j.CreatedAt = up(now)
	due := dueAt(n.Delay, n.RunAt, now)
	switch past := n.Restore; {
	case past != nil:
		q.restore(j, past, due, now)
		r.State = past.State // even if the retention is over, so that nothing was stored
	case behind != "":
		q.follow(j, behind, due, now)
		r.Holder = behind
	case due.After(now):
		q.add(j, broker.OnEnqueue, broker.StateScheduled, due)
	default:
		q.add(j, broker.OnEnqueue, broker.StatePending, time.Time{})
	}
	if j.State != broker.StateNone {
		r.State, r.RunAt = j.State, j.RunAt
	}
	return "", nil
}

// dueAt returns when a job with this delay or run time is due: now, with neither.
func dueAt(delay time.Duration, runAt, now time.Time) time.Time {
	switch {
	case delay > 0:
		return later(now, delay)
	case !runAt.IsZero():
		return up(runAt)
	}
	return now.Truncate(time.Microsecond)
}

// restore stores a job with its history from another store. A job that ended there is kept as
// if it had ended here (§29).
func (q *queue) restore(j *job, past *broker.Restored, due, now time.Time) {
	j.Head = ownHead(past.NewHead(up(now)))
	j.FinishedAt = up(j.FinishedAt)
	if !past.CreatedAt.IsZero() {
		j.CreatedAt = up(past.CreatedAt)
	}
	to := past.State
	switch {
	case to == broker.StateRetry:
	case to == broker.StateDead:
		due = time.Time{}
	case to.Final():
		lapse := later(j.FinishedAt, q.retention(j))
		if !reached(now, lapse) {
			q.add(j, broker.OnRestore, to, time.Time{})
			q.lapseAt(j, lapse)
		}
		return
	case due.After(now):
		to = broker.StateScheduled
	default:
		to, due = broker.StatePending, time.Time{}
	}
	q.add(j, broker.OnRestore, to, due)
}

// room refuses a job if a depth limit of the queue or its key is reached (§20, §32, §35).
func (q *queue) room(key string) error {
	depth := int64(q.len(broker.StatePending) + q.len(broker.StateScheduled) + q.len(broker.StateWaiting)) // retries do not count
	if limit := q.policy.MaxDepth; limit > 0 && depth >= limit {
		return broker.QueueFull(depth, limit)
	}
	if limit := q.policy.MaxBytes; limit > 0 && q.bytes >= limit {
		return broker.BytesFull(q.bytes, limit)
	}
	l := q.lane(key)
	if l == nil {
		return nil // a limit is at least 1, and the key has no jobs
	}
	if depth, limit := l.depth(), l.rules.MaxDepth; limit > 0 && depth >= limit {
		return broker.KeyFull(key, depth, limit)
	}
	return nil
}
