package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/internal/chaintest"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/middleware"
)

// knows is a classifier that finds the same in every error.
func knows(f middleware.Finding) []middleware.Classifier {
	return []middleware.Classifier{nil, func(error, *jobs.Job) middleware.Finding { return f }}
}

func TestRetry_EachKindOfErrorEndsTheJobItsWay(t *testing.T) {
	chaintest.InBubble(t, func(t *testing.T) {
		for _, c := range []struct {
			name  string
			cfg   middleware.RetryConfig
			err   error
			opts  []jobs.Option
			state jobs.State
			class string
			code  string
			after [2]time.Duration // until the next run
		}{
			{name: "retryable", cfg: middleware.RetryConfig{Backoff: jobs.Constant(time.Minute),
				Classify: knows(middleware.Finding{Kind: middleware.Retryable, Code: "FLAKY"})},
				err: chaintest.ErrFlaky, state: jobs.StateRetry, class: jobs.ClassRetryable, code: "FLAKY",
				after: [2]time.Duration{time.Minute, time.Minute}},
			{name: "unknown", cfg: middleware.RetryConfig{Backoff: jobs.Constant(time.Minute)},
				err: chaintest.ErrFlaky, state: jobs.StateRetry, class: jobs.ClassRetryable, after: [2]time.Duration{time.Minute, time.Minute}},
			{name: "unknown, no backoff of the chain", err: chaintest.ErrFlaky,
				state: jobs.StateRetry, class: jobs.ClassRetryable, after: [2]time.Duration{time.Hour, time.Hour}},
			{name: "the job's own backoff", cfg: middleware.RetryConfig{Backoff: jobs.Constant(time.Minute)}, err: chaintest.ErrFlaky,
				opts:  []jobs.Option{jobs.WithBackoff(jobs.Backoff{Kind: jobs.BackoffConstant, Base: time.Second * 7})},
				state: jobs.StateRetry, class: jobs.ClassRetryable, after: [2]time.Duration{7 * time.Second, 7 * time.Second}},
			{name: "permanent", cfg: middleware.RetryConfig{Classify: knows(middleware.Finding{Kind: middleware.Permanent, Code: "BAD"})},
				err: chaintest.ErrFlaky, state: jobs.StateDead, class: jobs.ClassPermanent, code: "BAD"},
			{name: "rate limited", cfg: middleware.RetryConfig{Backoff: jobs.Constant(time.Second)},
				err:   fmt.Errorf("call: %w", &middleware.HTTPError{StatusCode: 429, RetryAfter: 100 * time.Second}),
				state: jobs.StateRetry, class: jobs.ClassRateLimited, code: "HTTP_429", after: [2]time.Duration{100 * time.Second, 110 * time.Second}},
			{name: "rate limited for less than the backoff", cfg: middleware.RetryConfig{Backoff: jobs.Constant(time.Minute)},
				err:   &middleware.HTTPError{StatusCode: 429, RetryAfter: time.Second},
				state: jobs.StateRetry, class: jobs.ClassRateLimited, code: "HTTP_429", after: [2]time.Duration{time.Minute, time.Minute}},
			{name: "rate limited for less than the server's policy",
				err:   &middleware.HTTPError{StatusCode: 503, RetryAfter: time.Second},
				state: jobs.StateRetry, class: jobs.ClassRateLimited, code: "HTTP_503", after: [2]time.Duration{time.Hour, time.Hour}},
			{name: "rate limited for longer than the server's policy",
				err:   &middleware.HTTPError{StatusCode: 503, RetryAfter: 2 * time.Hour},
				state: jobs.StateRetry, class: jobs.ClassRateLimited, code: "HTTP_503", after: [2]time.Duration{2 * time.Hour, 132 * time.Minute}},
			{name: "rate limited for less than the job's own backoff", cfg: middleware.RetryConfig{Backoff: jobs.Constant(time.Minute)},
				err:   &middleware.HTTPError{StatusCode: 429, RetryAfter: time.Second},
				opts:  []jobs.Option{jobs.WithBackoff(jobs.Backoff{Kind: jobs.BackoffConstant, Base: time.Second * 7})},
				state: jobs.StateRetry, class: jobs.ClassRateLimited, code: "HTTP_429", after: [2]time.Duration{7 * time.Second, 7 * time.Second}},
			{name: "rate limited for too long", cfg: middleware.RetryConfig{MaxRetryAfter: time.Minute, Backoff: jobs.Constant(time.Second)},
				err:   &middleware.HTTPError{StatusCode: 503, RetryAfter: 1000 * time.Hour},
				state: jobs.StateRetry, class: jobs.ClassRateLimited, code: "HTTP_503", after: [2]time.Duration{time.Minute, 66 * time.Second}},
			{name: "already done", cfg: middleware.RetryConfig{Classify: knows(middleware.Finding{Kind: middleware.AlreadyDone})},
				err: chaintest.ErrFlaky, state: jobs.StateCompleted},
			{name: "the last attempt", cfg: middleware.RetryConfig{Attempts: 1}, err: chaintest.ErrFlaky, state: jobs.StateDead,
				class: jobs.ClassRetryable},
			{name: "the handler has decided", cfg: middleware.RetryConfig{Attempts: 1,
				Classify: knows(middleware.Finding{Kind: middleware.Permanent})},
				err: jobs.RetryAfter(time.Minute, chaintest.ErrFlaky), state: jobs.StateRetry, class: jobs.ClassRetryable,
				after: [2]time.Duration{time.Minute, time.Minute}},
			{name: "snoozed", cfg: middleware.RetryConfig{Attempts: 1, Backoff: jobs.Constant(time.Second)},
				err: jobs.Snooze(time.Minute), state: jobs.StateRetry, after: [2]time.Duration{time.Minute, time.Minute}},
			{name: "panicked", cfg: middleware.RetryConfig{Backoff: jobs.Constant(time.Minute)},
				err: &jobs.PanicError{Value: "boom"}, state: jobs.StateRetry, class: jobs.ClassPanic,
				after: [2]time.Duration{time.Minute, time.Minute}},
		} {
			w := chaintest.NewWorld(t, jobs.Config{RetryPolicy: jobs.Constant(time.Hour)}, chaintest.Returning(c.err), middleware.Retry(c.cfg))
			began := time.Now()
			id := w.Add("a", c.opts...)
			chaintest.LetPass(time.Millisecond)
			j := w.Want(id, c.state)
			if f := j.Errors.Last(); f.Class != c.class || f.Code != c.code {
				t.Errorf("%s: the history says class %q, code %q; want %q, %q", c.name, f.Class, f.Code, c.class, c.code)
			}
			if c.after[1] > 0 {
				if d := j.RunAt.Sub(began); d < c.after[0] || d > c.after[1]+time.Millisecond {
					t.Errorf("%s: the next run is after %v, want %v to %v", c.name, d, c.after[0], c.after[1])
				}
			}
		}
	})
}

