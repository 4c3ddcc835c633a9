package inspect

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/sleep"
)

func TestInspect_DeadJobsAreRedrivenBySelection(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.enqueue(t, "mail", 1200)
	b.enqueue(t, "sms", 3)
	b.die(t, 1203, "no route")
	var steps []int
	report, err := b.inspector.Select(Query{Queue: "default", State: broker.StateDead, Type: "mail"}).
		OnProgress(func(r Report) { steps = append(steps, r.Done) }).Redrive(t.Context())
	if err != nil || report.Done != 1200 || report.Matched != 1200 || report.Refused != 0 {
		t.Errorf("Redrive: %+v, %v", report, err)
	}
	if len(steps) < 3 || !slices.IsSorted(steps) || steps[len(steps)-1] != 1200 {
		t.Errorf("progress was reported as %v", steps)
	}
	if pending, dead := b.count(t, broker.StatePending), b.count(t, broker.StateDead); pending != 1200 || dead != 3 {
		t.Errorf("%d jobs are pending and %d dead, want 1200 and 3", pending, dead)
	}
}

func TestInspect_DecisionStopsAtItsLimit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.enqueue(t, "mail", 600)
	report, err := b.inspector.Select(Query{Queue: "default", State: broker.StatePending}).Limit(510).Delete(t.Context())
	if err != nil || report.Done != 510 || report.Matched != 510 || b.count(t, broker.StatePending) != 90 {
		t.Errorf("Delete of at most 510: %+v, %v, %d are left", report, err, b.count(t, broker.StatePending))
	}
}

// A listing in the order of due times finds jobs again that a reschedule moved to a later time.
func TestInspect_ARescheduleCountsEachJobOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	at := time.Now().Add(time.Hour)
	b.enqueue(t, "mail", 1200, jobs.WithRunAt(at))
	scheduled := b.inspector.Select(Query{Queue: "default", State: broker.StateScheduled})
	for _, to := range []time.Duration{2 * time.Hour, 2 * time.Hour, time.Hour} { // later, to the same time, and earlier
		report, err := scheduled.Reschedule(t.Context(), at.Add(to))
		if err != nil || report.Done != 1200 || report.Matched != 1200 || report.Newer != 0 {
			t.Errorf("1200 jobs to %v later: %+v, %v", to, report, err)
		}
	}
	report, err := scheduled.Limit(700).Reschedule(t.Context(), at.Add(3*time.Hour))
	if err != nil || report.Done != 700 || report.Matched != 700 || report.Newer != 0 {
		t.Errorf("at most 700: %+v, %v", report, err)
	}
}

func TestInspect_DecisionKeepsItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.enqueue(t, "mail", 100)
		b.die(t, 100, "no route")
		start := time.Now()
		report, err := b.inspector.Select(Query{Queue: "default", State: broker.StateDead}).PerSecond(10).Redrive(t.Context())
		if err != nil || report.Done != 100 {
			t.Errorf("Redrive: %+v, %v", report, err)
		}
		if d := time.Since(start); d < 9*time.Second || d > 10*time.Second {
			t.Errorf("100 jobs at 10 per second took %v", d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		report, err = b.inspector.Select(Query{Queue: "default", State: broker.StatePending}).PerSecond(10).Cancel(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || report.Done == 0 || report.Done > 20 {
			t.Errorf("cut off after a second: %+v, %v", report, err)
		}
	})
}

// busyStore calls a test between the steps of a decision.
type busyStore struct {
	*bench
	between func()
}

func (b *busyStore) Operate(ctx context.Context, op broker.Operation) ([]broker.OperationResult, error) {
	results, err := b.bench.Operate(ctx, op)
	b.between()
	return results, err
}

// In this test, every job that a step moves comes back at once, and new jobs arrive. A
// decision that took them would never end.
func TestInspect_DecisionTakesOnlyWhatWasThereBefore(t *testing.T) {
	const n = 700
	for name, test := range map[string]struct {
		state   broker.State
		prepare func(*testing.T, *bench)
		decide  func(Selection, context.Context) (Report, error)
		between func(*testing.T, *bench)
	}{
		"redrive of what dies again": {
			broker.StateDead,
			func(t *testing.T, b *bench) { b.enqueue(t, "mail", n); b.die(t, n, "no route") },
			Selection.Redrive,
			func(t *testing.T, b *bench) { b.die(t, b.count(t, broker.StatePending), "again") },
		},
		"delete while others enqueue": {
			broker.StateScheduled,
			func(t *testing.T, b *bench) { b.enqueue(t, "mail", n, jobs.WithDelay(time.Hour)) },
			Selection.Delete,
			func(t *testing.T, b *bench) { mustEnqueueMany(t, b.client, 500, jobs.WithDelay(2*time.Hour)) },
		},
		"reschedule by a delay": {
			broker.StateScheduled,
			func(t *testing.T, b *bench) { b.enqueue(t, "mail", n, jobs.WithDelay(time.Hour)) },
			func(s Selection, ctx context.Context) (Report, error) { return s.RescheduleIn(ctx, 2*time.Hour) },
			func(*testing.T, *bench) {},
		},
		"reschedule of pending jobs to now": {
			broker.StatePending,
			func(t *testing.T, b *bench) { b.enqueue(t, "mail", n) },
			func(s Selection, ctx context.Context) (Report, error) { return s.Reschedule(ctx, time.Time{}) },
			func(t *testing.T, _ *bench) { t.Error("the store was asked to move jobs that are due already") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				test.prepare(t, b)
				_ = sleep.For(t.Context(), time.Second)
				steps := 0
				store := &busyStore{bench: b, between: func() {
					_ = sleep.For(t.Context(), time.Second)
					if steps++; steps > 10 {
						t.Fatal("the decision does not end")
					}
					test.between(t, b)
				}}
				report, err := test.decide(New(store).Select(Query{Queue: "default", State: test.state}), t.Context())
				if err != nil || report.Done != n {
					t.Errorf("got %+v, %v; want %d done", report, err, n)
				}
			})
		})
	}
}

