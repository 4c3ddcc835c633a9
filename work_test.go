package jobs

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

func TestServer_WhatAHandlerReturnsDecidesWhatBecomesOfTheJob(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, c := range []struct {
		name    string
		handler HandlerFunc
		state   State
		reason  broker.DeadReason
		class   string // of the last error; empty: none is kept
		charged int
		due     time.Duration
	}{
		{"nil completes", func(context.Context, *Job) error { return nil }, StateCompleted, 0, "", 0, 0},
		{"an error retries", func(context.Context, *Job) error { return broken }, StateRetry, 0, ClassRetryable, 1, time.Minute},
		{"SkipRetry is dead", func(context.Context, *Job) error { return fmt.Errorf("%w: %w", SkipRetry, broken) },
			StateDead, broker.ReasonSkipRetry, ClassPermanent, 1, 0},
		{"RetryAfter retries then", func(context.Context, *Job) error { return RetryAfter(5*time.Second, broken) },
			StateRetry, 0, ClassRetryable, 1, 5 * time.Second},
		{"a wrapped RetryAfter too", func(context.Context, *Job) error { return fmt.Errorf("no: %w", RetryAfter(5*time.Second, broken)) },
			StateRetry, 0, ClassRetryable, 1, 5 * time.Second},
		{"Snooze charges nothing", func(context.Context, *Job) error { return Snooze(7 * time.Second) }, StateRetry, 0, "", 0, 7 * time.Second},
		{"an absurd Snooze is cut", func(context.Context, *Job) error { return Snooze(1 << 62) }, StateRetry, 0, "", 0, broker.MaxDelay},
		{"Cancel ends it", func(context.Context, *Job) error { return Cancel(broken) }, StateCancelled, 0, ClassCancelled, 0, 0},
		{"Cancel without an error too", func(context.Context, *Job) error { return Cancel(nil) }, StateCancelled, 0, ClassCancelled, 0, 0},
		{"a panic is a failure", func(context.Context, *Job) error { panic("broken") }, StateRetry, 0, ClassPanic, 1, time.Minute},
		{"Goexit is a failure", func(context.Context, *Job) error { runtime.Goexit(); return nil }, StateRetry, 0, ClassRetryable, 1,
			time.Minute},
		{"a result that is too large is dead: a retry would repeat the work", func(_ context.Context, j *Job) error {
			j.SetResult(make([]byte, broker.MaxResult+1))
			return nil
		}, StateDead, broker.ReasonSkipRetry, ClassPermanent, 1, 0},
		{"so is one that CompleteTx refuses", func(_ context.Context, j *Job) error {
			j.SetResult(make([]byte, broker.MaxResult+1))
			return fmt.Errorf("complete in a transaction: %w", ErrTooLarge)
		}, StateDead, broker.ReasonSkipRetry, ClassPermanent, 1, 0},
		{"another error is retried, whatever the result", func(_ context.Context, j *Job) error {
			j.SetResult(make([]byte, broker.MaxResult+1))
			return broken
		}, StateRetry, 0, ClassRetryable, 1, time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newStore()
				add(t, b, DefaultQueue, "a", 1)
				serve(t, b, Config{RetryPolicy: Constant(time.Minute), Program: "test 1"}, c.handler)
				synctest.Wait()
				j := expect(t, b, DefaultQueue, "a-0", c.state)
				last := j.Errors.Last()
				if j.Reason != c.reason || j.Failures != c.charged || last.Class != c.class {
					t.Errorf("reason %q, %d failures, class %q; want %q, %d, %q", j.Reason, j.Failures, last.Class, c.reason, c.charged, c.class)
				}
				if c.due > 0 {
					if wait := time.Until(j.RunAt); wait != c.due {
						t.Errorf("due in %v, want %v", wait, c.due)
					}
				}
				if c.class != "" && (last.Worker == "" || last.Version != "test 1" || !last.At.Equal(time.Now()) || last.Attempt != 0 ||
					last.Message == "") {
					t.Errorf("the failure lacks something: %+v", last)
				}
			})
		})
	}
}

