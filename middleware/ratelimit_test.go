package middleware_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/middleware"
)

func TestJobsOverTheLimitComeBackOneByOneWithoutACharge(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var mu sync.Mutex
		var began []time.Time
		refusals := 0
		count := func() int {
			mu.Lock()
			defer mu.Unlock()
			return len(began)
		}
		w := newWorld(t, jobs.Config{Concurrency: 10}, func(context.Context, *jobs.Job) error {
			mu.Lock()
			defer mu.Unlock()
			began = append(began, time.Now())
			return nil
		}, middleware.RateLimit(middleware.RateLimitConfig{Runs: 60, Per: time.Minute, Burst: 5,
			OnLimited: func(context.Context, *jobs.Job, time.Duration) {
				mu.Lock()
				defer mu.Unlock()
				refusals++
			}}))
		var ids []string
		for range 65 {
			ids = append(ids, w.add("call"))
		}
		start := time.Now()
		letPass(time.Second / 2)
		if n := count(); n != 5 {
			t.Fatalf("%d runs began at once, want the burst of 5", n)
		}
		letPass(2 * time.Minute)
		if n := count(); n != 65 {
			t.Fatalf("%d runs began in two minutes, want all 65", n)
		}
		mu.Lock()
		defer mu.Unlock()
		for i, at := range began[5:] {
			if least := time.Duration(i+1) * time.Second; at.Sub(start) < least-time.Second {
				t.Errorf("run %d began after %v: that is faster than one a second", i+5, at.Sub(start))
			}
		}
		if took := began[64].Sub(start); took > 80*time.Second {
			t.Errorf("the last run began after %v: the rate allows 60s", took)
		}
		if refusals > 130 {
			t.Errorf("%d refusals for 60 jobs over the limit: they come back too soon", refusals)
		}
		for _, id := range ids {
			if j := w.want(id, jobs.StateCompleted); j.Failures != 0 {
				t.Fatalf("%d failures were charged", j.Failures)
			}
		}
	})
}

func TestLimitsAreKeptPerTypeAndShownToTheHook(t *testing.T) {
	t.Parallel()
	var told time.Duration
	m := middleware.RateLimit(middleware.RateLimitConfig{Runs: 1, Per: time.Hour, MaxDelay: time.Minute,
		OnLimited: func(_ context.Context, job *jobs.Job, d time.Duration) { told = d }})
	for _, typ := range []string{"a", "b"} {
		if err := call(m, aJob(typ), returning(nil)); err != nil {
			t.Errorf("the first run of %s gets %v", typ, err)
		}
	}
	err := call(m, aJob("a"), func(context.Context, *jobs.Job) error { t.Error("it ran over its limit"); return nil })
	e := jobs.EndingOf(context.Background(), aJob("a"), err)
	if !errors.Is(err, middleware.ErrRateLimited) || e.Outcome != jobs.EndedSnoozed || e.Delay < 30*time.Second || e.Delay > time.Minute || told != e.Delay {
		t.Errorf("over the limit: %v (%+v), the hook was told %v; want it put off for half of MaxDelay to all of it", err, e, told)
	}
}

func TestRateLimitRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	wantRefusal(t, "RateLimitConfig.Runs: invalid: is 0; use 1 to 1000000", func() { middleware.RateLimit(middleware.RateLimitConfig{}) })
	wantRefusal(t, "RateLimitConfig.Per", func() { middleware.RateLimit(middleware.RateLimitConfig{Runs: 1, Per: -1}) })
	wantRefusal(t, "RateLimitConfig.Burst", func() { middleware.RateLimit(middleware.RateLimitConfig{Runs: 1, Burst: -1}) })
	wantRefusal(t, "RateLimitConfig.MaxDelay", func() { middleware.RateLimit(middleware.RateLimitConfig{Runs: 1, MaxDelay: -1}) })
}
