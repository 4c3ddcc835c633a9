package jobstest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/internal/handworker"
	"github.com/seed81422ce9/jobs/jobstest"
	"github.com/seed81422ce9/jobs/workflow"
)

func TestDrain_AnEndlessJobEndsTheTest(t *testing.T) {
	t.Parallel()
	fake := inTest(t, func(t *fakeT) {
		b := jobstest.New(t)
		add(t, b, goodbyeMail, goodbye{})
		jobstest.Drain(t, b, goodbyeMail.Handler(func(context.Context, goodbye, *jobs.Job) error {
			add(t, b, goodbyeMail, goodbye{})
			return nil
		}), jobstest.Limit(100))
		t.Error("the test goes on")
	})
	fake.wantText(t, `
Drain began 101 runs and there is no end. `+
		`Is there a job that enqueues itself, or one that is always snoozed? If this many runs are right, use Limit.
  101 runs of "email:goodbye"`)
}

func TestDrain_ALimitAllowsThatManyRuns(t *testing.T) {
	t.Parallel()
	b := jobstest.New(t)
	for range 3 {
		add(t, b, goodbyeMail, goodbye{})
	}
	done := goodbyeMail.Handler(func(context.Context, goodbye, *jobs.Job) error { return nil })
	if report := jobstest.Drain(t, b, done, jobstest.Limit(3)); report.Completed != 3 {
		t.Errorf("report %+v, want 3 completed jobs", report)
	}
}

func TestDrain_RunsJobsInACleanup(t *testing.T) {
	t.Parallel()
	var drained jobstest.Report
	var ran jobstest.Result
	fake := inTest(t, func(t *fakeT) {
		b := jobstest.New(t)
		add(t, b, goodbyeMail, goodbye{})
		done := goodbyeMail.Handler(func(ctx context.Context, _ goodbye, _ *jobs.Job) error { return ctx.Err() })
		t.Cleanup(func() {
			drained = jobstest.Drain(t, b, done)
			ran = jobstest.Run(t, done, goodbyeMail, goodbye{})
		})
	})
	if drained.Completed != 1 || ran.Outcome != jobs.EndedCompleted || fake.text() != "" {
		t.Errorf("drained %+v, ran %v, said %q; want one completed job each", drained, ran, fake.text())
	}
}

func TestDrain_NoFailuresShowsThoseThereAre(t *testing.T) {
	t.Parallel()
	fake := inTest(t, func(t *fakeT) {
		b := jobstest.New(t)
		add(t, b, goodbyeMail, goodbye{To: "ada"})
		add(t, b, goodbyeMail, goodbye{To: "eve"})
		jobstest.Drain(t, b, goodbyeMail.Handler(func(_ context.Context, g goodbye, _ *jobs.Job) error {
			if g.To == "eve" {
				panic("nil map")
			}
			return errFlaky
		}), jobstest.NoFailures())
	})
	if !like(fake.text(), "2 runs failed, want none:\n  email:goodbye … (attempt 0) retried: no luck\n"+
		"  email:goodbye … (attempt 0) retried: panic: nil map\n    goroutine…edges_test.go…") {
		t.Errorf("the message is\n%s", fake.text())
	}
}

func TestDrain_AHandlerEndsTheTest(t *testing.T) {
	t.Parallel()
	fake := inTest(t, func(t *fakeT) {
		b := jobstest.New(t)
		add(t, b, goodbyeMail, goodbye{})
		jobstest.Drain(t, b, goodbyeMail.Handler(func(context.Context, goodbye, *jobs.Job) error {
			t.Fatal("wrong mail")
			return nil
		}))
		t.Error("the test goes on")
	})
	fake.wantText(t, "wrong mail")
}

func TestDrain_WhatAHandlerKeepsIsStoredWhileItRuns(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T) {
		b := jobstest.New(t)
		add(t, b, goodbyeMail, goodbye{})
		jobstest.Drain(t, b, goodbyeMail.Handler(func(ctx context.Context, _ goodbye, job *jobs.Job) error {
			if err := job.SetCheckpoint(ctx, []byte("page 2")); err != nil {
				return err
			}
			stored := jobstest.Enqueued(t, b, goodbyeMail, jobstest.InState(jobs.StateActive))
			if stored.Kept == nil || string(stored.Kept.Checkpoint) != "page 2" || stored.Worker == "" {
				t.Errorf("while it runs, the stored job is %+v", stored.Job)
			}
			return nil
		}), jobstest.NoFailures())
	})
}

