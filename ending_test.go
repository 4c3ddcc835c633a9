package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

func TestEnding_OfSaysWhatTheServerDoes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		plain := errors.New("no luck")
		cases := []struct {
			name    string
			err     error
			change  func(*broker.NewJob)
			want    Ending
			settled broker.OutcomeKind
		}{
			{name: "nil", want: Ending{Outcome: EndedCompleted}, settled: broker.OutcomeComplete},
			{name: "plain", err: plain, want: Ending{Outcome: EndedRetried, Class: ClassRetryable}, settled: broker.OutcomeRetry},
			{name: "the last failure", err: plain, change: func(j *broker.NewJob) { j.Body.MaxRetries = 0 },
				want: Ending{Outcome: EndedDead, Class: ClassRetryable}, settled: broker.OutcomeDie},
			{name: "SkipRetry", err: fmt.Errorf("%w: bad", SkipRetry),
				want: Ending{Outcome: EndedDead, Class: ClassPermanent, Decided: true}, settled: broker.OutcomeDie},
			{name: "RetryAfter", err: RetryAfter(time.Minute, plain),
				want: Ending{Outcome: EndedRetried, Delay: time.Minute, Class: ClassRetryable, Decided: true}, settled: broker.OutcomeRetry},
			{name: "RetryAfter, the last failure", err: RetryAfter(time.Minute, plain), change: func(j *broker.NewJob) { j.Body.MaxRetries = 0 },
				want: Ending{Outcome: EndedDead, Class: ClassRetryable, Decided: true}, settled: broker.OutcomeDie},
			{name: "Snooze", err: Snooze(time.Minute),
				want: Ending{Outcome: EndedSnoozed, Delay: time.Minute, Decided: true}, settled: broker.OutcomeSnooze},
			{name: "Cancel", err: Cancel(plain), want: Ending{Outcome: EndedCancelled, Class: ClassCancelled, Decided: true},
				settled: broker.OutcomeCancel},
			{name: "unknown type", err: fmt.Errorf("%w: x", ErrUnknownType),
				want: Ending{Outcome: EndedSnoozed, Class: ClassUnknownType, Decided: true}, settled: broker.OutcomeSnooze},
			{name: "a timeout of a middleware", err: fmt.Errorf("%w: x", ErrTimeout),
				want: Ending{Outcome: EndedRetried, Class: ClassTimeout}, settled: broker.OutcomeRetry},
			{name: "classified as permanent", err: Classified(plain, Classification{Code: "HTTP_400", Class: ClassPermanent, As: SkipRetry}),
				want: Ending{Outcome: EndedDead, Class: ClassPermanent, Code: "HTTP_400", Decided: true}, settled: broker.OutcomeDie},
			{name: "classified, the outermost counts", err: Classified(fmt.Errorf("b: %w", Classified(plain, Classification{Code: "in"})),
				Classification{Code: "out"}),
				want: Ending{Outcome: EndedRetried, Class: ClassRetryable, Code: "out", Decided: true}, settled: broker.OutcomeRetry},
			{name: "classified with attempts spent", err: Classified(plain, Classification{Attempts: 1, As: RetryAfter(time.Minute, plain)}),
				want: Ending{Outcome: EndedDead, Class: ClassRetryable, Decided: true}, settled: broker.OutcomeDie},
			{name: "classified with attempts left", err: Classified(plain, Classification{Attempts: 2}),
				want: Ending{Outcome: EndedRetried, Class: ClassRetryable, Decided: true}, settled: broker.OutcomeRetry},
			{name: "more attempts than the job allows", err: Classified(plain, Classification{Attempts: 9}),
				change: func(j *broker.NewJob) { j.Body.MaxRetries = 0 },
				want:   Ending{Outcome: EndedDead, Class: ClassRetryable, Decided: true}, settled: broker.OutcomeDie},
		}
		b := newStore()
		settled := map[string]broker.OutcomeKind{}
		cfg := Config{Concurrency: 1, RetryPolicy: Constant(1000 * time.Hour), Hooks: Hooks{Settle: func(e SettleEvent) {
			for _, item := range e.Items {
				settled[item.Job.Type] = item.Outcome.Kind()
			}
		}}}
		got := map[string]Ending{}
		serve(t, b, cfg, func(ctx context.Context, j *Job) error {
			for _, c := range cases {
				if c.name == j.Type() {
					got[c.name] = EndingOf(ctx, j, c.err)
					return c.err
				}
			}
			return nil
		})
		for _, c := range cases {
			add(t, b, DefaultQueue, c.name, 1, func(j *broker.NewJob) {
				if c.change != nil {
					c.change(j)
				}
			})
		}
		pass(time.Second)
		for _, c := range cases {
			if got[c.name] != c.want {
				t.Errorf("%s: EndingOf says %+v, want %+v", c.name, got[c.name], c.want)
			}
			if settled[c.name] != c.settled {
				t.Errorf("%s: the server settles with %v, want %v", c.name, settled[c.name], c.settled)
			}
		}
	})
}

