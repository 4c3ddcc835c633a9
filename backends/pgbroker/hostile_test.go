package pgbroker_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// The ID of a settled job comes from the caller. A character that the store cannot hold must not fail the other jobs of the call.
func TestSettle_AnImpossibleIDFailsAlone(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a\x00b", "a\xffb", ""} {
		f := newFixture(t)
		f.store(f, aJob("good"))
		good := f.claim(1, 0)[0]
		bad, stray := good, good
		bad.ID, stray.Queue = name, name
		items := []broker.Settlement{{Job: &bad, Outcome: broker.Complete(nil)}, {Job: &good, Outcome: broker.Complete(nil)},
			{Job: &stray, Outcome: broker.Release()}}
		verdicts, err := f.Settle(t.Context(), broker.SettleRequest{Worker: testWorker, Number: 1, Items: items})
		f.ok(err)
		for i, lost := range []bool{true, false, true} {
			if v := verdicts[i]; errors.Is(v.Err, broker.ErrLeaseLost) != lost || v.ID != items[i].Job.ID || v.Queue != items[i].Job.Queue {
				t.Errorf("item %d with %q: %+v, want a lost lease: %t", i, name, v, lost)
			}
		}
	}
}

// A cursor of another listing, or an edited one, is a mistake of the caller: the store is not unavailable.
func TestFind_AnyCursorIsAnsweredOrRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.store(f, aJob("a"), aJob("later", func(j *broker.NewJob) { j.Delay = time.Hour }))
	cursors := []string{"1700000000000000,9223372036854775807,x", "-9223372036854775808,-9223372036854775808,a", "40000,1,a"}
	for _, q := range []broker.Query{{State: broker.StatePending}, {State: broker.StateScheduled}, {State: broker.StateActive},
		{State: broker.StateRetry}, {State: broker.StateWaiting}, {State: broker.StateDead}, {State: broker.StateCompleted},
		{State: broker.StateDead, Newest: true}, {State: broker.StateCancelled, Newest: true}, {Key: "k"}, {Worker: testWorker}} {
		for _, q.Cursor = range cursors {
			q.Queue = testQueue
			if _, err := f.Find(t.Context(), q); err != nil && !errors.Is(err, broker.ErrInvalid) {
				t.Errorf("a page of %v, key %q, worker %q after %q: %v", q.State, q.Key, q.Worker, q.Cursor, err)
			}
		}
	}
}

func TestExamine_AnyCursorIsAnsweredOrRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, part := range []string{"jobs", "dead", "history", "unique keys", "remembered", "workers", "marks", "verdicts"} {
		for _, pos := range []string{"3000000000/a", "1/a\x00", "1/\xff", "-3000000000/a", "x", "1/99999999999999999999",
			strings.Repeat("9", 30) + "/1"} {
			_, err := f.Examine(t.Context(), broker.ExamineRequest{Cursor: part + "\n\n" + pos})
			if err != nil && !errors.Is(err, broker.ErrInvalid) {
				t.Errorf("part %q from %q: %v", part, pos, err)
			}
		}
	}
}

// Two operators may repair at once, while jobs are enqueued. A repair that is too late must not set a sequence back.
func TestExamine_ARepairSetsNoSequenceBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	repairing, stop := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for repairing.Err() == nil {
			_, _ = f.direct.Exec(repairing, f.statement("examine_sequences"), 1, 1)
		}
	}()
	for _, sequence := range []string{"job_seq", "mark_fence"} {
		const draws = 200_000
		n := f.ask("select count(distinct n) from (select nextval('jobs."+sequence+"') as n from generate_series(1, $1)) s", draws)
		if n != draws {
			t.Errorf("%s gave %d different numbers in %d draws", sequence, n, draws)
		}
	}
	stop()
	<-stopped
}