func TestServer_AHandlerThatFailsRunsAgainAfterThePolicysDelayUntilItSucceeds(t *testing.T) {
	t.Parallel()
	perType := map[string]RetryFunc{"typed": Linear(10*time.Second, time.Hour)}
	for _, c := range []struct {
		name, typ string
		backoff   broker.Backoff
		want      []time.Duration
	}{
		{"the server's policy", "a", broker.Backoff{}, []time.Duration{3 * time.Second, 3 * time.Second, 3 * time.Second}},
		{"that of the type", "typed", broker.Backoff{}, []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second}},
		{"that of the job", "typed", broker.Backoff{Kind: broker.BackoffLinear, Base: time.Second, Max: 2 * time.Second},
			[]time.Duration{time.Second, 2 * time.Second, 2 * time.Second}},
		{"a constant one of the job", "typed", broker.Backoff{Kind: broker.BackoffConstant, Base: 4 * time.Second},
			[]time.Duration{4 * time.Second, 4 * time.Second, 4 * time.Second}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newStore()
				var runs []time.Time
				var attempts []int
				serve(t, b, Config{RetryPolicy: Constant(3 * time.Second), RetryPolicies: perType}, func(_ context.Context, j *Job) error {
					runs, attempts = append(runs, time.Now()), append(attempts, j.Attempt())
					if len(runs) < 4 {
						return errors.New("not yet")
					}
					return nil
				})
				add(t, b, DefaultQueue, c.typ, 1, func(j *broker.NewJob) { j.Body.Backoff = c.backoff })
				pass(time.Hour)
				expect(t, b, DefaultQueue, c.typ+"-0", StateCompleted)
				var delays []time.Duration
				for i := 1; i < len(runs); i++ {
					delays = append(delays, runs[i].Sub(runs[i-1]))
				}
				if !slices.Equal(delays, c.want) || !slices.Equal(attempts, []int{0, 1, 2, 3}) {
					t.Errorf("delays %v, attempts %v; want %v, 0 to 3", delays, attempts, c.want)
				}
			})
		})
	}
}

func TestServer_AJobRunsMaxRetriesAndOnceMoreThenItIsDead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		runs := map[string]int{}
		serve(t, b, Config{Concurrency: 1, RetryPolicy: Constant(0)}, func(_ context.Context, j *Job) error {
			runs[j.ID()]++
			return RetryAfter(time.Second, errors.New("no"))
		})
		add(t, b, DefaultQueue, "once", 1, func(j *broker.NewJob) { j.Body.MaxRetries = 0 })
		add(t, b, DefaultQueue, "thrice", 1, func(j *broker.NewJob) { j.Body.MaxRetries = 2 })
		pass(time.Minute)
		for id, want := range map[string]int{"once-0": 1, "thrice-0": 3} {
			j := expect(t, b, DefaultQueue, id, StateDead)
			if runs[id] != want || j.Reason != broker.ReasonRetries || j.Failures != want || len(j.Errors.Entries) != want {
				t.Errorf("%s ran %d times, reason %q, %d failures, %d errors; want %d", id, runs[id], j.Reason, j.Failures, len(j.Errors.Entries), want)
			}
		}
	})
}

func TestServer_APanicIsKeptWithItsStack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		add(t, b, DefaultQueue, "a", 1)
		serve(t, b, Config{}, func(context.Context, *Job) error { return panicsHere() })
		synctest.Wait()
		f := stored(t, b, DefaultQueue, "a-0").Errors.Last()
		if f.Message != "panic: all is lost" || !strings.Contains(f.Stack, "panicsHere") {
			t.Errorf("message %q, stack:\n%s", f.Message, f.Stack)
		}
	})
}

func panicsHere() error { panic("all is lost") }

func TestServer_AServerSurvivesHandlersThatEndTheirGoroutine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		add(t, b, DefaultQueue, "a", 20)
		runs := 0
		serve(t, b, Config{Concurrency: 1}, func(_ context.Context, j *Job) error {
			if runs++; runs%2 == 0 {
				runtime.Goexit()
			}
			return nil
		})
		synctest.Wait()
		if done, failed := count(t, b, DefaultQueue, StateCompleted), count(t, b, DefaultQueue, StateRetry); done != 10 || failed != 10 {
			t.Errorf("%d completed, %d failed; want 10 and 10", done, failed)
		}
	})
}