func TestRetry_AttemptsOfTheChainEndAJobThatCouldGoOn(t *testing.T) {
	chaintest.InBubble(t, func(t *testing.T) {
		runs := 0
		w := chaintest.NewWorld(t, jobs.Config{}, func(context.Context, *jobs.Job) error { runs++; return chaintest.ErrFlaky },
			middleware.Retry(middleware.RetryConfig{Attempts: 3, Backoff: jobs.Constant(time.Second)}))
		id := w.Add("a")
		chaintest.LetPass(time.Minute)
		if j := w.Want(id, jobs.StateDead); runs != 3 || j.Reason != broker.ReasonRetries {
			t.Errorf("dead after %d runs because of %v, want 3 and %v", runs, j.Reason, broker.ReasonRetries)
		}
	})
}

func TestRetry_AnInnerRetryGoesBeforeAnOuterOne(t *testing.T) {
	chaintest.InBubble(t, func(t *testing.T) {
		w := chaintest.NewWorld(t, jobs.Config{}, chaintest.Returning(chaintest.ErrFlaky),
			middleware.Retry(middleware.RetryConfig{Attempts: 1, Backoff: jobs.Constant(time.Hour),
				Classify: knows(middleware.Finding{Kind: middleware.Permanent})}),
			middleware.Retry(middleware.RetryConfig{Attempts: 5, Classify: knows(middleware.Finding{Kind: middleware.Retryable, Code: "INNER"})}))
		id := w.Add("a")
		chaintest.LetPass(time.Millisecond)
		if f := w.Want(id, jobs.StateRetry).Errors.Last(); f.Code != "INNER" {
			t.Errorf("the code is %q, want INNER", f.Code)
		}
	})
}

func TestRetry_ARunThatAShutdownCutOffIsNotCharged(t *testing.T) {
	chaintest.InBubble(t, func(t *testing.T) {
		w := chaintest.NewWorld(t, jobs.Config{ShutdownTimeout: -1}, func(ctx context.Context, _ *jobs.Job) error {
			<-ctx.Done()
			return ctx.Err()
		}, middleware.Retry(middleware.RetryConfig{Attempts: 1, Backoff: jobs.Constant(time.Second)}))
		id := w.Add("a")
		chaintest.LetPass(time.Second)
		if err := w.Server.Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
		if j := w.Want(id, jobs.StatePending); j.Failures != 0 {
			t.Errorf("%d failures were charged", j.Failures)
		}
	})
}

func TestRetry_ErrorsOfConnectionsAreKnown(t *testing.T) {
	t.Parallel()
	refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	for _, c := range []struct {
		err  error
		code string
	}{
		{fmt.Errorf("call: %w", context.DeadlineExceeded), "timeout"},
		{os.ErrDeadlineExceeded, "timeout"},
		{&net.DNSError{IsTimeout: true}, "timeout"},
		{fmt.Errorf("%w: slow", jobs.ErrTimeout), "timeout"},
		{fmt.Errorf("call: %w", refused), "network"},
	} {
		if f := middleware.ClassifyNetwork(c.err, chaintest.AJob("a")); f.Kind != middleware.Retryable || f.Code != c.code {
			t.Errorf("%v: found %+v, want it retryable with code %q", c.err, f, c.code)
		}
	}
	if f := middleware.ClassifyNetwork(chaintest.ErrFlaky, chaintest.AJob("a")); f != (middleware.Finding{}) {
		t.Errorf("of an error that says nothing: found %+v", f)
	}
}

func TestRetry_RefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	chaintest.WantRefusal(t, "RetryConfig.Attempts: invalid: is -1; use 1 to",
		func() { middleware.Retry(middleware.RetryConfig{Attempts: -1}) })
	chaintest.WantRefusal(t, "RetryConfig.MaxRetryAfter: invalid: is -1s; use 1ms to", func() {
		middleware.Retry(middleware.RetryConfig{MaxRetryAfter: -time.Second})
	})
}