func TestDrain_LeavesWhatAServerWouldNotRun(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T) {
		b := jobstest.New(t)
		paused := true
		if _, err := b.Policy(t.Context(), broker.PolicyRequest{Queue: "paused", Paused: &paused}); err != nil {
			t.Fatal(err)
		}
		for _, queue := range []string{"paused", "other", "mine"} {
			add(t, b, goodbyeMail, goodbye{To: queue}, jobs.WithQueue(queue))
			delay := time.Hour
			if queue != "mine" {
				delay = 48 * time.Hour
			}
			add(t, b, goodbyeMail, goodbye{To: queue}, jobs.WithQueue(queue), jobs.WithDelay(delay))
		}
		report := jobstest.Drain(t, b, goodbyeMail.Handler(nothing[goodbye]), jobstest.Everything(),
			jobstest.Config{Queues: map[string]int{"mine": 1, "paused": 1}})
		if report.Runs != 2 || report.Passed > 2*time.Hour ||
			len(jobstest.AllEnqueued(t, b, goodbyeMail, jobstest.InState(jobs.StatePending, jobs.StateScheduled))) != 4 {
			t.Errorf("report %+v", report)
		}
	})
}

func TestDrain_LetsTimePassForWhatARateKeepsBack(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T) {
		b := jobstest.New(t)
		rate := broker.Rate{Jobs: 1, Per: time.Hour}
		if _, err := b.Policy(t.Context(), broker.PolicyRequest{Queue: "default", Rate: &rate}); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			add(t, b, goodbyeMail, goodbye{})
		}
		h := goodbyeMail.Handler(nothing[goodbye])
		if report := jobstest.Drain(t, b, h); report.Runs != 1 {
			t.Errorf("without time, report %+v", report)
		}
		if report := jobstest.Drain(t, b, h, jobstest.Everything()); report.Completed != 4 || report.Passed.Round(time.Minute) != 4*time.Hour {
			t.Errorf("report %+v", report)
		}
	})
}

func TestDrain_RunsJobsThatRequireLabels(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T) {
		b := jobstest.New(t)
		add(t, b, goodbyeMail, goodbye{}, jobs.WithLabels("gpu"), jobs.WithDelay(time.Hour))
		add(t, b, goodbyeMail, goodbye{}, jobs.WithLabels("ssd"))
		h := goodbyeMail.Handler(nothing[goodbye])
		cfg := jobstest.Config{Queues: map[string]int{"default": 1}, Labels: []string{"gpu"}}
		if report := jobstest.Drain(t, b, h, cfg, jobstest.Everything()); report.Completed != 1 {
			t.Errorf("a server with gpu alone runs %+v", report)
		}
		if report := jobstest.Drain(t, b, h); report.Completed != 1 {
			t.Errorf("one of all queues then runs %+v", report)
		}
	})
}

func TestDrain_AnUnknownTypeIsPutOffAndDeadAfterADay(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T) {
		b := jobstest.New(t)
		add(t, b, goodbyeMail, goodbye{})
		mux := jobs.NewServeMux()
		if report := jobstest.Drain(t, b, mux); report.Snoozed != 1 {
			t.Errorf("report %+v, want it put off", report)
		}
		jobstest.Drain(t, b, mux, jobstest.Everything())
		if dead := jobstest.Enqueued(t, b, goodbyeMail, jobstest.InState(jobs.StateDead)); dead.Reason != broker.ReasonUnknownType {
			t.Errorf("it is dead for %v", dead.Reason)
		}
	})
}

func TestDrain_TakesOverTheJobsOfAServerThatDied(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T) {
		b := jobstest.New(t)
		add(t, b, goodbyeMail, goodbye{})
		w := handworker.New(t, b, "died", "default")
		w.Claim()
		h := goodbyeMail.Handler(func(_ context.Context, _ goodbye, job *jobs.Job) error {
			if job.Crashes() != 1 || job.LastError() == "" {
				t.Errorf("the job counts %d crashes, its last error is %q", job.Crashes(), job.LastError())
			}
			return nil
		})
		if report := jobstest.Drain(t, b, h); report.Runs != 0 {
			t.Errorf("while the lease lasts, report %+v", report)
		}
		report := jobstest.Drain(t, b, h, jobstest.Everything(), jobstest.NoFailures())
		if report.Completed != 1 || report.Runs != 1 || report.Passed > 2*time.Hour {
			t.Errorf("report %+v, want it run once, after the lease", report)
		}
	})
}

