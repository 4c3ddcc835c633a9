package middleware_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/internal/chaintest"

	"github.com/seed81422ce9/jobs/middleware/observe"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/middleware"
)

func explodes(context.Context, *jobs.Job) error { panic("boom") }

func TestRecovery_APanicIsAnErrorForTheMiddlewareOutside(t *testing.T) {
	t.Parallel()
	var told *jobs.PanicError
	hook := func(_ context.Context, job *jobs.Job, p *jobs.PanicError) {
		if told = p; job.Type() != "a" {
			t.Errorf("the hook got the job %q", job.Type())
		}
	}
	err := chaintest.Call(middleware.Recovery(hook), chaintest.AJob("a"), explodes)
	var p *jobs.PanicError
	if !errors.As(err, &p) || p.Value != "boom" || !strings.Contains(p.Stack, "explodes") {
		t.Errorf("the error is %#v, want a PanicError with the value and the stack of explodes", err)
	}
	if told != p {
		t.Errorf("the hook was told %v, want %v", told, p)
	}
	if err := chaintest.Call(middleware.Recovery(nil), chaintest.AJob("a"), explodes); !errors.As(err, &p) {
		t.Errorf("without a hook the error is %v", err)
	}
}

func TestRecovery_AHookThatPanicsDoesNotHideTheHandlersPanic(t *testing.T) {
	t.Parallel()
	err := chaintest.Call(middleware.Recovery(func(context.Context, *jobs.Job, *jobs.PanicError) { panic("hook") }), chaintest.AJob("a"),
		explodes)
	var p *jobs.PanicError
	if !errors.As(err, &p) || p.Value != "boom" || !strings.Contains(err.Error(), "hook") {
		t.Errorf("the error is %v, want the handler's panic first and the hook's too", err)
	}
}

func TestRecovery_LeavesResultsAndGoexitAlone(t *testing.T) {
	t.Parallel()
	m := middleware.Recovery(chaintest.Nobody(t))
	for _, want := range []error{nil, chaintest.ErrFlaky} {
		if err := chaintest.Call(m, chaintest.AJob("a"), chaintest.Returning(want)); err != want {
			t.Errorf("returned %v, want %v", err, want)
		}
	}
	returned := make(chan bool)
	go func() {
		defer close(returned)
		_ = chaintest.Call(m, chaintest.AJob("a"), func(context.Context, *jobs.Job) error { runtime.Goexit(); return nil })
		returned <- true
	}()
	if <-returned {
		t.Error("a handler that called Goexit returned")
	}
}

// A middleware that panics is the server's to catch: its job fails, with the
// stack, and nothing else is harmed.
func TestRecovery_AMiddlewareThatPanicsFailsItsJobAlone(t *testing.T) {
	chaintest.InBubble(t, func(t *testing.T) {
		buggy := func(next jobs.Handler) jobs.Handler {
			return jobs.HandlerFunc(func(ctx context.Context, job *jobs.Job) error {
				if job.Type() == "bad" {
					buggyMiddleware()
				}
				return next.ProcessJob(ctx, job)
			})
		}
		w := chaintest.NewWorld(t, jobs.Config{Concurrency: 1}, chaintest.Returning(nil),
			observe.Logging(observe.LoggingConfig{Logger: chaintest.Quiet}), middleware.Breaker(middleware.BreakerConfig{}),
			middleware.Retry(middleware.RetryConfig{}), middleware.Timeout(middleware.TimeoutConfig{Soft: time.Minute}), buggy)
		bad, good := w.Add("bad", jobs.WithMaxRetries(0)), w.Add("good")
		chaintest.LetPass(time.Second)
		j := w.Want(bad, jobs.StateDead)
		if f := j.Errors.Last(); f.Class != jobs.ClassPanic || !strings.Contains(f.Stack, "buggyMiddleware") {
			t.Errorf("the history says class %q, stack %q; want the stack of the panic", f.Class, f.Stack)
		}
		w.Want(good, jobs.StateCompleted)
	})
}

func buggyMiddleware() { panic("a bug") }
