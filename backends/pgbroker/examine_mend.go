package pgbroker

import (
	"context"
	"slices"

	"github.com/seed81422ce9/jobs/broker"
)

// repairJob repairs a job in a transaction: it locks the row, reads it again, and does nothing
// if the problem is gone.
func (e *examiner) repairJob(id string, queue int64, code string) func(context.Context) error {
	return func(ctx context.Context) error {
		return e.b.transact(ctx, func(s session) error {
			if err := s.run(ctx, e.b.byIndex(false), e.b.step("examine_lock", nil, []string{id})); err != nil {
				return err
			}
			again, err := e.look(ctx, s, "", 0, []string{id})
			if err != nil {
				return err
			}
			for i := range again {
				f := &again[i]
				wrong := func(p problem) bool { return p.code == code && p.left == "" }
				if f.number == queue && slices.ContainsFunc(f.problems(e.Now), wrong) {
					return s.run(ctx, e.mend(f, code)...)
				}
			}
			return nil
		})
	}
}

// mend returns the steps that repair a job.
func (e *examiner) mend(f *jobFacts, code string) []step {
	state := broker.State(f.state)
	switch {
	case code == "job-listed-twice":
		return []step{e.outlive(f)}
	case code == "unique-key-not-held":
		index := f.index()
		var until *int64
		if index.TTL > 0 {
			at := f.createdAt + broker.DurationMicros(index.TTL)
			until = &at
		}
		return []step{e.b.step("examine_hold", nil, *f.uniqueKey, f.number, f.id, int16(index.Mode), until)}
	case code == "key-without-turn":
		return []step{e.b.step("examine_call", nil, f.id, f.number)}
	case code == "lane-unknown":
		return []step{e.change(f, state, 5, 0, 0)}
	case code == "lease-of-unknown-worker" && f.workerKnown:
		return []step{e.b.step("examine_end", nil, e.now.micros, f.workerID, f.number)}
	case state == broker.StateActive: // no worker will settle the job: release it
		return e.moved(f, state, broker.StatePending, e.change(f, broker.StatePending, f.lane/2*2, 1, 1))
	case state == broker.StateWaiting && !f.isHeld():
		return e.moved(f, state, broker.StatePending, e.change(f, broker.StatePending, f.lane, 1, 0))
	case waits(state) && f.runAt == nil && f.worker == nil:
		tail := broker.AppendTail([]byte{}, &broker.Head{Reason: broker.ReasonUndecodable,
			Errors: broker.ErrorLog{Entries: []broker.Failure{{
				At: e.Now, Code: "time_lost", Class: "permanent",
				Message: "the time at which it was due was lost from the store, and an examination found it"}}}})
		return e.moved(f, state, broker.StateDead, e.b.step("examine_bury", nil, e.now.micros, f.id, f.number, tail))
	case code == "state-unknown":
		switch {
		case f.worker != nil && f.workerKnown:
			state = broker.StateActive
		case f.runAt != nil:
			state = broker.StateRetry
		default:
			state = broker.StatePending
		}
		return []step{e.change(f, state, f.lane, 1, 0)} // the counts part corrects the counts, since the former state is not known
	}
	return []step{e.change(f, state, f.lane, 0, 0)}
}

// change returns the step that sets the state of a job, and clears what does not belong to
// that state.
func (e *examiner) change(f *jobFacts, to broker.State, lane int16, rise, ended int32) step {
	return e.b.step("examine_mend", nil, f.id, f.number, int16(to), lane, waits(to) || to == broker.StateWaiting,
		to == broker.StateActive, rise, ended)
}

// moved returns s, which moves a job from state to state, and the steps that change the
// counts.
func (e *examiner) moved(f *jobFacts, from, to broker.State, s step) []step {
	var n [len(counted)]int
	for i, state := range counted {
		if state == from {
			n[i]--
		}
		if state == to {
			n[i]++
		}
	}
	bytes := int64(0)
	if from == broker.StateActive {
		bytes += f.size
	} else if to.Final() {
		bytes -= f.size
	}
	return []step{s, e.count(f.number, n, bytes)}
}

func (e *examiner) count(queue int64, n [len(counted)]int, bytes int64) step {
	args := []any{queue}
	for _, by := range n {
		args = append(args, by)
	}
	return e.b.step("examine_count", nil, append(args, bytes)...)
}

// outlive returns the step that removes the older of two rows of the same job: the one with the lower epoch.
func (e *examiner) outlive(f *jobFacts) step {
	var ended int64
	for _, epoch := range []*int64{f.deadEpoch, f.historyEpoch} {
		if epoch != nil {
			ended = max(ended, *epoch)
		}
	}
	live := f.epoch >= ended
	return e.b.step("examine_drop", nil, f.id, f.number, !live, live && f.deadEpoch != nil, live && f.historyEpoch != nil)
}
