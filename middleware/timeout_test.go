package middleware_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/internal/chaintest"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/middleware"
)

func TestTimeout_SoftEndsTheContextAndTheErrorIsATimeout(t *testing.T) {
	chaintest.InBubble(t, func(t *testing.T) {
		var cause error
		var took time.Duration
		w := chaintest.NewWorld(t, jobs.Config{}, func(ctx context.Context, _ *jobs.Job) error {
			began := time.Now()
			<-ctx.Done()
			cause, took = context.Cause(ctx), time.Since(began)
			return ctx.Err()
		}, middleware.Timeout(middleware.TimeoutConfig{Soft: 10 * time.Second}))
		id := w.Add("slow", jobs.WithMaxRetries(0))
		chaintest.LetPass(11 * time.Second)
		if cause != jobs.ErrTimeout || took != 10*time.Second {
			t.Errorf("the context ended after %v because of %v, want %v after 10s", took, cause, jobs.ErrTimeout)
		}
		f := w.Want(id, jobs.StateDead).Errors.Last()
		if f.Class != jobs.ClassTimeout || !strings.Contains(f.Message, "10s") || !strings.Contains(f.Message, "deadline exceeded") {
			t.Errorf("the history says %+v, want class %s and the timeout in words", f, jobs.ClassTimeout)
		}
	})
}

func TestTimeout_AHandlerThatIgnoresItsContextKeepsItsSlotAndIsReportedAfterHard(t *testing.T) {
	chaintest.InBubble(t, func(t *testing.T) {
		stuck, gate := make(chan jobs.StuckEvent, 10), make(chan struct{})
		cfg := jobs.Config{Concurrency: 1, Hooks: jobs.Hooks{Stuck: func(e jobs.StuckEvent) { stuck <- e }}}
		w := chaintest.NewWorld(t, cfg, func(_ context.Context, job *jobs.Job) error {
			if job.Type() == "deaf" {
				waitsDeafly(gate)
			}
			return nil
		}, middleware.Timeout(middleware.TimeoutConfig{Soft: 10 * time.Second, Hard: 15 * time.Second}))
		deaf := w.Add("deaf")
		chaintest.LetPass(time.Second)
		next := w.Add("next")
		chaintest.LetPass(13 * time.Second)
		if len(stuck) != 0 {
			t.Fatalf("reported before Hard: %+v", <-stuck)
		}
		chaintest.LetPass(3 * time.Second)
		if len(stuck) != 1 {
			t.Fatalf("%d reports after Hard, want 1", len(stuck))
		}
		if e := <-stuck; e.Job.ID() != deaf || e.Cause != jobs.ErrTimeout || !strings.Contains(e.Stack, "waitsDeafly") {
			t.Errorf("the report is %+v, want the job's with the stack of its handler", e)
		}
		if err := w.Server.Ready(); err == nil || !strings.Contains(err.Error(), "stuck") {
			t.Errorf("with its only slot stuck the server's readiness says %v", err)
		}
		w.Want(next, jobs.StatePending) // nothing runs beside it
		w.Want(deaf, jobs.StateActive)
		close(gate)
		chaintest.LetPass(time.Second)
		w.Want(deaf, jobs.StateCompleted) // what it did is done
		w.Want(next, jobs.StateCompleted)
	})
}

func waitsDeafly(gate chan struct{}) { <-gate }

func TestTimeout_WithoutHardTheServersGraceCounts(t *testing.T) {
	chaintest.InBubble(t, func(t *testing.T) {
		stuck, gate := make(chan jobs.StuckEvent, 10), make(chan struct{})
		cfg := jobs.Config{Concurrency: 1, StuckGrace: time.Minute, Hooks: jobs.Hooks{Stuck: func(e jobs.StuckEvent) { stuck <- e }}}
		w := chaintest.NewWorld(t, cfg, func(context.Context, *jobs.Job) error { <-gate; return nil },
			middleware.Timeout(middleware.TimeoutConfig{Soft: 10 * time.Second}))
		w.Add("deaf")
		chaintest.LetPass(69 * time.Second)
		if n := len(stuck); n != 0 {
			t.Errorf("%d reports before the grace is over", n)
		}
		chaintest.LetPass(3 * time.Second)
		if n := len(stuck); n != 1 {
			t.Errorf("%d reports after it, want 1", n)
		}
		close(gate)
	})
}

