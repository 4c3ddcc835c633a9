package jobstest_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/jobstest"
)

func nothing[T any](context.Context, T, *jobs.Job) error { return nil }

var errFlaky = errors.New("no luck")

// everywhere runs a test both outside and inside of a testing/synctest bubble.
func everywhere(t *testing.T, f func(t *testing.T)) {
	t.Run("outside", func(t *testing.T) { t.Parallel(); f(t) })
	t.Run("bubble", func(t *testing.T) { t.Parallel(); synctest.Test(t, f) })
}

func TestDrain_RunsWhatIsDueAndWhatThatEnqueues(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T) {
		b := jobstest.New(t)
		var ran []string
		mux := jobs.NewServeMux()
		jobs.Handle(mux, welcomeMail, func(ctx context.Context, w welcome, _ *jobs.Job) error {
			ran = append(ran, "welcome "+w.To)
			add(t, b, goodbyeMail, goodbye{To: w.To}, jobs.WithQueue("new queue"))
			return nil
		})
		jobs.Handle(mux, goodbyeMail, func(_ context.Context, g goodbye, job *jobs.Job) error {
			ran = append(ran, "goodbye "+g.To)
			return nil
		})
		add(t, b, welcomeMail, welcome{To: "a"})
		add(t, b, welcomeMail, welcome{To: "b"}, jobs.WithPriority(jobs.PriorityUrgent))
		add(t, b, welcomeMail, welcome{To: "later"}, jobs.WithDelay(time.Second))
		report := jobstest.Drain(t, b, mux, jobstest.NoFailures())
		if want := []string{"welcome b", "welcome a", "goodbye b", "goodbye a"}; !slices.Equal(ran, want) {
			t.Errorf("ran %q, want %q", ran, want)
		}
		if report.Runs != 4 || report.Completed != 4 || report.Passed != 0 && report.Passed > time.Minute {
			t.Errorf("report %+v", report)
		}
		jobstest.Enqueued(t, b, welcomeMail, jobstest.InState(jobs.StateScheduled))
	})
}

func TestDrain_GoesThroughThirtyDaysOfRetriesByThePolicyOfTheServer(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T) {
		b := jobstest.New(t)
		var at []time.Duration
		began := b.Now()
		add(t, b, goodbyeMail, goodbye{}, jobs.WithMaxRetries(30))
		h := goodbyeMail.Handler(func(context.Context, goodbye, *jobs.Job) error {
			at = append(at, b.Now().Sub(began).Round(time.Hour))
			return errFlaky
		})
		real := time.Now()
		report := jobstest.Drain(t, b, h, jobstest.Everything(), jobstest.Config{RetryPolicy: jobs.Constant(24 * time.Hour)})
		t.Log("took", time.Since(real))
		if len(at) != 31 || at[30] != 30*24*time.Hour {
			t.Fatalf("it ran %d times, at %v; want 31 times, a day apart", len(at), at)
		}
		if report.Retried != 30 || report.Dead != 1 || report.Passed.Round(time.Hour) != 30*24*time.Hour {
			t.Errorf("report %+v", report)
		}
		dead := jobstest.Enqueued(t, b, goodbyeMail, jobstest.InState(jobs.StateDead))
		if dead.Failures != 31 || dead.Errors.Last().Message != errFlaky.Error() || dead.Errors.Last().Worker == "" {
			t.Errorf("the dead job is %+v", dead.Head)
		}
	})
}

func TestDrain_RunsJobsWhateverTheirLabels(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T) {
		b := jobstest.New(t)
		ran := 0
		mux := jobs.NewServeMux()
		jobs.Handle(mux, goodbyeMail, func(context.Context, goodbye, *jobs.Job) error { ran++; return nil })
		jobs.Handle(mux, welcomeMail, func(_ context.Context, w welcome, _ *jobs.Job) error {
			ran++
			add(t, b, goodbyeMail, goodbye{To: w.To}, jobs.WithLabels("eu"))
			return nil
		})
		for _, label := range []string{"a", "b", "c", "d", "e"} {
			add(t, b, welcomeMail, welcome{To: label}, jobs.WithLabels("gpu", label))
		}
		jobstest.Drain(t, b, mux, jobstest.NoFailures())
		if ran != 10 {
			t.Errorf("%d of 10 jobs with labels ran", ran)
		}
	})
}

// Outside a bubble time goes on, also between the last claim and the look for what is due next.
func TestDrain_RunsAJobThatFallsDueAfterTheLastClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := jobstest.New(t)
		add(t, b, goodbyeMail, goodbye{}, jobs.WithDelay(time.Second))
		slow := jobs.Hooks{Claim: func(jobs.ClaimEvent) { <-time.After(time.Minute) }}
		report := jobstest.Drain(t, b, goodbyeMail.Handler(func(context.Context, goodbye, *jobs.Job) error { return nil }),
			jobstest.Config{Hooks: slow}, jobstest.Everything())
		if report.Completed != 1 {
			t.Errorf("%d jobs were completed, want the one that fell due during a slow claim", report.Completed)
		}
	})
}
