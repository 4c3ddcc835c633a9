package pgbroker_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

func restored(state broker.State) func(*broker.NewJob) {
	return func(j *broker.NewJob) {
		j.Restore = &broker.Restored{State: state, Head: broker.Head{Epoch: 3, Deliveries: 2, Failures: 1}}
		if state == broker.StateCompleted || state == broker.StateCancelled {
			j.Body.Retention = time.Hour
		}
	}
}

// everyRestored returns a job to be restored to each state.
func everyRestored() (jobs []broker.NewJob) {
	for _, state := range []broker.State{broker.StatePending, broker.StateRetry, broker.StateDead, broker.StateCompleted,
		broker.StateCancelled} {
		jobs = append(jobs, aJob(state.String(), restored(state)))
	}
	return append(jobs, aJob("scheduled", restored(broker.StateScheduled), func(j *broker.NewJob) { j.Delay = time.Hour }),
		aJob("keyed", restored(broker.StatePending), withKey("k", broker.UniqueUntilDone)))
}

// Restored jobs are moved in the transaction that stores them. If that is a caller's and is
// rolled back, nothing may be left.
func TestRestore_RestoredJobsAreOfTheCallersTransaction(t *testing.T) {
	forEachTx(t, func(t *testing.T, f *fixture, begin func() *callersTx) {
		f.store(f, aJob("present"))
		counts, content := f.counts(), f.content()
		tx := begin()
		f.store(tx, everyRestored()...)
		if r := f.try(tx, aJob("present", restored(broker.StateDead))); !errors.Is(r.Err, broker.ErrDuplicate) {
			t.Errorf("an ID that exists was answered %v, want ErrDuplicate", r.Err)
		}
		if r := f.try(tx, aJob("dead", restored(broker.StatePending))); !errors.Is(r.Err, broker.ErrDuplicate) {
			t.Errorf("an ID that this transaction restored was answered %v, want ErrDuplicate", r.Err)
		}
		f.ok(tx.rollback())
		if now := f.counts(); !reflect.DeepEqual(now, counts) {
			t.Errorf("counts after the rollback are %v, before the transaction they were %v", now, counts)
		}
		if now := f.content(); !reflect.DeepEqual(now, content) {
			t.Errorf("the rollback left something behind:\n%v\nbefore the transaction:\n%v", now, content)
		}
		tx = begin()
		f.store(tx, everyRestored()...)
		f.ok(tx.commit())
		want := map[broker.State]int64{broker.StatePending: 3, broker.StateScheduled: 1, broker.StateRetry: 1, broker.StateDead: 1,
			broker.StateCompleted: 1, broker.StateCancelled: 1}
		for state, n := range f.counts() {
			if n != want[state] {
				t.Errorf("%d jobs are %v after the commit, want %d", n, state, want[state])
			}
		}
		if got := f.claim(10, 0); len(got) != 4 {
			t.Errorf("claimed %v, want those that are pending, and the retry, which is due", names(got))
		}
	})
}
