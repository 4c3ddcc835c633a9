package pgbroker

import (
	"context"

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
				if p := f.problem(e.Now); f.number == queue && p.code == code && p.left == "" {
					return s.run(ctx, e.mend(f, code))
				}
			}
			return nil
		})
	}
}

// mend returns the step that repairs a job.
func (e *examiner) mend(f *jobFacts, code string) step {
	state := broker.State(f.state)
	switch {
	case code == "job-listed-twice":
		return e.outlive(f)
	case code == "unique-key-not-held":
		index := f.index()
		var until *int64
		if index.TTL > 0 {
			until = new(f.createdAt + broker.DurationMicros(index.TTL))
		}
		return e.b.step("examine_hold", nil, *f.uniqueKey, f.number, f.id, int16(index.Mode), until)
	case code == "key-without-turn":
		return e.b.step("examine_call", nil, f.id, f.number)
	case code == "lane-unknown":
		return e.change(f, state, 5, 0, 0)
	case code == "lease-of-unknown-worker" && f.workerKnown:
		return e.b.step("examine_end", nil, e.now.micros, f.workerID, f.number)
	case state == broker.StateActive: // no worker will settle the job: release it
		return e.change(f, broker.StatePending, f.lane/2*2, 1, 1)
	case state == broker.StateWaiting && !f.isHeld():
		return e.change(f, broker.StatePending, f.lane, 1, 0)
	case waits(state) && f.runAt == nil && f.worker == nil:
		tail := broker.AppendTail([]byte{}, &broker.Head{Reason: broker.ReasonUndecodable,
			Errors: broker.ErrorLog{Entries: []broker.Failure{{
				At: e.Now, Code: "time_lost", Class: "permanent",
				Message: "the time at which it was due was lost from the store, and an examination found it"}}}})
		return e.b.step("examine_bury", nil, e.now.micros, f.id, f.number, tail)
	case code != "state-unknown":
		return e.change(f, state, f.lane, 0, 0)
	case f.worker != nil && f.workerKnown:
		return e.change(f, broker.StateActive, f.lane, 1, 0)
	case f.runAt != nil:
		return e.change(f, broker.StateRetry, f.lane, 1, 0)
	}
	return e.change(f, broker.StatePending, f.lane, 1, 0)
}

// change returns the step that sets the state of a job, and clears what does not belong to
// that state.
func (e *examiner) change(f *jobFacts, to broker.State, lane int16, rise, ended int32) step {
	return e.b.step("examine_mend", nil, f.id, f.number, int16(to), lane, rise, ended)
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
