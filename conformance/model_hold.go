package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// takes reports whether a new job needs room in the queue, and its unique key.
func takes(n *broker.NewJob) (room, key bool) {
	key = n.Body.Unique.Key != ""
	if n.Restore == nil {
		return true, key
	}
	started := n.Body.Unique.Mode == untilStarted && n.Restore.Head.Deliveries > 0
	switch n.Restore.State {
	case broker.StatePending, broker.StateScheduled:
		return true, key && !started
	case broker.StateRetry:
		return false, key && !started
	}
	return false, false
}

// restore gives a new job, which is pending or scheduled, its history.
func (m *model) restore(q *modelQueue, j *modelJob, past *broker.Restored, at time.Time) {
	j.Head = past.Head
	j.Epoch++
	if !past.CreatedAt.IsZero() {
		j.CreatedAt = past.CreatedAt
	}
	if past.State != broker.StateDead {
		j.Reason, j.Suppressed = broker.ReasonNone, false
	}
	if past.State != broker.StateCompleted {
		j.Result = nil
	}
	switch state := past.State; {
	case state.Final():
		j.State, j.RunAt = state, time.Time{}
		if state == broker.StateDead {
			return
		}
		if j.ends = j.FinishedAt.Add(q.keeps(j)); !j.ends.After(m.now) {
			delete(q.jobs, j.ID)
		}
		return
	case state == broker.StateRetry:
		if at.IsZero() {
			at = m.now
		}
		m.wait(j, state, at)
	}
	j.FinishedAt = time.Time{}
}

// move holds, unholds or edits a job; now is its state according to the answer.
func (m *model) move(j *modelJob, op broker.Operation, now broker.State) error {
	switch {
	case op.Kind == broker.OpEdit:
		if j.Payload = bytes.Clone(op.Payload); j.State == broker.StateDead {
			j.Head = j.Head.Moved()
		}
		return nil
	case op.Kind == broker.OpHold && j.State == broker.StateWaiting:
		return nil // it is held already
	case op.Kind == broker.OpHold:
		j.Head = j.Head.Moved()
		j.unsure = j.waits() && j.ready(m.now)
		j.State, j.Holder, j.HeldFrom = broker.StateWaiting, op.Holder, j.State
	default:
		j.Head = j.Head.Moved()
		if j.unsure && now == broker.StatePending {
			j.HeldFrom = broker.StatePending // some call had seen that it was due before it was held
		}
		from, at := j.HeldFrom, j.RunAt
		j.Holder, j.HeldFrom, j.unsure = "", broker.StateNone, false
		if m.pending(j, true); from != broker.StatePending {
			m.wait(j, from, at)
		}
	}
	if now != j.State {
		return fmt.Errorf("now %v, want %v", now, j.State)
	}
	return nil
}

// holder returns a random holder for held jobs.
func (s *sequence) holder() string { return fmt.Sprint("move:", s.r.IntN(2)) }

// restore copies a job to some queue, under its ID or another, and then usually deletes the original, as
// a mover does.
func (s *sequence) restore() {
	if s.limits.NoMove {
		return
	}
	q := s.m.queue(s.name())
	j := s.pick(q, broker.OpHold)
	if j == nil || j.State == broker.StateActive {
		return
	}
	original := s.findIn(q.name, j.ID)
	s.that(original != nil, "Find of %s/%s\ngot  no job\nwant it", q.name, j.ID)
	s.agree(j.differs(original))
	n := original.Copy()
	n.Queue = s.name()
	if s.chance(30) {
		s.ids++
		n.ID = fmt.Sprint("j", s.ids)
	}
	n.Body.GivenID = n.Body.GivenID || s.chance(50)
	if s.chance(10) {
		n.RunAt, n.Restore.CreatedAt = time.Time{}, time.Time{}
	}
	receipts := s.enqueue(n)
	s.agree(s.m.enqueue([]broker.NewJob{n}, receipts))
	if err := receipts[0].Err; s.chance(30) || err != nil && !errors.Is(err, broker.ErrDuplicate) {
		return
	}
	op := broker.Operation{Now: s.m.now, Kind: broker.OpDelete, Holder: s.holder(), Refs: []broker.Ref{original.Ref()}}
	results, err := s.b.Operate(s.ctx, op)
	s.ok("Operate", err)
	s.agree(s.m.operate(op, results))
}
