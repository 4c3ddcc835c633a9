package membroker

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/journal"
)

// Operate decides each Ref on its own, in order; the whole request is one
// step. §22.
func (b *Broker) Operate(ctx context.Context, op broker.Operation) ([]broker.OperationResult, error) {
	now, err := b.begin(ctx, op.Kind.String(), op.Now, op.Check(b.Limits()))
	if err != nil {
		return nil, err
	}
	defer b.end()
	results := make([]broker.OperationResult, len(op.Refs))
	for i, ref := range op.Refs {
		r := &results[i]
		if op.Kind == broker.OpRemoveQueue {
			r.Err = b.store.removeQueue(ref, now)
		} else {
			r.State, r.Holder, r.Err = b.store.operate(&op, ref, now)
		}
		r.Ref, r.Err = ref, broker.About(r.Err, op.Kind.String(), ref.Queue, ref.ID)
	}
	return results, nil
}

func (s *Store) operate(op *broker.Operation, ref broker.Ref, now time.Time) (state broker.State, holder string, err error) {
	q := s.queues[ref.Queue]
	if q == nil || q.jobs[ref.ID] == nil {
		return broker.StateNone, "", broker.ErrNotFound
	}
	j := q.jobs[ref.ID]
	if done, err := op.Decide(ref, j.State, j.Epoch, j.Holder); err != nil {
		return j.State, j.Holder, err
	} else if done {
		return j.State, "", nil
	}
	switch op.Kind {
	case broker.OpCancel:
		if q.cancel(j, now); j.State == broker.StateNone {
			return broker.StateCancelled, "", nil // no record is kept
		}
	case broker.OpDelete:
		moved := stays
		if op.Holder != "" {
			moved = j.Epoch
		}
		q.drop(j, now, moved)
	case broker.OpRedrive:
		holder, err = q.redrive(j, now)
	case broker.OpReschedule:
		q.reschedule(j, dueAt(op.Delay, op.RunAt, now), now)
	case broker.OpEdit:
		q.change(j, func() { j.Payload = bytes.Clone(op.Payload) })
		if j.State == broker.StateDead { // §28
			j.Head = j.Moved()
		}
	case broker.OpHold:
		j.Head = j.Moved()
		from := j.State
		q.move(j, broker.OnHold, broker.StateWaiting, j.RunAt)
		j.Holder, j.HeldFrom = op.Holder, from
	case broker.OpUnhold:
		j.Head = j.Moved()
		if q.move(j, broker.OnUnhold, j.HeldFrom, j.RunAt); j.State == broker.StatePending {
			q.toFront(j)
		}
	case broker.OpSuppress, broker.OpUnsuppress:
		q.change(j, func() { j.Suppressed = op.Kind == broker.OpSuppress })
	}
	return j.State, holder, err
}

// cancel ends a job. If the job is active, it only asks the worker to end it: that is not a
// transition, since the lease continues.
func (q *queue) cancel(j *job, now time.Time) {
	if j.State == broker.StateActive {
		j.CancelRequested = true
		q.note(journal.Jobs, j.ID)
		q.store.emit(broker.Event{Kind: broker.EventCancel, Queue: q.name, ID: j.ID, State: j.State})
		return
	}
	j.Head = j.Moved()
	j.FinishedAt = up(now)
	q.finish(j, broker.OnCancel, broker.StateCancelled, now)
	q.tally().Cancelled++
	q.store.emit(broker.Event{Kind: broker.EventSettled, Queue: q.name, ID: j.ID, State: broker.StateCancelled})
}

// redrive sends a dead job back to its queue, unless another job holds its unique key (§19).
func (q *queue) redrive(j *job, now time.Time) (holder string, err error) {
	if j.Unique.Key != "" && j.Unique.Mode == broker.UniqueUntilDone {
		if holder, held := q.holderOf(j.Unique.Key, now); held {
			return holder, broker.Duplicate(j.ID, holder)
		}
		q.takeKey(j, now)
	}
	q.move(j, broker.OnRedrive, broker.StatePending, time.Time{})
	j.Head = j.Redriven()
	return "", nil
}

// reschedule gives a job a new time. A pending job becomes scheduled if that time is not due.
func (q *queue) reschedule(j *job, due, now time.Time) {
	j.Head = j.Moved()
	switch {
	case !due.After(now):
		q.move(j, broker.OnReschedule, broker.StatePending, time.Time{})
	case j.State == broker.StateRetry:
		q.move(j, broker.OnReschedule, broker.StateRetry, due)
	default:
		q.move(j, broker.OnReschedule, broker.StateScheduled, due)
	}
}

// removeQueue forgets a queue that has no jobs and no live workers (§1).
func (s *Store) removeQueue(ref broker.Ref, now time.Time) error {
	if ref.ID != "" {
		return broker.Invalid("id", "is set; remove a queue by its name alone")
	}
	q := s.queues[ref.Queue]
	if q == nil {
		return broker.ErrNotFound
	}
	info := q.describe(true, now)
	info.Workers = slices.DeleteFunc(info.Workers, func(w broker.WorkerInfo) bool { return !w.Alive(now) })
	if len(info.Workers) > 0 || len(q.jobs) > 0 {
		return broker.QueueInUse(info)
	}
	for _, w := range slices.Clone(q.waiters) {
		w.wake() // its claim then finds that the worker is gone
	}
	if s.journal != nil {
		s.noted = append(s.noted, q.records()...)
	}
	delete(s.queues, ref.Queue)
	return nil
}
