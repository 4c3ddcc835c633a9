package middleware_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/internal/chaintest"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/middleware"
)

func TestRatelimit_JobsOverTheLimitComeBackOneByOneWithoutACharge(t *testing.T) {
	chaintest.InBubble(t, func(t *testing.T) {
		var mu sync.Mutex
		var began []time.Time
		refusals := 0
		count := func() int {
			mu.Lock()
			defer mu.Unlock()
			return len(began)
		}
		w := chaintest.NewWorld(t, jobs.Config{Concurrency: 10}, func(context.Context, *jobs.Job) error {
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
			ids = append(ids, w.Add("call"))
		}
		start := time.Now()
		chaintest.LetPass(time.Second / 2)
		if n := count(); n != 5 {
			t.Fatalf("%d runs began at once, want the burst of 5", n)
		}
		chaintest.LetPass(2 * time.Minute)
		if n := count(); n != 65 {
			t.Fatalf("%d runs began in two minutes, want all 65", n)
		}
		mu.Lock()
		defer mu.Unlock()
		for i, at := range began[5:] {
			if least := time.Duration(i+1) * time.Second; at.Sub(start) < least {
				t.Errorf("run %d began after %v: that is faster than one a second", i+5, at.Sub(start))
			}
		}
		if took := began[64].Sub(start); took > 61*time.Second {
			t.Errorf("the last run began after %v: the rate allows 60s", took)
		}
		if refusals != 60 {
			t.Errorf("%d refusals for 60 jobs over the limit, want one each", refusals)
		}
		for _, id := range ids {
			if j := w.Want(id, jobs.StateCompleted); j.Failures != 0 {
				t.Fatalf("%d failures were charged", j.Failures)
			}
		}
	})
}

// rated runs n jobs, of which every tenth comes in later, under a limit, and
// returns when the last began and how often jobs were refused, in all and at
// most.
func rated(t *testing.T, n int, ideal time.Duration, cfg middleware.RateLimitConfig) (took time.Duration, refusals, most int) {
	var mu sync.Mutex
	var last time.Time
	of := make(map[string]int)
	ran := 0
	cfg.OnLimited = func(_ context.Context, job *jobs.Job, _ time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		refusals++
		of[job.ID()]++
		most = max(most, of[job.ID()])
	}
	w := chaintest.NewWorld(t, jobs.Config{Concurrency: 20}, func(context.Context, *jobs.Job) error {
		time.Sleep(100 * time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		ran, last = ran+1, time.Now()
		return nil
	}, middleware.RateLimit(cfg))
	start := time.Now()
	for i := range n {
		delay := time.Duration(0)
		if i%10 == 0 {
			delay = ideal / 2 * time.Duration(i) / time.Duration(n)
		}
		w.Add("call", jobs.WithDelay(delay))
	}
	for range 1000 {
		chaintest.LetPass(time.Minute)
		mu.Lock()
		done := ran == n
		mu.Unlock()
		if done {
			break
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if ran != n {
		t.Errorf("%d of %d jobs ran", ran, n)
	}
	return last.Sub(start), refusals, most
}

func TestRateLimit_UsesItsRateAndRefusesAJobAboutOnce(t *testing.T) {
	for name, c := range map[string]struct {
		jobs    int
		cfg     middleware.RateLimitConfig
		ideal   time.Duration
		refused float64 // a job, on average
		most    int
	}{
		"a minute":    {60, middleware.RateLimitConfig{Runs: 60, Per: time.Minute}, time.Minute, 1, 1},
		"ten minutes": {600, middleware.RateLimitConfig{Runs: 60, Per: time.Minute}, 10 * time.Minute, 1, 2},
		"half of MaxDelay and up": {600, middleware.RateLimitConfig{Runs: 60, Per: time.Minute, MaxDelay: 5 * time.Minute}, 10 * time.Minute, 2,
			3},
		"many a second": {6000, middleware.RateLimitConfig{Runs: 50, Per: time.Second}, 2 * time.Minute, 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			chaintest.InBubble(t, func(t *testing.T) {
				took, refusals, most := rated(t, c.jobs, c.ideal, c.cfg)
				t.Logf("%d jobs took %v, %d refusals, at most %d of one job", c.jobs, took, refusals, most)
				if took > c.ideal*100/95 || took < c.ideal*9/10 {
					t.Errorf("%d jobs took %v, want 95 %% of the rate used, which is %v", c.jobs, took, c.ideal*100/95)
				}
				if each := float64(refusals) / float64(c.jobs); each > c.refused || most > c.most {
					t.Errorf("%.2f refusals a job, at most %d, want %v and %d", each, most, c.refused, c.most)
				}
			})
		})
	}
}

func TestRatelimit_LimitsAreKeptPerTypeAndShownToTheHook(t *testing.T) {
	t.Parallel()
	var told time.Duration
	m := middleware.RateLimit(middleware.RateLimitConfig{Runs: 1, Per: time.Hour, MaxDelay: time.Minute,
		OnLimited: func(_ context.Context, job *jobs.Job, d time.Duration) { told = d }})
	for _, typ := range []string{"a", "b"} {
		if err := chaintest.Call(m, chaintest.AJob(typ), chaintest.Returning(nil)); err != nil {
			t.Errorf("the first run of %s gets %v", typ, err)
		}
	}
	err := chaintest.Call(m, chaintest.AJob("a"), func(context.Context, *jobs.Job) error { t.Error("it ran over its limit"); return nil })
	e := jobs.EndingOf(context.Background(), chaintest.AJob("a"), err)
	if !errors.Is(err, middleware.ErrRateLimited) || e.Outcome != jobs.EndedSnoozed || e.Delay < 30*time.Second || e.Delay > time.Minute ||
		told != e.Delay {
		t.Errorf("over the limit: %v (%+v), the hook was told %v; want it put off for half of MaxDelay to all of it", err, e, told)
	}
}

func TestRatelimit_RateLimitRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	chaintest.WantRefusal(t, "RateLimitConfig.Runs: invalid: is 0; use 1 to 1000000",
		func() { middleware.RateLimit(middleware.RateLimitConfig{}) })
	chaintest.WantRefusal(t, "RateLimitConfig.Per", func() { middleware.RateLimit(middleware.RateLimitConfig{Runs: 1, Per: -1}) })
	chaintest.WantRefusal(t, "RateLimitConfig.Per: invalid: is 60ns; use 1ms to",
		func() { middleware.RateLimit(middleware.RateLimitConfig{Runs: 100, Per: 60}) })
	chaintest.WantRefusal(t, "RateLimitConfig.Burst", func() { middleware.RateLimit(middleware.RateLimitConfig{Runs: 1, Burst: -1}) })
	chaintest.WantRefusal(t, "RateLimitConfig.MaxDelay", func() { middleware.RateLimit(middleware.RateLimitConfig{Runs: 1, MaxDelay: -1}) })
}
