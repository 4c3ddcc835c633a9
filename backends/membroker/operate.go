package membroker

import (
	"context"
	"slices"

	"github.com/seed81422ce9/jobs/broker"
)

// Operate decides each Ref on its own, in order; the whole request is one
// step. §23.
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

func (s *Store) operate(op *broker.Operation, ref broker.Ref, now instant) (state broker.State, holder string, err error) {
	q := s.queues[ref.Queue]
	if q == nil || q.jobs.get(ref.ID) == nil {
		return broker.StateNone, "", broker.ErrNotFound
	}
	j := q.jobs.get(ref.ID)
	by := ""
	if j.held != nil {
		by = j.held.by
	}
	if op.Kind == broker.OpHold && by == op.Holder {
		return j.state, "", nil // already
	}
	if ref.Epoch != broker.AnyEpoch && ref.Epoch != j.read().Epoch {
		return j.state, by, broker.ErrWrongState
	}
	ok := true
	switch op.Kind {
	case broker.OpCancel:
		if ok = q.cancel(j, now); ok && j.state == broker.StateNone {
			return broker.StateCancelled, "", nil // of which no record is kept
		}
	case broker.OpDelete:
		if ok = broker.Allows(j.state, broker.OnDelete) && j.mayBeOf(op.Holder); ok {
			moved := stays
			if op.Holder != "" {
				moved = j.read().Epoch
			}
			q.drop(j, now, moved)
		}
	case broker.OpRedrive:
		if ok = broker.Allows(j.state, broker.OnRedrive); ok {
			holder, err = q.redrive(j, now)
		}
	case broker.OpReschedule:
		if ok = broker.Allows(j.state, broker.OnReschedule); ok {
			q.reschedule(j, op, now)
		}
	case broker.OpEdit:
		if ok = j.state.Editable(); ok {
			j.edit(op.Payload)
		}
	case broker.OpHold:
		if ok = broker.Allows(j.state, broker.OnHold); ok {
			q.hold(j, op.Holder)
		}
	case broker.OpUnhold:
		if ok = broker.Allows(j.state, broker.OnUnhold) && j.mayBeOf(op.Holder); ok {
			q.unhold(j)
		}
	case broker.OpSuppress, broker.OpUnsuppress:
		if ok = j.state == broker.StateDead; ok {
			head := *j.read()
			head.Suppressed = op.Kind == broker.OpSuppress
			j.write(head)
		}
	}
	if !ok {
		holder, err = by, broker.ErrWrongState
	}
	return j.state, holder, err
}

// cancel ends a job, or asks the holder of an active one to: that is no
// transition, since the lease goes on.
func (q *queue) cancel(j *job, now instant) bool {
	if j.state == broker.StateActive {
		if !j.cancelRequested {
			j.cancelRequested = true
			j.holder.cancels++
		}
		q.store.emit(broker.Event{Kind: broker.EventCancel, Queue: q.name, ID: j.id, State: j.state})
		return true
	}
	if !broker.Allows(j.state, broker.OnCancel) {
		return false
	}
	head := j.read().Moved()
	head.FinishedAt = now.stamp()
	j.write(head)
	q.finish(j, broker.OnCancel, broker.StateCancelled, now)
	q.store.emit(broker.Event{Kind: broker.EventSettled, Queue: q.name, ID: j.id, State: broker.StateCancelled})
	return true
}

// redrive sends a dead job back, unless another holds its unique key (§21).
func (q *queue) redrive(j *job, now instant) (holder string, err error) {
	if j.Unique.Key != "" && j.Unique.Mode == broker.UniqueUntilDone {
		if holder, held := q.heldBy(j.Unique.Key, now); held {
			return holder, broker.ErrDuplicate
		}
		q.takeKey(j, now)
	}
	j.write(j.read().Redriven())
	q.move(j, broker.OnRedrive, broker.StatePending, 0)
	return "", nil
}

// reschedule gives a job a new time; a pending one waits for it as scheduled.
func (q *queue) reschedule(j *job, op *broker.Operation, now instant) {
	j.write(j.read().Moved())
	at, ahead := now.due(op.Delay, op.RunAt)
	switch {
	case !ahead:
		q.move(j, broker.OnReschedule, broker.StatePending, 0)
	case j.state == broker.StateRetry:
		q.move(j, broker.OnReschedule, broker.StateRetry, at)
	default:
		q.move(j, broker.OnReschedule, broker.StateScheduled, at)
	}
}

// removeQueue forgets a queue that has no jobs and no live workers (§1).
func (s *Store) removeQueue(ref broker.Ref, now instant) error {
	if ref.ID != "" {
		return broker.Invalid("id", "is set; remove a queue by its name alone")
	}
	q := s.queues[ref.Queue]
	if q == nil {
		return broker.ErrNotFound
	}
	for _, w := range q.workers {
		if !now.reached(w.until) {
			return broker.ErrWrongState
		}
	}
	if q.jobs.len() > 0 {
		return broker.ErrWrongState
	}
	for _, w := range slices.Clone(q.waiters) {
		w.signal() // to learn that its worker is gone
	}
	delete(s.queues, ref.Queue)
	return nil
}
