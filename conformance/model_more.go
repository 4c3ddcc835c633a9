package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

func isError(got, want error) bool { return want == nil || errors.Is(got, want) }

func (m *model) renew(req broker.RenewRequest, got broker.Renewed) error {
	lost := false
	var cancel []broker.Ref
	for _, name := range req.Queues {
		q := m.queue(name)
		w := q.workers[req.Worker]
		if w == nil && req.Register {
			w = new(modelWorker)
			q.workers[req.Worker] = w
		}
		if w == nil || w.ended {
			lost = true
			continue
		}
		w.until = m.now.Add(req.Lease)
		held := 0
		for _, j := range q.list(broker.StateActive) {
			if j.Worker == req.Worker {
				if held++; j.CancelRequested {
					cancel = append(cancel, j.Ref())
				}
			}
		}
		if !got.Lost && got.Held[name] != held {
			return fmt.Errorf("renew of %s: %d held in %s, want %d", req.Worker, got.Held[name], name, held)
		}
	}
	if got.Lost != lost {
		return fmt.Errorf("renew of %s: lost %t, want %t", req.Worker, got.Lost, lost)
	}
	if !lost && !sameRefs(got.Cancel, cancel) {
		return fmt.Errorf("renew of %s: cancel %v, want %v", req.Worker, got.Cancel, cancel)
	}
	return nil
}

func sameRefs(a, b []broker.Ref) bool {
	set := make(map[broker.Ref]int)
	for _, r := range a {
		set[r]++
	}
	for _, r := range b {
		set[r]--
	}
	for _, n := range set {
		if n != 0 {
			return false
		}
	}
	return true
}

func (m *model) retire(req broker.RetireRequest, got broker.Retired) error {
	return m.inOneCall(func() error { return m.retired(req, got) })
}

func (m *model) retired(req broker.RetireRequest, got broker.Retired) error {
	listed := make(map[string]bool)
	for _, ref := range got.Released {
		listed[ref.Queue+"/"+ref.ID] = true
	}
	for _, name := range req.Queues {
		q := m.queue(name)
		for _, j := range q.list(broker.StateActive) {
			if j.Worker != req.Worker {
				continue
			}
			cancelled := j.CancelRequested
			m.apply(q, j, broker.Release(), 0)
			if !cancelled && !listed[name+"/"+j.ID] {
				return fmt.Errorf("retire of %s: released %v, want %s too", req.Worker, got.Released, j.ID)
			}
			delete(listed, name+"/"+j.ID)
		}
		if w := q.workers[req.Worker]; w != nil {
			w.ended = true
		}
	}
	if len(listed) > 0 {
		return fmt.Errorf("retire of %s: released %v, which it did not hold", req.Worker, slices.Collect(maps.Keys(listed)))
	}
	return nil
}

func (m *model) operate(op broker.Operation, results []broker.OperationResult) error {
	return m.inOneCall(func() error { return m.operated(op, results) })
}

func (m *model) operated(op broker.Operation, results []broker.OperationResult) error {
	for i, ref := range op.Refs {
		q, r := m.queue(ref.Queue), results[i]
		j := q.jobs[ref.ID]
		what := fmt.Sprintf("%v of %s", op.Kind, ref.ID)
		want, holder := m.allows(q, j, op, ref.Epoch)
		if err := answer(what, r.Err, want); err != nil {
			return err
		}
		if r.Holder != holder {
			return fmt.Errorf("%s: holder %q, want %q", what, r.Holder, holder)
		}
		if want != nil {
			continue
		}
		switch op.Kind {
		case broker.OpCancel:
			if j.State == broker.StateActive {
				j.CancelRequested = true
				continue
			}
			j.Head = j.Head.Moved()
			j.FinishedAt = m.now
			m.end(q, j, broker.StateCancelled)
			q.totals.Cancelled++
		case broker.OpDelete:
			left := int64(stays)
			if op.Holder != "" {
				left = j.Epoch
			}
			m.forget(q, j, m.now, left)
		case broker.OpHold, broker.OpUnhold, broker.OpEdit:
			if err := m.move(j, op, r.State); err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
		case broker.OpRedrive:
			j.Head = j.Head.Redriven()
			if m.pending(j, false); j.Unique.Key != "" && j.Unique.Mode == untilDone {
				m.hold(q, j)
			}
		case broker.OpReschedule:
			j.Head = j.Head.Moved()
			at := op.RunAt
			if op.Delay > 0 {
				at = m.now.Add(op.Delay)
			}
			state := broker.StateScheduled
			if j.State == broker.StateRetry && (!j.ready(m.now) || r.State == broker.StateRetry) {
				state = broker.StateRetry // it is pending if a call has seen that it is due
			}
			if m.pending(j, false); at.After(m.now) {
				m.wait(j, state, at)
			}
			if r.State != j.State {
				return fmt.Errorf("%s: now %v, want %v", what, r.State, j.State)
			}
		case broker.OpSuppress, broker.OpUnsuppress:
			j.Suppressed = op.Kind == broker.OpSuppress
		}
	}
	return nil
}

