package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/internal/chaintest"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/middleware"
)

// changes collects what OnChange is told.
type changes []string

func (c *changes) note(key string, from, to middleware.BreakerState) {
	*c = append(*c, fmt.Sprintf("%s: %s to %s", key, from, to))
}

func TestBreaker_ABreakerOpensPutsOffWithoutAChargeAndClosesAgain(t *testing.T) {
	chaintest.InBubble(t, func(t *testing.T) {
		var seen changes
		var up atomic.Bool
		runs := 0
		var delays []time.Duration
		w := chaintest.NewWorld(t, jobs.Config{Concurrency: 1, RetryPolicy: jobs.Constant(time.Hour)}, func(context.Context, *jobs.Job) error {
			if runs++; !up.Load() {
				return chaintest.ErrFlaky
			}
			return nil
		}, middleware.Breaker(middleware.BreakerConfig{Failures: 3, Pause: time.Minute, OnChange: seen.note,
			OnRefused: func(_ context.Context, _ *jobs.Job, d time.Duration) { delays = append(delays, d) }}))
		for range 3 {
			w.Add("mail")
		}
		chaintest.LetPass(time.Second)
		if runs != 3 || !slices.Equal(seen, []string{"mail: closed to open"}) {
			t.Fatalf("after %d runs the breaker has changed as %q", runs, seen)
		}
		var late []string
		for range 50 {
			late = append(late, w.Add("mail"))
		}
		chaintest.LetPass(time.Second)
		if runs != 3 || len(delays) != 50 {
			t.Fatalf("%d runs and %d refusals while it is open, want 3 and 50", runs, len(delays))
		}
		if first, last := slices.Min(delays), slices.Max(delays); first < 58*time.Second || last > 90*time.Second || last-first < 15*time.Second {
			t.Errorf("the jobs come back after %v to %v, want them spread over the half minute after the pause", first, last)
		}
		for _, id := range late {
			if j := w.Want(id, jobs.StateRetry); j.Failures != 0 || j.Snoozes != 1 {
				t.Fatalf("a refused job has %d failures and %d snoozes", j.Failures, j.Snoozes)
			}
		}
		up.Store(true)
		chaintest.LetPass(5 * time.Minute)
		for _, id := range late {
			w.Want(id, jobs.StateCompleted)
		}
		if want := []string{"mail: closed to open", "mail: open to half_open", "mail: half_open to closed"}; !slices.Equal(seen, want) {
			t.Errorf("the breaker changed as %q, want %q", seen, want)
		}
	})
}

func TestBreaker_AFailedProbeOpensTheBreakerAgainAndOthersWaitForIt(t *testing.T) {
	chaintest.InBubble(t, func(t *testing.T) {
		var seen changes
		m := middleware.Breaker(middleware.BreakerConfig{Failures: 1, Pause: time.Minute, OnChange: seen.note})
		if err := chaintest.Call(m, chaintest.AJob("a"), chaintest.Returning(chaintest.ErrFlaky)); err != chaintest.ErrFlaky {
			t.Fatal(err)
		}
		time.Sleep(time.Minute + time.Second)
		probe, gate := make(chan error), make(chan struct{})
		go func() {
			probe <- chaintest.Call(m, chaintest.AJob("a"), func(context.Context, *jobs.Job) error { <-gate; return chaintest.ErrFlaky })
		}()
		chaintest.LetPass(0)
		err := chaintest.Call(m, chaintest.AJob("a"), chaintest.Returning(nil))
		if e := jobs.EndingOf(context.Background(), chaintest.AJob("a"), err); !errors.Is(err, middleware.ErrBreakerOpen) ||
			e.Outcome != jobs.EndedSnoozed || e.Delay < 15*time.Second || e.Delay > 30*time.Second {
			t.Errorf("beside the probe: %v (%+v), want it put off for 15 to 30s", err, e)
		}
		close(gate)
		<-probe
		if want := []string{"a: closed to open", "a: open to half_open", "a: half_open to open"}; !slices.Equal(seen, want) {
			t.Errorf("the breaker changed as %q, want %q", seen, want)
		}
	})
}

func TestBreaker_EachTypeHasItsOwnBreakerUnlessKeySaysOtherwise(t *testing.T) {
	t.Parallel()
	own := middleware.Breaker(middleware.BreakerConfig{Failures: 1})
	shared := middleware.Breaker(middleware.BreakerConfig{Failures: 1, Key: func(*jobs.Job) string { return "host" }})
	for name, c := range map[string]struct {
		m      jobs.Middleware
		passes bool
	}{"own": {own, true}, "shared": {shared, false}} {
		_ = chaintest.Call(c.m, chaintest.AJob("a"), chaintest.Returning(chaintest.ErrFlaky))
		if err := chaintest.Call(c.m, chaintest.AJob("b"), chaintest.Returning(nil)); (err == nil) != c.passes {
			t.Errorf("%s: after the breaker of a opened, b gets %v", name, err)
		}
	}
}