func TestDrain_AJobToBeCarefulWithDoesNotWaitForABatch(t *testing.T) {
	t.Parallel()
	b := jobstest.New(t)
	var ran []string
	mux := jobs.NewServeMux()
	jobs.HandleMany(mux, goodbyeMail, jobs.ManyConfig{Max: 3, Wait: 10 * time.Minute},
		func(_ context.Context, batch []*jobs.BatchJob[goodbye]) error {
			ran = append(ran, "batch")
			return nil
		})
	jobs.Handle(mux, welcomeMail, func(context.Context, welcome, *jobs.Job) error {
		ran = append(ran, "suspect")
		return nil
	})
	add(t, b, goodbyeMail, goodbye{}, jobs.WithQueue("a"), jobs.WithPriority(jobs.PriorityUrgent))
	suspect := broker.NewJob{Queue: "a", ID: "suspect", Body: broker.Body{Type: "email:welcome", Payload: []byte("{}"), Priority: 2},
		Restore: &broker.Restored{State: broker.StatePending, Head: broker.Head{Crashes: 2}}}
	if _, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{suspect}}); err != nil {
		t.Fatal(err)
	}
	jobstest.Drain(t, b, mux, jobstest.NoFailures(), jobstest.Config{TypeConcurrency: map[string]int{"email:*": 3}})
	if want := []string{"batch", "suspect"}; !slices.Equal(ran, want) {
		t.Errorf("ran %q, want %q", ran, want)
	}
}

func TestDrain_BatchesMakeRoomForJobsThatWaitForTheirType(t *testing.T) {
	t.Parallel()
	b := jobstest.New(t)
	mux := jobs.NewServeMux()
	jobs.HandleMany(mux, goodbyeMail, jobs.ManyConfig{Max: 2, Wait: 10 * time.Minute, ByKey: true},
		func(context.Context, []*jobs.BatchJob[goodbye]) error { return nil })
	for i := range 20 {
		add(t, b, goodbyeMail, goodbye{}, jobs.WithPartitionKey(fmt.Sprint(i)))
	}
	report := jobstest.Drain(t, b, mux, jobstest.NoFailures(),
		jobstest.Config{Concurrency: 5, TypeConcurrency: map[string]int{"email:goodbye": 2}})
	if report.Completed != 20 {
		t.Errorf("report %+v", report)
	}
}

func TestDrain_InABubbleTimeNowGoesAlong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := jobstest.New(t)
		began := time.Now()
		add(t, b, goodbyeMail, goodbye{}, jobs.WithDelay(30*24*time.Hour))
		jobstest.Drain(t, b, goodbyeMail.Handler(func(context.Context, goodbye, *jobs.Job) error {
			if passed := time.Since(began); passed != 30*24*time.Hour {
				t.Errorf("by time.Now %v passed, want 30 days", passed)
			}
			return nil
		}), jobstest.Everything())
		if passed := b.Now().Sub(began); passed != 30*24*time.Hour {
			t.Errorf("by the store %v passed, want 30 days", passed)
		}
	})
}

func TestDrain_DoesNotWaitForASignalForEver(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T) {
		b := jobstest.New(t)
		mux := jobs.NewServeMux()
		var ran []string
		mux.HandleFunc("*", func(_ context.Context, job *jobs.Job) error {
			ran = append(ran, job.Type())
			return nil
		})
		cfg := jobstest.Config{Extensions: []jobs.Extension{workflow.Extension(b.Client(), workflow.ExtensionConfig{})}}
		wf := workflow.New("offer").Add(workflow.Chain(workflow.Node{Name: "send", Task: jobs.NewTask("send", nil)},
			workflow.Node{Name: "accepted", Signal: "accepted"},
			workflow.Node{Name: "book", Task: jobs.NewTask("book", nil)}))
		wf.Deadline = time.Now().Add(7 * 24 * time.Hour)
		if err := workflow.Start(t.Context(), b.Client(), wf); err != nil {
			t.Fatal(err)
		}
		if report := jobstest.Drain(t, b, mux, cfg, jobstest.Everything()); report.Passed > 25*time.Hour || !slices.Equal(ran, []string{"send"}) {
			t.Errorf("%q ran in %v; want send, in a day at most", ran, report.Passed)
		}
		if err := workflow.Signal(t.Context(), b.Client(), "offer", "accepted", nil); err != nil {
			t.Fatal(err)
		}
		jobstest.Drain(t, b, mux, cfg)
		if want := []string{"send", "book"}; !slices.Equal(ran, want) {
			t.Errorf("after the signal %q ran, want %q", ran, want)
		}
	})
}