func TestEnding_OfKnowsWhyTheRunEnded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		got := map[string]Ending{}
		s := serve(t, b, Config{Concurrency: 3, Timeout: time.Minute, ShutdownTimeout: -1, RetryPolicy: Constant(time.Hour)},
			func(ctx context.Context, j *Job) error {
				<-ctx.Done()
				got[j.Type()] = EndingOf(ctx, j, ctx.Err())
				return ctx.Err()
			})
		add(t, b, DefaultQueue, "times out", 1)
		add(t, b, DefaultQueue, "expires", 1, func(j *broker.NewJob) { j.Body.Deadline = time.Now().Add(30 * time.Second) })
		pass(59 * time.Second)
		pass(2 * time.Second)
		add(t, b, DefaultQueue, "is drained", 1)
		pass(time.Second)
		if err := s.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]Ending{
			"times out":  {Outcome: EndedRetried, Class: ClassTimeout},
			"expires":    {Outcome: EndedExpired, Class: ClassExpired, Decided: true},
			"is drained": {Outcome: EndedReleased, Class: ClassRetryable, Decided: true},
		} {
			if got[name] != want {
				t.Errorf("a run that %s: EndingOf says %+v, want %+v", name, got[name], want)
			}
		}
	})
}

func TestEnding_WhatAnErrorWasClassifiedAsGoesBeforeTheServersClassify(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		cfg := Config{Classify: func(error, *Job) Classification {
			return Classification{Code: "server", Class: "of_server", As: Cancel(nil)}
		}}
		serve(t, b, cfg, func(context.Context, *Job) error {
			return fmt.Errorf("outer: %w", Classified(errors.New("inner"), Classification{Code: "chain", Class: "of_chain", As: SkipRetry}))
		})
		add(t, b, DefaultQueue, "a", 1)
		pass(time.Second)
		j := expect(t, b, DefaultQueue, "a-0", StateDead)
		if f := j.Errors.Last(); f.Code != "chain" || f.Class != "of_chain" || f.Message != "outer: inner" {
			t.Errorf("the history says %+v", f)
		}
	})
}

func TestEnding_NoErrorIsNoneWhateverItsClassification(t *testing.T) {
	t.Parallel()
	if err := Classified(nil, Classification{Code: "HTTP_200"}); err != nil {
		t.Errorf("no error was classified as %T", err)
	}
}

func TestEnding_AttemptsOfAClassificationEndARetriedJobAsSpent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		runs := 0
		serve(t, b, Config{RetryPolicy: Constant(time.Second)}, func(context.Context, *Job) error {
			runs++
			return Classified(errors.New("again"), Classification{Attempts: 2})
		})
		add(t, b, DefaultQueue, "a", 1)
		pass(time.Minute)
		if j := expect(t, b, DefaultQueue, "a-0", StateDead); j.Reason != broker.ReasonRetries || runs != 2 {
			t.Errorf("dead because of %v after %d runs, want %v after 2", j.Reason, runs, broker.ReasonRetries)
		}
	})
}

func TestEnding_MiddlewareOfTheServerIsOutsideThatOfMuxAndPattern(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		var order []string
		note := func(name string) Middleware {
			return func(next Handler) Handler {
				return HandlerFunc(func(ctx context.Context, j *Job) error {
					order = append(order, name)
					return next.ProcessJob(ctx, j)
				})
			}
		}
		mux := NewServeMux()
		mux.HandleFunc("email", func(context.Context, *Job) error { return nil }, note("pattern"))
		mux.Use(note("mux"))
		s, err := NewServer(b, Config{Middleware: []Middleware{note("server 1"), nil, note("server 2")}})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Start(context.Background(), mux); err != nil {
			t.Fatal(err)
		}
		defer s.Shutdown(context.Background())
		add(t, b, DefaultQueue, "email", 1)
		pass(time.Second)
		if want := []string{"server 1", "server 2", "mux", "pattern"}; !slices.Equal(order, want) {
			t.Errorf("the job passed through %q, want %q", order, want)
		}
		order = nil
		add(t, b, DefaultQueue, "unheard of", 1)
		pass(time.Second)
		if want := []string{"server 1", "server 2"}; !slices.Equal(order, want) {
			t.Errorf("the job of an unknown type passed through %q, want %q", order, want)
		}
		if w := workers(t, b); len(w) != 1 || !slices.Equal(w[0].Types, []string{"email"}) {
			t.Errorf("the workers are %+v, want one that knows the type email although its mux is inside middleware", w)
		}
	})
}

func TestEnding_AMiddlewareThatReturnsNoHandlerIsNamed(t *testing.T) {
	t.Parallel()
	none := func(Handler) Handler { return nil }
	server, err := NewServer(newStore(), Config{Middleware: []Middleware{nil, none}})
	if err != nil {
		t.Fatal(err)
	}
	mux := NewServeMux()
	mux.HandleFunc("email", func(context.Context, *Job) error { return nil }, none)
	for name, put := range map[string]func(){
		"middleware 1": func() { _ = server.Start(context.Background(), mux) },
		"middleware 0": func() { mux.Handler("email") },
	} {
		func() {
			defer func() {
				if said := fmt.Sprint(recover()); !strings.Contains(said, name) {
					t.Errorf("the panic says %q, which does not name %s", said, name)
				}
			}()
			put()
		}()
	}
}