func TestBreaker_ErrorsOfTheJobItselfDoNotCount(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"permanent": fmt.Errorf("%w: bad", jobs.SkipRetry),
		"snooze":    jobs.Snooze(time.Second),
		"cancel":    jobs.Cancel(nil),
		"unknown":   jobs.ErrUnknownType,
	} {
		m := middleware.Breaker(middleware.BreakerConfig{Failures: 2})
		_ = chaintest.Call(m, chaintest.AJob("a"), chaintest.Returning(chaintest.ErrFlaky))
		for range 5 {
			_ = chaintest.Call(m, chaintest.AJob("a"), chaintest.Returning(err))
		}
		if err := chaintest.Call(m, chaintest.AJob("a"), chaintest.Returning(chaintest.ErrFlaky)); err != chaintest.ErrFlaky {
			t.Errorf("%s: it opened the breaker: %v", name, err)
		}
		if err := chaintest.Call(m, chaintest.AJob("a"), chaintest.Returning(nil)); !errors.Is(err, middleware.ErrBreakerOpen) {
			t.Errorf("%s: it has broken the row of failures: after the second one a run gets %v", name, err)
		}
	}
}

func TestBreaker_PanicAndGoexitCountAndLeaveNoProbeBehind(t *testing.T) {
	chaintest.InBubble(t, func(t *testing.T) {
		m := middleware.Breaker(middleware.BreakerConfig{Failures: 1, Pause: time.Minute})
		for _, end := range []func(){func() { panic("boom") }, runtime.Goexit} {
			done := make(chan struct{})
			go func() {
				defer close(done)
				defer func() { _ = recover() }()
				_ = chaintest.Call(m, chaintest.AJob("a"), func(context.Context, *jobs.Job) error { end(); return nil })
			}()
			<-done
			if err := chaintest.Call(m, chaintest.AJob("a"), chaintest.Returning(nil)); !errors.Is(err, middleware.ErrBreakerOpen) {
				t.Errorf("after a handler that did not come back a run gets %v", err)
			}
			time.Sleep(time.Minute + time.Second) // the next one is the probe
		}
		if err := chaintest.Call(m, chaintest.AJob("a"), chaintest.Returning(nil)); err != nil {
			t.Errorf("after the pause a run gets %v: the probe before it is still counted", err)
		}
	})
}

func TestBreaker_AsManyProbesRunAtOnceAsAreAskedFor(t *testing.T) {
	chaintest.InBubble(t, func(t *testing.T) {
		var seen changes
		m := middleware.Breaker(middleware.BreakerConfig{Failures: 1, Pause: time.Minute, Probes: 2, OnChange: seen.note})
		_ = chaintest.Call(m, chaintest.AJob("a"), chaintest.Returning(chaintest.ErrFlaky))
		time.Sleep(time.Minute + time.Second)
		probes, gate := make(chan error, 2), make(chan struct{})
		for range 2 {
			go func() {
				probes <- chaintest.Call(m, chaintest.AJob("a"), func(context.Context, *jobs.Job) error { <-gate; return nil })
			}()
		}
		chaintest.LetPass(0)
		if err := chaintest.Call(m, chaintest.AJob("a"), chaintest.Returning(nil)); !errors.Is(err, middleware.ErrBreakerOpen) {
			t.Errorf("beside two probes a third run gets %v", err)
		}
		close(gate)
		for range 2 {
			if err := <-probes; err != nil {
				t.Errorf("a probe gets %v", err)
			}
		}
		if want := "a: half_open to closed"; len(seen) != 3 || seen[2] != want {
			t.Errorf("the breaker changed as %q, want the last to be %q", seen, want)
		}
	})
}

func TestBreaker_ACallbackThatPanicsHarmsNeitherItsRunNorTheBreaker(t *testing.T) {
	t.Parallel()
	m := middleware.Recovery(nil)
	m = jobs.Chain(m, middleware.Breaker(middleware.BreakerConfig{Failures: 1,
		OnChange: func(string, middleware.BreakerState, middleware.BreakerState) { panic("hook") }}))
	if err := chaintest.Call(m, chaintest.AJob("a"), chaintest.Returning(chaintest.ErrFlaky)); err != chaintest.ErrFlaky {
		t.Errorf("the run gets %v, want the handler's error", err)
	}
	if err := chaintest.Call(m, chaintest.AJob("a"), chaintest.Returning(nil)); !errors.Is(err, middleware.ErrBreakerOpen) {
		t.Errorf("the next run gets %v, want the breaker to be open", err)
	}
}

func TestBreaker_TypesWithoutEndShareOneBreakerInTheEnd(t *testing.T) {
	t.Parallel()
	keys := map[string]bool{}
	m := middleware.Breaker(middleware.BreakerConfig{Failures: 1,
		OnChange: func(key string, _, _ middleware.BreakerState) { keys[key] = true }})
	for i := range 1500 {
		_ = chaintest.Call(m, chaintest.AJob(fmt.Sprint("type ", i)), chaintest.Returning(chaintest.ErrFlaky))
	}
	if len(keys) != 1001 || !keys["(others)"] {
		t.Errorf("there are %d breakers, want 1000 and one for the others", len(keys))
	}
}

func TestBreaker_RefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	chaintest.WantRefusal(t, "BreakerConfig.Failures: invalid: is -1; use 1 to 1000000, or 0 for 5",
		func() { middleware.Breaker(middleware.BreakerConfig{Failures: -1}) })
	chaintest.WantRefusal(t, "BreakerConfig.Probes", func() { middleware.Breaker(middleware.BreakerConfig{Probes: -1}) })
	chaintest.WantRefusal(t, "BreakerConfig.Pause: invalid: is -1s;",
		func() { middleware.Breaker(middleware.BreakerConfig{Pause: -time.Second}) })
	chaintest.WantRefusal(t, "BreakerConfig.Pause: invalid: is 30ns; use 1ms to",
		func() { middleware.Breaker(middleware.BreakerConfig{Pause: 30}) })
}
