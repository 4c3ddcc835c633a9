package jobstest_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/jobstest"
	"github.com/seed81422ce9/jobs/schedule"
	"github.com/seed81422ce9/jobs/workflow"
)

func TestDrain_HandsBatchesOver(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T) {
		b := jobstest.New(t)
		var sizes []int
		var busy atomic.Bool
		mux := jobs.NewServeMux()
		jobs.HandleMany(mux, goodbyeMail, jobs.ManyConfig{Max: 3, Wait: 10 * time.Minute},
			func(_ context.Context, batch []*jobs.BatchJob[goodbye]) error {
				if busy.Swap(true) {
					t.Error("two batches are at work at once")
				}
				defer busy.Store(false)
				time.Sleep(time.Millisecond) // another one could begin
				sizes = append(sizes, len(batch))
				return nil
			})
		for i := range 8 {
			add(t, b, goodbyeMail, goodbye{To: fmt.Sprint(i)})
		}
		report := jobstest.Drain(t, b, mux, jobstest.NoFailures())
		if want := []int{3, 3, 2}; !slices.Equal(sizes, want) || report.Completed != 8 {
			t.Errorf("batches of %v, want %v; report %+v", sizes, want, report)
		}
	})
}

func TestDrain_RunsAWorkflowToItsEnd(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T) {
		b := jobstest.New(t)
		var ran []string
		mux := jobs.NewServeMux()
		mux.HandleFunc("*", func(ctx context.Context, job *jobs.Job) error {
			ran = append(ran, job.Type())
			if job.Type() == "charge" && job.Attempt() == 0 {
				return errFlaky
			}
			return workflow.SetResult(ctx, job.Type()+" done")
		})
		node := func(name string) workflow.Node { return workflow.Node{Name: name, Task: jobs.NewTask(name, nil)} }
		remind := node("remind")
		remind.Delay = 3 * 24 * time.Hour
		err := workflow.Start(t.Context(), b.Client(), workflow.New("order-42").Add(workflow.Chain(node("reserve"), node("charge"), node("ship"),
			remind)))
		if err != nil {
			t.Fatal(err)
		}
		extensions := []jobs.Extension{workflow.Extension(b.Client(), workflow.ExtensionConfig{})}

		report := jobstest.Drain(t, b, mux, jobstest.Config{Extensions: extensions})
		if want := []string{"reserve", "charge"}; !slices.Equal(ran, want) || report.Retried != 1 {
			t.Errorf("without time, %q ran, want %q", ran, want)
		}
		report = jobstest.Drain(t, b, mux, jobstest.Everything(), jobstest.Config{Extensions: extensions})
		if want := []string{"reserve", "charge", "charge", "ship", "remind"}; !slices.Equal(ran, want) {
			t.Errorf("%q ran, want %q", ran, want)
		}
		info, err := workflow.Get(t.Context(), b.Client(), "order-42")
		if err != nil || info.State != workflow.StateCompleted || report.Passed < 3*24*time.Hour {
			t.Errorf("the workflow is %v after %v: %v", info.State, report.Passed, err)
		}
	})
}

func TestDrain_AWorkflowNoticesWhatHappenedBetweenTwoDrains(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T) {
		b := jobstest.New(t)
		mux := jobs.NewServeMux()
		mux.HandleFunc("*", func(context.Context, *jobs.Job) error { return nil })
		cfg := jobstest.Config{Extensions: []jobs.Extension{workflow.Extension(b.Client(), workflow.ExtensionConfig{})}}
		ask := workflow.Node{Name: "ask", Task: jobs.NewTask("ask", nil), Delay: time.Hour}
		err := workflow.Start(t.Context(), b.Client(), workflow.New("w").Add(ask))
		if err != nil {
			t.Fatal(err)
		}
		jobstest.Drain(t, b, mux, cfg)
		job := jobstest.Enqueued(t, b, jobstest.Raw("ask"))
		if _, err := inspect.New(b).Select(inspect.Query{Queue: job.Queue, IDs: []string{job.ID}}).Cancel(t.Context()); err != nil {
			t.Fatal(err)
		}
		jobstest.Drain(t, b, mux, cfg)
		if info, err := workflow.Get(t.Context(), b.Client(), "w"); err != nil || info.State == workflow.StateRunning {
			t.Errorf("after its node was cancelled the workflow is %v: %v", info.State, err)
		}
	})
}

func TestDrain_RunsSchedulesWhileTimePasses(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T) {
		b := jobstest.New(t)
		var ticks []time.Time
		h := goodbyeMail.Handler(func(_ context.Context, _ goodbye, job *jobs.Job) error {
			tick, _ := schedule.TickOf(job)
			ticks = append(ticks, tick.At)
			return nil
		})
		nightly := schedule.Define("nightly", schedule.Cron("0 3 * * *", "UTC"), goodbyeMail, goodbye{To: "all"})
		cfg := jobstest.Config{Extensions: []jobs.Extension{schedule.New(b, "test").Extension(b.Client(),
			schedule.ExtensionConfig{Definitions: []schedule.Definition{nightly}})}}
		report := jobstest.Drain(t, b, h, cfg, jobstest.Everything())
		if report.Runs != 0 {
			t.Errorf("time passed for a schedule's sake: %+v", report)
		}
		began := b.Now()
		report = jobstest.Drain(t, b, h, cfg, jobstest.Ahead(30*24*time.Hour))
		if len(ticks) != 30 || report.Passed.Round(time.Minute) != 30*24*time.Hour {
			t.Fatalf("%d ticks in %v, want 30", len(ticks), report.Passed)
		}
		for i, tick := range ticks {
			if tick.Hour() != 3 || !tick.After(began) || i > 0 && tick.Sub(ticks[i-1]) != 24*time.Hour {
				t.Errorf("tick %d is %v", i, tick)
			}
		}
	})
}