func mustEnqueueMany(t *testing.T, c *jobs.Client, n int, opts ...jobs.Option) {
	t.Helper()
	tasks := make([]*jobs.Task, n)
	for i := range tasks {
		tasks[i] = jobs.NewTask("new", nil)
	}
	if _, err := c.EnqueueMany(t.Context(), tasks, opts...); err != nil {
		t.Fatal(err)
	}
}

func TestInspect_JobsThatMovedOnMeanwhileAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.enqueue(t, "mail", 3)
		b.die(t, 3, "no route")
		raced := false
		store := &racingStore{bench: b, before: func() {
			if !raced {
				raced = true
				if _, err := b.inspector.Select(Query{Queue: "default", IDs: []string{"mail-0001"}}).Redrive(t.Context()); err != nil {
					t.Error(err)
				}
			}
		}}
		report, err := New(store).Select(Query{Queue: "default", State: broker.StateDead}).Delete(t.Context())
		if err != nil || report.Done != 2 || report.Refused != 1 || len(report.Refusals) != 1 || report.Refusals[0].ID != "mail-0001" {
			t.Errorf("got %+v, %v; want the job that was redriven meanwhile refused", report, err)
		}
		if n := b.count(t, broker.StatePending); n != 1 {
			t.Errorf("%d jobs are pending, want the one that was redriven", n)
		}
	})
}

// racingStore lets another operator act before a decision.
type racingStore struct {
	*bench
	before func()
}

func (b *racingStore) Operate(ctx context.Context, op broker.Operation) ([]broker.OperationResult, error) {
	b.before()
	return b.bench.Operate(ctx, op)
}

func TestInspect_NamedJobsThatCannotBeDecidedAreErrors(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.enqueue(t, "mail", 1)
	b.enqueue(t, "held", 1, jobs.WithUniqueKey("k"))
	b.die(t, 2, "no route")
	holder := mustEnqueue(t, b.client, jobs.NewTask("mail", nil), jobs.WithUniqueKey("k"))
	named := func(ids ...string) Selection { return b.inspector.Select(Query{Queue: "default", IDs: ids}) }

	if _, err := named("nobody").Delete(t.Context()); !errors.Is(err, broker.ErrNotFound) {
		t.Errorf("a job that does not exist: %v", err)
	}
	if _, err := named(holder.ID).Redrive(t.Context()); !errors.Is(err, broker.ErrWrongState) {
		t.Errorf("redrive of a pending job: %v", err)
	}
	report, err := named("mail-0000", "held-0000").Redrive(t.Context())
	if !errors.Is(err, broker.ErrDuplicate) || report.Done != 1 || report.Refusals[0].Holder != holder.ID {
		t.Errorf("redrive of a job whose unique key is held: %+v, %v", report, err)
	}
}

func TestInspect_RunningJobsAreAskedToCancelAndNotDeleted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.enqueue(t, "mail", 2)
	job := b.worker.Claim()
	active := b.inspector.Select(Query{Queue: "default", State: broker.StateActive})
	if report, err := active.Delete(t.Context()); err != nil || report.Refused != 1 ||
		!errors.Is(report.Refusals[0].Err, broker.ErrWrongState) {
		t.Errorf("Delete of a running job: %+v, %v", report, err)
	}
	if report, err := active.Cancel(t.Context()); err != nil || report.Done != 1 || report.Requested != 1 {
		t.Errorf("Cancel of a running job: %+v, %v", report, err)
	}
	if found, err := b.inspector.Job(t.Context(), "default", job.ID); err != nil || !found.CancelRequested {
		t.Errorf("the job is %+v, %v", found, err)
	}
}

func TestInspect_SuppressedJobsLeaveTheListsAndComeBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.enqueue(t, "mail", 3)
	b.die(t, 3, "no route")
	dead := Query{Queue: "default", State: broker.StateDead}
	if report, err := b.inspector.Select(dead).Limit(2).Suppress(t.Context()); err != nil || report.Done != 2 {
		t.Errorf("Suppress: %+v, %v", report, err)
	}
	if n, _ := b.inspector.Select(dead).Count(t.Context()); n != 1 {
		t.Errorf("%d dead jobs are listed, want 1", n)
	}
	if report, err := b.inspector.Select(dead).Unsuppress(t.Context()); err != nil || report.Done != 2 || report.Matched != 2 {
		t.Errorf("Unsuppress: %+v, %v", report, err)
	}
	if _, err := b.inspector.Select(dead).Limit(1).Suppress(t.Context()); err != nil {
		t.Error(err)
	}
	if report, err := b.inspector.Purge(t.Context(), "default", broker.StateDead); err != nil || report.Done != 3 ||
		b.count(t, broker.StateDead) != 0 {
		t.Errorf("Purge: %+v, %v; want suppressed jobs included", report, err)
	}
}
