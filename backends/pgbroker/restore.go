package pgbroker

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// restored reports whether a run has jobs from another store. All jobs of a run are of one kind.
func (f *flush) restored() bool { return len(f.jobs) > 0 && f.jobs[0].Restore != nil }

// sameKind reports whether two jobs can be stored in one run. Restored jobs have runs of their
// own, and so have jobs that a depth limit may refuse. A job that may replace another one begins
// a new run.
func sameKind(a, b entry) bool {
	return a == b || !b.Meets() && (a.Restore != nil) == (b.Restore != nil) && a.TakesRoom() == b.TakesRoom()
}

// restore stores a run of restored jobs in a transaction, after the steps in begin. wake is the
// wake-up to send with it.
func (f *flush) restore(ctx context.Context, s session, wake *wakeUp, begin ...step) error {
	err := s.run(ctx, append(f.prepare(begin), f.storeRestored())...)
	if err == nil && f.served {
		err = s.run(ctx, f.lookKnown(f.stored), f.lookHolders())
	}
	if err == nil && f.served {
		err = s.run(ctx, f.endRestored(wake))
	}
	return err
}

// prepare adds the steps that must run before store or storeRestored.
func (f *flush) prepare(steps []step) []step {
	steps = append(steps, f.b.step("settings", nil, nil, f.lockTimeout()))
	if f.token != nil {
		steps = append(steps, f.takeKeys())
	}
	return steps
}

// storeRestored returns the statement that stores restored jobs, including jobs that had ended.
func (f *flush) storeRestored() step {
	heads := newHeadColumns(len(f.jobs))
	for _, j := range f.jobs {
		heads.add(new(j.Restore.NewHead(time.Time{})))
	}
	states := values(f, func(j *broker.NewJob) int16 { return int16(j.Restore.State) })
	created := values(f, func(j *broker.NewJob) int64 { return broker.Micros(j.Restore.CreatedAt) })
	take := values(f, func(j *broker.NewJob) string {
		if j.TakesKey() {
			return j.Body.Unique.Key
		}
		return ""
	})
	return f.b.step("restore", one(&f.at, &f.served, &f.stored, &f.heldOut),
		f.now.micros, f.queue, f.pastLimit, column(f, jobID), states, f.lanes(), f.bodies(), column(f, runAt), column(f, f.delay),
		column(f, retain), column(f, given), column(f, key), column(f, uniqueKey), take, f.token,
		f.epochs(), created, heads.deliveries, heads.failures, heads.crashes, heads.snoozes, heads.tails)
}

// lookKnown returns the statement that reports which IDs have a record, apart from the jobs
// that were just stored.
func (f *flush) lookKnown(stored []string) step {
	f.held = make(map[string]string)
	return f.b.step("enqueue_known", each(func(r rows) error {
		var id string
		var held *string
		err := r.Scan(&id, &held)
		f.know(id)
		if held != nil && f.restored() {
			_, f.held[id] = heldOf(*held)
		}
		return err
	}), f.now.micros, f.queue, column(f, jobID), f.epochs(), stored)
}

// epochs returns the epochs that restored jobs had in the other store, 0 for new jobs.
func (f *flush) epochs() []int64 {
	return values(f, func(j *broker.NewJob) int64 {
		if j.Restore == nil {
			return 0
		}
		return j.Restore.Head.Epoch
	})
}

// lookHolders returns the statement that reports which jobs hold the unique keys that could not be
// taken.
func (f *flush) lookHolders() step {
	idOf := make(map[string]string)
	heldOut := set(f.heldOut)
	for _, j := range f.jobs {
		if heldOut[j.ID] {
			idOf[j.Body.Unique.Key] = j.ID
		}
	}
	f.holders = make(map[string]string)
	return f.b.step("unique_holders", each(func(r rows) error {
		var key, holder string
		err := r.Scan(&key, &holder)
		f.holders[idOf[key]] = holder
		return err
	}), f.queue, slices.Collect(maps.Keys(idOf)))
}

// endRestored returns the statement that moves jobs that had ended to their tables, and removes
// the new jobs whose IDs exist in other tables.
func (f *flush) endRestored(wake *wakeUp) step {
	stored := set(f.stored)
	var keep, undo []string
	var ends []int64
	var suppressed []bool
	for _, j := range f.jobs {
		switch {
		case !stored[j.ID]:
		case f.known[j.ID]:
			undo = append(undo, j.ID)
		default:
			keep, ends = append(keep, j.ID), append(ends, broker.Micros(j.Restore.Head.FinishedAt))
			suppressed = append(suppressed, j.Restore.Head.Suppressed)
		}
	}
	if f.stored == nil {
		f.stored = []string{} // no job; nil would mean all
	}
	self, payload := wake.args(f.queue)
	return f.b.step("restore_end", one(nil), f.now.micros, f.queue, keep, ends, undo, f.token, self, payload, suppressed)
}