func TestTimeout_TheSoonerOfTwoTimeoutsCountsAndTheOuterOneComesBack(t *testing.T) {
	chaintest.InBubble(t, func(t *testing.T) {
		stuck, gate := make(chan jobs.StuckEvent, 10), make(chan struct{})
		outer := middleware.Timeout(middleware.TimeoutConfig{Soft: 30 * time.Second, Hard: 40 * time.Second})
		inner := func(soft time.Duration) jobs.Middleware {
			return middleware.Timeout(middleware.TimeoutConfig{Soft: soft, Hard: soft + time.Second})
		}
		after := func(next jobs.Handler) jobs.Handler { // goes on when the handlers inside have returned
			return jobs.HandlerFunc(func(ctx context.Context, job *jobs.Job) error {
				err := next.ProcessJob(ctx, job)
				<-gate
				return err
			})
		}
		cfg := jobs.Config{Concurrency: 4, Hooks: jobs.Hooks{Stuck: func(e jobs.StuckEvent) { stuck <- e }}}
		byType := func(next jobs.Handler) jobs.Handler {
			sooner, later := inner(10*time.Second)(next), inner(50*time.Second)(next)
			return jobs.HandlerFunc(func(ctx context.Context, job *jobs.Job) error {
				if job.Type() == "sooner" {
					return sooner.ProcessJob(ctx, job)
				}
				return later.ProcessJob(ctx, job)
			})
		}
		w := chaintest.NewWorld(t, cfg, func(ctx context.Context, job *jobs.Job) error {
			if <-ctx.Done(); job.Type() == "later" {
				waitsDeafly(gate)
			}
			return nil
		}, outer, after, byType)
		w.Add("sooner")
		chaintest.LetPass(38 * time.Second)
		if len(stuck) != 0 {
			t.Errorf("reported although the inner handler had returned: %+v", <-stuck)
		}
		chaintest.LetPass(4 * time.Second)
		if len(stuck) != 1 {
			t.Fatalf("%d reports, want one by the outer bound", len(stuck))
		}
		if e := <-stuck; e.Overdue < 10*time.Second {
			t.Errorf("reported %v overdue, want the 10s of the outer bound at least", e.Overdue)
		}
		w.Add("later")
		chaintest.LetPass(42 * time.Second)
		if len(stuck) != 1 {
			t.Errorf("%d reports, want one more by the outer bound, which is sooner", len(stuck))
		}
		close(gate)
	})
}

func TestTimeout_TheErrorOfARunThatEndedInTimeIsTheHandlersOwn(t *testing.T) {
	t.Parallel()
	m := middleware.Timeout(middleware.TimeoutConfig{Soft: time.Hour})
	if err := chaintest.Call(m, chaintest.AJob("a"), chaintest.Returning(chaintest.ErrFlaky)); err != chaintest.ErrFlaky {
		t.Errorf("returned %v, want %v", err, chaintest.ErrFlaky)
	}
}

func TestTimeout_WhatAHandlerDecidesAfterItsTimeoutIsObeyed(t *testing.T) {
	chaintest.InBubble(t, func(t *testing.T) {
		w := chaintest.NewWorld(t, jobs.Config{}, func(ctx context.Context, _ *jobs.Job) error {
			<-ctx.Done()
			return errors.Join(jobs.SkipRetry, ctx.Err())
		}, middleware.Timeout(middleware.TimeoutConfig{Soft: time.Second}))
		id := w.Add("a")
		chaintest.LetPass(2 * time.Second)
		if f := w.Want(id, jobs.StateDead).Errors.Last(); f.Class != jobs.ClassPermanent {
			t.Errorf("recorded as %s, want %s", f.Class, jobs.ClassPermanent)
		}
	})
}

func TestTimeout_RefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	chaintest.WantRefusal(t, "TimeoutConfig.Soft: invalid: is 0s; use 1ms to",
		func() { middleware.Timeout(middleware.TimeoutConfig{}) })
	chaintest.WantRefusal(t, "TimeoutConfig.Soft: invalid: is 30ns; use 1ms to",
		func() { middleware.Timeout(middleware.TimeoutConfig{Soft: 30}) })
	chaintest.WantRefusal(t, "TimeoutConfig.Hard: invalid: is 1s; use more than Soft, which is 2s", func() {
		middleware.Timeout(middleware.TimeoutConfig{Soft: 2 * time.Second, Hard: time.Second})
	})
}