// allows returns the error and the holder with which an operation must be answered.
func (m *model) allows(q *modelQueue, j *modelJob, op broker.Operation, epoch int64) (want error, holder string) {
	if j == nil {
		return broker.ErrNotFound, ""
	}
	event := map[broker.OperationKind]broker.TransitionEvent{broker.OpCancel: broker.OnCancel, broker.OpDelete: broker.OnDelete,
		broker.OpRedrive: broker.OnRedrive, broker.OpReschedule: broker.OnReschedule, broker.OpHold: broker.OnHold,
		broker.OpUnhold: broker.OnUnhold}[op.Kind]
	allowed := broker.Allows(j.State, event)
	switch op.Kind {
	case broker.OpCancel:
		allowed = allowed || j.State == broker.StateActive
	case broker.OpSuppress, broker.OpUnsuppress:
		allowed = j.State == broker.StateDead
	case broker.OpEdit:
		allowed = j.State.Editable()
	case broker.OpHold:
		if j.State == broker.StateWaiting && j.Holder == op.Holder {
			return nil, ""
		}
	}
	if _, behind := broker.IsBehind(j.Holder); behind && op.Kind == broker.OpUnhold {
		allowed = false
	}
	if !allowed || epoch != broker.AnyEpoch && epoch != j.Epoch || op.Holder != "" && j.Holder != "" && j.Holder != op.Holder {
		return broker.ErrWrongState, j.Holder
	}
	if op.Kind == broker.OpRedrive && j.Unique.Key != "" && j.Unique.Mode == untilDone {
		if h := q.holder(j.Unique.Key, m.now); h != "" && h != j.ID {
			return broker.ErrDuplicate, h
		}
	}
	return nil, ""
}

// kept returns the records that one retention bounds, and that retention.
func (q *modelQueue) kept(dead bool) ([]*modelJob, broker.Retention) {
	jobs, r := append(q.list(broker.StateCompleted), q.list(broker.StateCancelled)...), q.policy.RetainCompleted
	if dead {
		jobs, r = q.list(broker.StateDead), q.policy.RetainDead
	}
	slices.SortFunc(jobs, func(a, b *modelJob) int { return a.FinishedAt.Compare(b.FinishedAt) })
	return jobs, r
}

// lapses returns when a record's retention ends, or zero for never.
func (q *modelQueue) lapses(j *modelJob) time.Time {
	if j.State != broker.StateDead {
		return j.ends
	}
	if age := q.policy.RetainDead.Age; age > 0 {
		return j.FinishedAt.Add(age)
	}
	return time.Time{}
}

// lapsed reports whether a prune has something to do.
func (m *model) lapsed(q *modelQueue) bool {
	for _, dead := range []bool{false, true} {
		jobs, r := q.kept(dead)
		if r.Count > 0 && int64(len(jobs)) > r.Count {
			return true
		}
		for _, j := range jobs {
			if at := q.lapses(j); !at.IsZero() && !m.now.Before(at) {
				return true
			}
		}
	}
	return false
}

// prune removes records whose retention is over. Of records that ended at the same
// instant, a bound by count may remove any; present reports which are still there.
func (m *model) prune(q *modelQueue, present func(id string) bool) error {
	for _, dead := range []bool{false, true} {
		jobs, r := q.kept(dead)
		left := jobs[:0]
		for _, j := range jobs {
			if at := q.lapses(j); !at.IsZero() && !m.now.Before(at) {
				m.forget(q, j, at, stays)
			} else {
				left = append(left, j)
			}
		}
		over := len(left) - int(r.Count)
		if r.Count == 0 || over <= 0 {
			continue
		}
		bound := left[over-1].FinishedAt // earlier records must go; records of this instant may go
		for _, j := range left {
			if j.FinishedAt.Before(bound) || j.FinishedAt.Equal(bound) && !present(j.ID) {
				m.forget(q, j, j.FinishedAt, stays)
				over--
			}
		}
		if over != 0 {
			return fmt.Errorf("prune of %s: %d records more than the policy's count are left (dead ones: %t)", q.name, over, dead)
		}
	}
	return nil
}

