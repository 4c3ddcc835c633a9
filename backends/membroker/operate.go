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
	if done, err := op.Decide(ref, j.state, j.read().Epoch, by); err != nil {
		return j.state, by, err
	} else if done {
		return j.state, "", nil
	}
	switch op.Kind {
	case broker.OpCancel:
		if q.cancel(j, now); j.state == broker.StateNone {
			return broker.StateCancelled, "", nil // of which no record is kept
		}
	case broker.OpDelete:
		moved := stays
		if op.Holder != "" {
			moved = j.read().Epoch
		}
		q.drop(j, now, moved)
	case broker.OpRedrive:
		holder, err = q.redrive(j, now)
	case broker.OpReschedule:
		q.reschedule(j, op, now)
	case broker.OpEdit:
		j.edit(op.Payload)
	case broker.OpHold:
		q.hold(j, op.Holder)
	case broker.OpUnhold:
		q.unhold(j)
	case broker.OpSuppress, broker.OpUnsuppress:
		q.suppress(j, op.Kind == broker.OpSuppress)
	}
	return j.state, holder, err
}

// cancel ends a job, or asks the holder of an active one to: that is no
// transition, since the lease goes on.
func (q *queue) cancel(j *job, now instant) {
	if j.state == broker.StateActive {
		if !j.cancelRequested {
			j.cancelRequested = true
			j.holder.cancels++
		}
		q.store.emit(broker.Event{Kind: broker.EventCancel, Queue: q.name, ID: j.id, State: j.state})
		return
	}
	head := j.read().Moved()
	head.FinishedAt = now.stamp()
	j.write(head)
	q.finish(j, broker.OnCancel, broker.StateCancelled, now)
	q.store.emit(broker.Event{Kind: broker.EventSettled, Queue: q.name, ID: j.id, State: broker.StateCancelled})
}

// redrive sends a dead job back, unless another holds its unique key (§21).
func (q *queue) redrive(j *job, now instant) (holder string, err error) {
	if j.Unique.Key != "" && j.Unique.Mode == broker.UniqueUntilDone {
		if holder, held := q.heldBy(j.Unique.Key, now); held {
			return holder, broker.Duplicate(j.id, holder)
		}
		q.takeKey(j, now)
	}
	head := j.read().Redriven()
	q.move(j, broker.OnRedrive, broker.StatePending, 0)
	j.write(head)
	return "", nil
}

// suppress takes a dead job out of default lists, or brings it back to them.
func (q *queue) suppress(j *job, out bool) {
	if out == j.suppressed() {
		return
	}
	head := *j.read()
	head.Suppressed = out
	j.write(head)
	if out {
		q.suppressed++
	} else {
		q.suppressed--
	}
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
	var info broker.QueueInfo
	for _, w := range q.workers {
		if !now.reached(w.until) {
			info.Workers = append(info.Workers, broker.WorkerInfo{ID: w.id})
		}
	}
	if q.jobs.len() > 0 {
		info.Counts = q.describe(false, now).Counts
	}
	if len(info.Workers)+len(info.Counts) > 0 {
		return broker.QueueInUse(info)
	}
	for _, w := range slices.Clone(q.waiters) {
		w.signal() // to learn that its worker is gone
	}
	delete(s.queues, ref.Queue)
	return nil
}
