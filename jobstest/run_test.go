package jobstest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/jobstest"
)

type ctxKey struct{}

func TestRun_GivesTheHandlerARealJobAndContext(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T) {
		h := welcomeMail.Handler(func(ctx context.Context, w welcome, job *jobs.Job) error {
			deadline, ok := ctx.Deadline()
			switch {
			case w.To != "ada@x" || job.ID() == "" || job.Queue() != "mail" || job.Attempt() != 3 || job.Crashes() != 2 ||
				job.Delivery() != 3 || job.PartitionKey() != "acme":
				t.Errorf("the job is %+v", job.Record())
			case jobs.JobFromContext(ctx) != job:
				t.Error("JobFromContext finds another job")
			case !ok || time.Until(deadline) > time.Minute || time.Until(deadline) < 50*time.Second:
				t.Errorf("the context ends in %v, want a minute", time.Until(deadline))
			case ctx.Value(ctxKey{}) != "value":
				t.Error("the context lacks the values of the test's")
			case string(job.Checkpoint()) != "page 2":
				t.Errorf("the checkpoint is %q", job.Checkpoint())
			}
			sent, err := jobs.Step(ctx, job, "send", func(context.Context) (string, error) { return "", errors.New("done before") })
			if err != nil {
				return err
			}
			job.SetProgress(1, 2, "sent")
			job.SetResult([]byte(sent))
			return job.SetCheckpoint(ctx, []byte("page 3"))
		})
		got := jobstest.Run(t, h, welcomeMail, welcome{To: "ada@x"}, jobstest.Attempt(3), jobstest.Crashed(2),
			jobstest.Checkpoint([]byte("page 2")), jobstest.StepDone("send", "message 7"),
			jobstest.Values(context.WithValue(t.Context(), ctxKey{}, "value")),
			jobstest.With(jobs.WithTimeout(time.Minute), jobs.WithPartitionKey("acme"), jobs.WithDelay(time.Hour)))
		if got.Err != nil || got.Outcome != jobs.EndedCompleted || string(got.Job.Result) != "message 7" || got.Job.Kept.Progress.Done != 1 {
			t.Errorf("got %v, job %+v", got, got.Job)
		}
	})
}

func TestRun_SaysWhatTheServerDecides(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err     error
		opts    []jobstest.RunOption
		outcome string
		delay   time.Duration
	}{
		{nil, nil, jobs.EndedCompleted, 0},
		{errFlaky, []jobstest.RunOption{jobstest.Config{RetryPolicy: jobs.Linear(time.Minute, 0)}, jobstest.Attempt(2)}, jobs.EndedRetried,
			3 * time.Minute},
		{errFlaky, []jobstest.RunOption{jobstest.With(jobs.WithMaxRetries(2)), jobstest.Attempt(2)}, jobs.EndedDead, 0},
		{fmt.Errorf("%w: bad address", jobs.SkipRetry), nil, jobs.EndedDead, 0},
		{jobs.RetryAfter(time.Hour, errFlaky), nil, jobs.EndedRetried, time.Hour},
		{jobs.Snooze(time.Minute), nil, jobs.EndedSnoozed, time.Minute},
		{jobs.Cancel(errFlaky), nil, jobs.EndedCancelled, 0},
	} {
		got := jobstest.Run(t, goodbyeMail.Handler(func(context.Context, goodbye, *jobs.Job) error { return c.err }), goodbyeMail, goodbye{},
			c.opts...)
		if got.Err != c.err || got.Outcome != c.outcome || got.Delay != c.delay {
			t.Errorf("for %v got %v (delay %v), want %s with %v", c.err, got, got.Delay, c.outcome, c.delay)
		}
		if want := 1; c.outcome == jobs.EndedRetried && len(got.Job.Errors.Entries) != want {
			t.Errorf("for %v the stored job has %d errors, want %d", c.err, len(got.Job.Errors.Entries), want)
		}
	}
}

func TestRun_GoesThroughTheMiddlewareOfTheConfig(t *testing.T) {
	t.Parallel()
	var order []string
	note := func(name string) jobs.Middleware {
		return func(next jobs.Handler) jobs.Handler {
			return jobs.HandlerFunc(func(ctx context.Context, job *jobs.Job) error {
				order = append(order, name)
				return next.ProcessJob(ctx, job)
			})
		}
	}
	mux := jobs.NewServeMux()
	jobs.Handle(mux, goodbyeMail, nothing, note("inner"))
	jobstest.Run(t, mux, goodbyeMail, goodbye{}, jobstest.Config{Middleware: []jobs.Middleware{note("outer")}})
	if want := []string{"outer", "inner"}; !slices.Equal(order, want) {
		t.Errorf("middleware ran in the order %q, want %q", order, want)
	}
}

func TestRun_APanicFailsTheTestWithItsStack(t *testing.T) {
	t.Parallel()
	h := goodbyeMail.Handler(func(context.Context, goodbye, *jobs.Job) error { panic("nil map") })
	fake := inTest(t, func(t *fakeT) { jobstest.Run(t, h, goodbyeMail, goodbye{}) })
	if !like(fake.text(), "the handler of \"email:goodbye\" panicked: nil map\n…TestRun_APanicFailsTheTestWithItsStack…run_test.go…") {
		t.Errorf("the message should name the type and the value, and lead to the handler:\n%s", fake.text())
	}
	got := jobstest.Run(t, h, goodbyeMail, goodbye{}, jobstest.MayPanic())
	if p, ok := got.Err.(*jobs.PanicError); !ok || p.Value != "nil map" || got.Outcome != jobs.EndedRetried {
		t.Errorf("got %v, want a PanicError that is retried", got)
	}
}

func TestRun_AHandlerEndsTheTestAsInItsOwnGoroutine(t *testing.T) {
	t.Parallel()
	went := false
	fake := inTest(t, func(ft *fakeT) {
		jobstest.Run(ft, goodbyeMail.Handler(func(context.Context, goodbye, *jobs.Job) error {
			ft.Fatal("not sent")
			return nil
		}), goodbyeMail, goodbye{})
		went = true
	})
	if fake.wantText(t, "not sent"); went {
		t.Error("the test goes on after the handler ended it")
	}
}

func TestContext_IsThatOfTheJob(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T) {
		job := jobstest.NewJob(t, welcomeMail, welcome{To: "ada@x"}, jobstest.Attempt(1), jobstest.With(jobs.WithTimeout(time.Minute)))
		ctx := jobstest.Context(t, job)
		if jobs.JobFromContext(ctx) != job || job.Attempt() != 1 || job.Queue() != "mail" || job.ID() == "" {
			t.Errorf("the context has %v, the job is %+v", jobs.JobFromContext(ctx), job.Record())
		}
		if at, ok := ctx.Deadline(); !ok || time.Until(at) > time.Minute || ctx.Err() != nil {
			t.Errorf("the context ends at %v (%v)", at, ctx.Err())
		}
		bounded, release := jobs.WithBound(ctx, jobs.Bound{End: time.Now().Add(-time.Second)})
		defer release()
		if !errors.Is(context.Cause(bounded), jobs.ErrTimeout) {
			t.Errorf("a bound within it ends for %v, want %v", context.Cause(bounded), jobs.ErrTimeout)
		}
		got, err := jobs.Step(ctx, job, "send", func(context.Context) (int, error) { return 7, nil })
		if err != nil || got != 7 || len(job.Kept().Steps) != 1 {
			t.Errorf("a step gives %d, %v", got, err)
		}
	})
}