func (m *model) mark(req broker.MarkRequest, got broker.Marked) error {
	mark := m.marks[req.Name]
	if mark == nil {
		mark = new(broker.Marked)
		m.marks[req.Name] = mark
	}
	if !m.now.Before(mark.Until) {
		*mark = broker.Marked{Fence: mark.Fence} // later fences are higher than those of the dropped mark
	}
	last := mark.Fence
	mine := mark.Held && mark.Owner == req.Owner && mark.Fence == req.Fence
	want := *mark
	switch {
	case req.Action == broker.MarkTake && (!mark.Held || mark.Owner == req.Owner):
		if got.Fence <= last {
			return fmt.Errorf("mark: fence %d after a take, want more than %d", got.Fence, last)
		}
		if !mark.Held {
			mark.Value = bytes.Clone(req.Value)
		}
		mark.Held, mark.Owner, mark.Fence, mark.Until = true, req.Owner, got.Fence, m.now.Add(req.TTL)
		want = *mark
	case req.Action == broker.MarkKeep && mine:
		mark.Until = m.now.Add(req.TTL)
		want = *mark
	case req.Action == broker.MarkSet && mine:
		mark.Until, mark.Value = m.now.Add(req.TTL), bytes.Clone(req.Value)
		want = *mark
	case req.Action == broker.MarkDrop && mine:
		*mark = broker.Marked{Fence: last}
		if !got.Held {
			return errors.New("mark: not dropped, want it dropped")
		}
		return nil
	case req.Action != broker.MarkRead:
		want.Held = false
	}
	if got.Held != want.Held || mark.Held && (got.Owner != want.Owner || got.Fence != want.Fence || !got.Until.Equal(want.Until) ||
		!bytes.Equal(got.Value, want.Value)) {
		return fmt.Errorf("mark: %+v, want %+v", got, want)
	}
	return nil
}

// differs returns an error if the store's job differs from the model's.
func (j *modelJob) differs(got *broker.Job) error {
	state, runAt := j.State, j.RunAt
	if j.waits() && got.State == broker.StatePending {
		state, runAt = broker.StatePending, time.Time{} // some call has seen that it is due; compare checks that it is
	}
	from := j.HeldFrom
	if j.unsure && got.HeldFrom == broker.StatePending {
		from, runAt = broker.StatePending, time.Time{}
	}
	if got.Holder != j.Holder || got.HeldFrom != from || got.Queue != j.Queue || got.ID != j.ID || got.State != state ||
		!got.RunAt.Equal(runAt) || got.Worker != j.Worker ||
		got.CancelRequested != j.CancelRequested || !got.CreatedAt.Equal(j.CreatedAt) || got.Broken != nil ||
		!headsEqual(got.Head, j.Head) || !bytes.Equal(broker.AppendBody(nil, &got.Body), broker.AppendBody(nil, &j.Body)) {
		return fmt.Errorf("job %s/%s\ngot  %s\nwant %s", j.Queue, j.ID, show(*got), show(j.Job))
	}
	return nil
}

// compare compares a queue with the model: the jobs listed in each state, and the
// counts.
func (m *model) compare(q *modelQueue, listed map[broker.State][]broker.Job, counts map[broker.State]int64) error {
	seen := make(map[string]bool)
	due := false
	for state, jobs := range listed {
		for i := range jobs {
			j := q.jobs[jobs[i].ID]
			if j == nil || seen[jobs[i].ID] {
				return fmt.Errorf("%s lists %s, which is not there (or is there twice)", q.name, jobs[i].ID)
			}
			seen[j.ID] = true
			if j.waits() && j.ready(m.now) {
				due = true
			} else if jobs[i].State != j.State {
				return fmt.Errorf("%s lists %s as %v, want %v", q.name, j.ID, state, j.State)
			}
			if err := j.differs(&jobs[i]); err != nil {
				return err
			}
		}
	}
	for id := range q.jobs {
		if !seen[id] {
			return fmt.Errorf("%s does not list %s, which is %v", q.name, id, q.jobs[id].State)
		}
	}
	for _, state := range broker.States() {
		if n := int64(len(q.list(state))); !due && counts[state] != n {
			return fmt.Errorf("%s counts %d %v jobs, want %d", q.name, counts[state], state, n)
		}
	}
	return nil
}