func TestServer_ClassifySaysWhatAnErrorMeans(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		limited := errors.New("429")
		cfg := Config{Classify: func(err error, j *Job) Classification {
			switch j.Type() {
			case "limited":
				return Classification{Code: "429", Class: "rate_limited", As: RetryAfter(time.Hour, err)}
			case "hopeless":
				return Classification{Code: "400", As: SkipRetry}
			case "panics":
				panic("the classifier")
			}
			return Classification{Code: "x" + strings.Repeat("€", 100)}
		}}
		for _, typ := range []string{"limited", "hopeless", "panics", "other"} {
			add(t, b, DefaultQueue, typ, 1)
		}
		serve(t, b, cfg, func(context.Context, *Job) error { return limited })
		synctest.Wait()
		j := expect(t, b, DefaultQueue, "limited-0", StateRetry)
		if f := j.Errors.Last(); f.Code != "429" || f.Class != "rate_limited" || f.Message != "429" || time.Until(j.RunAt) != time.Hour {
			t.Errorf("limited: %+v, due in %v", f, time.Until(j.RunAt))
		}
		if f := expect(t, b, DefaultQueue, "hopeless-0", StateDead).Errors.Last(); f.Code != "400" || f.Class != ClassRetryable {
			t.Errorf("hopeless: %+v", f)
		}
		if j := expect(t, b, DefaultQueue, "panics-0", StateRetry); j.Failures != 1 {
			t.Errorf("a panic of the classifier left %d failures, want 1", j.Failures)
		}
		if f := expect(t, b, DefaultQueue, "other-0", StateRetry).Errors.Last(); f.Code != "x"+strings.Repeat("€", 84) {
			t.Errorf("a long code was kept as %q, want as many characters as fit in %d bytes", f.Code, broker.MaxNameLen)
		}
	})
}

func TestServer_AJobOfAnUnknownTypeIsPutOffWithGrowingDelaysThenDead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		var tries []time.Time
		serve(t, b, Config{UnknownTypeLimit: time.Hour}, func(context.Context, *Job) error {
			tries = append(tries, time.Now())
			return ErrUnknownType
		})
		add(t, b, DefaultQueue, "a", 1)
		pass(2 * time.Hour)
		j := expect(t, b, DefaultQueue, "a-0", StateDead)
		if j.Reason != broker.ReasonUnknownType || j.Failures != 0 || len(j.Errors.Entries) != 2 {
			t.Errorf("reason %q, %d failures, %d errors; want unknown_type, none, the first and the last", j.Reason, j.Failures,
				len(j.Errors.Entries))
		}
		last := time.Duration(0)
		for i := 1; i < len(tries); i++ {
			d := tries[i].Sub(tries[i-1])
			if d < last*8/10 || d > putOffMax {
				t.Errorf("delay %d is %v after %v", i, d, last)
			}
			last = d
		}
		if n := len(tries); n < 10 || n > 40 {
			t.Errorf("tried %d times in an hour", n)
		}
	})
}

// A job that was put off during a deploy, and then ran for days, has its whole time again at the next deploy.
func TestServer_TheLimitOfAnUnknownTypeBeginsAnewWhenAServerKnewTheType(t *testing.T) {
	for name, c := range map[string]struct {
		known   error // what the handler returns meanwhile
		entries int   // of the history at the end
		cfg     Config
	}{
		"it polled": {Snooze(15 * time.Minute), 3, Config{}},
		"it failed with that class": {errors.New("failed"), 2 + 60,
			Config{Classify: func(error, *Job) Classification { return Classification{Class: "any"} }}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newStore()
				var known atomic.Bool
				cfg := c.cfg
				cfg.ErrorHistory, cfg.RetryPolicy, cfg.UnknownTypeLimit = 1000, Constant(15*time.Minute), 6*time.Hour
				cfg.Lease, cfg.PollInterval = 5*time.Minute, time.Minute // fewer calls in all these hours
				serve(t, b, cfg, func(context.Context, *Job) error {
					if known.Load() {
						return c.known
					}
					return fmt.Errorf("%w: it is new", ErrUnknownType)
				})
				add(t, b, DefaultQueue, "a", 1, func(j *broker.NewJob) { j.Body.MaxRetries = 1000 })
				pass(10 * time.Minute)
				known.Store(true)
				pass(15 * time.Hour)
				known.Store(false)
				pass(5 * time.Hour)
				j := expect(t, b, DefaultQueue, "a-0", StateRetry)
				if j.Errors.Last().Message != "no handler is registered for the job's type: it is new" {
					t.Errorf("the second time left no entry; the last is %+v", j.Errors.Last())
				}
				pass(2 * time.Hour)
				if j := expect(t, b, DefaultQueue, "a-0", StateDead); j.Reason != broker.ReasonUnknownType || len(j.Errors.Entries) < c.entries {
					t.Errorf("reason %q, %d errors; want unknown_type, at least %d", j.Reason, len(j.Errors.Entries), c.entries)
				}
			})
		})
	}
}