func TestBroker_IsClosedWithTheTest(t *testing.T) {
	t.Parallel()
	var b *jobstest.Broker
	var client *jobs.Client
	inTest(t, func(t *fakeT) {
		b = jobstest.New(t)
		client = b.Client()
	})
	if _, err := client.Enqueue(t.Context(), jobs.NewTask("x", nil)); !errors.Is(err, jobs.ErrClosed) {
		t.Errorf("after the test its client answers %v, want ErrClosed", err)
	}
	if _, err := b.Ping(t.Context()); !errors.Is(err, jobs.ErrClosed) {
		t.Errorf("after the test its broker answers %v, want ErrClosed", err)
	}
}

func BenchmarkDrain_ThirtyDaysOfRetries(b *testing.B) {
	cfg := jobstest.Config{RetryPolicy: jobs.Constant(12 * time.Hour)}
	for range b.N {
		store := jobstest.New(b)
		add(b, store, goodbyeMail, goodbye{}, jobs.WithMaxRetries(60))
		report := jobstest.Drain(b, store, goodbyeMail.Handler(func(context.Context, goodbye, *jobs.Job) error { return errFlaky }), cfg,
			jobstest.Everything())
		if report.Runs != 61 || report.Passed < 30*24*time.Hour {
			b.Fatalf("report %+v", report)
		}
	}
}

func TestDrain_AJobThatIsCancelledWhileItRunsHearsOfIt(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T) {
		b := jobstest.New(t)
		add(t, b, goodbyeMail, goodbye{})
		waiting := add(t, b, goodbyeMail, goodbye{To: "waits"}, jobs.WithDelay(time.Hour))
		cancel := func(ctx context.Context, queue, id string) error {
			_, err := inspect.New(b).Select(inspect.Query{Queue: queue, IDs: []string{id}}).Cancel(ctx)
			return err
		}
		report := jobstest.Drain(t, b, goodbyeMail.Handler(func(ctx context.Context, _ goodbye, job *jobs.Job) error {
			if err := cancel(ctx, job.Queue(), job.ID()); err != nil {
				return err
			}
			<-ctx.Done()
			return context.Cause(ctx)
		}))
		if report.Cancelled != 1 || report.Runs != 1 {
			t.Errorf("report %+v", report)
		}
		if err := cancel(t.Context(), waiting.Queue, waiting.ID); err != nil {
			t.Error(err)
		}
		jobstest.Enqueued(t, b, goodbyeMail, jobstest.InState(jobs.StateCancelled), jobstest.Args(goodbye{To: "waits"}))
	})
}

func TestDrain_TellsOfQueuesThatItDoesNotServe(t *testing.T) {
	t.Parallel()
	fake := inTest(t, func(t *fakeT) {
		b := jobstest.New(t)
		add(t, b, goodbyeMail, goodbye{}, jobs.WithQueue("mail"))
		jobstest.Drain(t, b, goodbyeMail.Handler(nothing[goodbye]), jobstest.Config{Queues: map[string]int{"default": 1}})
	})
	if want := `Drain: queue "mail" has 1 pending job, and is not among the Queues of Config`; !slices.Contains(fake.logs, want) {
		t.Errorf("the log is %q, want %q", fake.logs, want)
	}
}

func TestDrain_RefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]func(b *jobstest.Broker, t *fakeT){
		"Limit is 0; use 1 or more": func(b *jobstest.Broker, t *fakeT) { jobstest.Drain(t, b, jobs.NewServeMux(), jobstest.Limit(0)) },
		"Ahead is -1s; use zero or more": func(b *jobstest.Broker, t *fakeT) {
			jobstest.Drain(t, b, jobs.NewServeMux(), jobstest.Ahead(-time.Second))
		},
		"d is -1s; use zero or more, time": func(b *jobstest.Broker, _ *fakeT) { b.Advance(-time.Second) },
	} {
		fake := inTest(t, func(t *fakeT) { f(jobstest.New(t), t) })
		if !strings.Contains(fake.text(), want) {
			t.Errorf("the message is %q, want %q", fake.text(), want)
		}
	}
}