func TestServer_AnUnknownTypeIsDeadAtOnceIfSoConfigured(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		serve(t, b, Config{UnknownTypeLimit: -1}, NewServeMux().ProcessJob)
		add(t, b, DefaultQueue, "a", 1)
		synctest.Wait()
		if j := expect(t, b, DefaultQueue, "a-0", StateDead); j.Reason != broker.ReasonUnknownType {
			t.Errorf("reason %q", j.Reason)
		}
	})
}

// Nothing can be stored in the history of such a job. Only its snoozes tell how long it has waited, and they may be its own.
func TestServer_AJobWhoseHeadIsNewerIsPutOffWithGrowingDelays(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := &tap{Broker: newStore()}
		var tries tally
		b.claim = func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
			got, err := b.Broker.Claim(ctx, req)
			for i := range got.Jobs {
				j := &got.Jobs[i]
				_, j.Head, j.Broken = broker.ParseHead(broker.AppendHead(nil, j.State, &j.Head)) // as other stores do
				tries.add(j.Type, 1)
			}
			return got, err
		}
		for typ, counts := range map[string]string{"fresh": "0,0,0,0,0,0,0", "polled": "500,0,0,500,0,0,500"} {
			_, head, err := broker.ParseHead([]byte(counts + ";\x02\x04"))
			if !errors.Is(err, broker.ErrNewerForm) || !head.NewerHead() {
				t.Fatalf("the head is not newer: %v", err)
			}
			add(t, b, DefaultQueue, typ, 1, func(j *broker.NewJob) {
				j.Restore = &broker.Restored{State: StatePending, CreatedAt: time.Now().Add(-72 * time.Hour), Head: head}
			})
		}
		serve(t, b, Config{UnknownTypeLimit: time.Hour}, NewServeMux().ProcessJob)
		pass(50 * time.Minute)
		for _, typ := range []string{"fresh", "polled"} {
			expect(t, b, DefaultQueue, typ+"-0", StateRetry)
		}
		pass(2 * time.Hour)
		for typ, least := range map[string]int{"fresh": 20, "polled": 10} {
			expect(t, b, DefaultQueue, typ+"-0", StateRetry)
			if n := tries.get(typ); n < least || n > 60 {
				t.Errorf("%s: tried %d times in three hours", typ, n)
			}
		}
	})
}

func TestServer_AJobThatCannotBeReadIsSetAsideAndHarmsNoOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := &tap{Broker: newStore()}
		b.claim = func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
			got, err := b.Broker.Claim(ctx, req)
			for i := range got.Jobs {
				switch got.Jobs[i].Type {
				case "newer":
					got.Jobs[i].Broken = broker.ErrNewerForm
				case "malformed":
					got.Jobs[i].Broken = broker.ErrMalformed
				}
			}
			return got, err
		}
		for _, typ := range []string{"newer", "malformed", "fine"} {
			add(t, b, DefaultQueue, typ, 1)
		}
		var ran []string
		serve(t, b, Config{Concurrency: 1, UnknownTypeLimit: time.Hour},
			func(_ context.Context, j *Job) error { ran = append(ran, j.Type()); return nil })
		synctest.Wait()
		if !slices.Equal(ran, []string{"fine"}) {
			t.Errorf("ran %v", ran)
		}
		expect(t, b, DefaultQueue, "fine-0", StateCompleted)
		if j := expect(t, b, DefaultQueue, "newer-0", StateRetry); j.Snoozes != 1 || j.Failures != 0 {
			t.Errorf("newer: %d snoozes, %d failures", j.Snoozes, j.Failures)
		}
		if j := expect(t, b, DefaultQueue, "malformed-0", StateDead); j.Reason != broker.ReasonUndecodable {
			t.Errorf("malformed: reason %q", j.Reason)
		}
		pass(2 * time.Hour)
		if j := expect(t, b, DefaultQueue, "newer-0", StateDead); j.Reason != broker.ReasonUndecodable {
			t.Errorf("newer: reason %q", j.Reason)
		}
	})
}
