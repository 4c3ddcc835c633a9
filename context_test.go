package jobs

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

type ctxKey string

func TestContext_TheContextTellsWhyItEnded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		cause error
		err   error
		end   func(t *testing.T, b broker.Broker)
		job   func(*broker.NewJob)
		state State
	}{
		{name: "timeout", cause: ErrTimeout, err: context.DeadlineExceeded, state: StateRetry,
			job: func(j *broker.NewJob) { j.Body.Timeout = time.Minute }},
		{name: "deadline", cause: ErrDeadline, err: context.DeadlineExceeded, state: StateDead,
			job: func(j *broker.NewJob) { j.Body.Deadline = time.Now().Add(time.Minute) }},
		{name: "deadline before timeout", cause: ErrDeadline, err: context.DeadlineExceeded, state: StateDead,
			job: func(j *broker.NewJob) {
				j.Body.Timeout, j.Body.Deadline = 2*time.Minute, time.Now().Add(time.Minute)
			}},
		{name: "timeout before deadline", cause: ErrTimeout, err: context.DeadlineExceeded, state: StateRetry,
			job: func(j *broker.NewJob) {
				j.Body.Timeout, j.Body.Deadline = time.Minute, time.Now().Add(2*time.Minute)
			}},
		{name: "cancel", cause: ErrCancelled, err: context.Canceled, state: StateCancelled,
			end: func(t *testing.T, b broker.Broker) { cancelJob(t, b, "a-0") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newStore()
				add(t, b, DefaultQueue, "a", 1, func(j *broker.NewJob) {
					if c.job != nil {
						c.job(j)
					}
				})
				var took time.Duration
				serve(t, b, Config{RetryPolicy: Constant(time.Hour)}, func(ctx context.Context, j *Job) error {
					began := time.Now()
					child, cancel := context.WithCancel(context.WithValue(ctx, ctxKey("a"), 1))
					defer cancel()
					<-child.Done()
					took = time.Since(began)
					if ctx.Err() != c.err || child.Err() != c.err || context.Cause(ctx) != c.cause || context.Cause(child) != c.cause {
						t.Errorf("Err %v, of a child %v; Cause %v, of a child %v; want %v and %v",
							ctx.Err(), child.Err(), context.Cause(ctx), context.Cause(child), c.err, c.cause)
					}
					return ctx.Err()
				})
				if c.end != nil {
					pass(time.Minute)
					c.end(t, b)
				}
				pass(5 * time.Minute)
				if took != time.Minute {
					t.Errorf("it ended after %v, want 1m", took)
				}
				expect(t, b, DefaultQueue, "a-0", c.state)
			})
		})
	}
}

func cancelJob(t *testing.T, b broker.Broker, id string) {
	t.Helper()
	results, err := b.Operate(t.Context(), broker.Operation{Kind: broker.OpCancel,
		Refs: []broker.Ref{{Queue: DefaultQueue, ID: id, Epoch: broker.AnyEpoch}}})
	if err != nil || results[0].Err != nil {
		t.Fatal(results, err)
	}
}

func TestContext_AHandlerThatSucceedsAfterItsContextEndedHasSucceeded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		add(t, b, DefaultQueue, "slow", 1, func(j *broker.NewJob) { j.Body.Timeout = time.Second })
		add(t, b, DefaultQueue, "cancelled", 1)
		serve(t, b, Config{}, func(ctx context.Context, _ *Job) error {
			<-ctx.Done()
			return nil
		})
		pass(2 * time.Second)
		cancelJob(t, b, "cancelled-0")
		synctest.Wait()
		expect(t, b, DefaultQueue, "slow-0", StateCompleted)
		expect(t, b, DefaultQueue, "cancelled-0", StateCompleted)
	})
}

func TestContext_ACancellationArrivesWithTheNextRenewalWhereTheStoreCannotTell(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := &tap{Broker: newStore(), limits: &broker.Limits{NoWatch: true}}
		add(t, b, DefaultQueue, "a", 1)
		var took time.Duration
		serve(t, b, Config{}, func(ctx context.Context, _ *Job) error {
			began := time.Now()
			<-ctx.Done()
			took = time.Since(began)
			return SkipRetry
		})
		synctest.Wait()
		cancelJob(t, b, "a-0")
		pass(time.Minute)
		if took == 0 || took > broker.DefaultLease/3 {
			t.Errorf("the context ended after %v, want at most a third of the lease", took)
		}
		expect(t, b, DefaultQueue, "a-0", StateCancelled)
	})
}

func TestContext_TheSlotIsHeldUntilTheHandlerHasReturned(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		add(t, b, DefaultQueue, "a", 2, func(j *broker.NewJob) { j.Body.Timeout = time.Second })
		running, most := 0, 0
		serve(t, b, Config{Concurrency: 1, RetryPolicy: Constant(0)}, func(ctx context.Context, _ *Job) error {
			running++
			most = max(most, running)
			time.Sleep(time.Minute) // deaf to its context
			running--
			return nil
		})
		pass(time.Minute - 1)
		if n := count(t, b, DefaultQueue, StateActive); n != 1 {
			t.Errorf("%d jobs are leased while the only slot is taken, want 1", n)
		}
		pass(2 * time.Minute)
		if most != 1 {
			t.Errorf("%d handlers ran at once in one slot", most)
		}
		for _, id := range []string{"a-0", "a-1"} {
			if j := expect(t, b, DefaultQueue, id, StateCompleted); j.Deliveries != 1 {
				t.Errorf("%s was delivered %d times", id, j.Deliveries)
			}
		}
	})
}

func TestContext_AnExpiredJobIsDeadWithoutHavingRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		add(t, b, DefaultQueue, "a", 1, func(j *broker.NewJob) { j.Body.Deadline = time.Now().Add(time.Second) })
		pass(time.Second)
		serve(t, b, Config{}, func(context.Context, *Job) error { t.Error("it ran at its deadline"); return nil })
		synctest.Wait()
		if j := expect(t, b, DefaultQueue, "a-0", StateDead); j.Reason != broker.ReasonExpired || j.Failures != 0 {
			t.Errorf("reason %q, %d failures", j.Reason, j.Failures)
		}
	})
}

func TestContext_HandlersContextsHoldTheValuesOfTheCallersAndTheJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		add(t, b, DefaultQueue, "a", 1)
		s, err := NewServer(b, Config{})
		if err != nil {
			t.Fatal(err)
		}
		var leaked context.Context
		ctx := context.WithValue(t.Context(), ctxKey("caller"), "value")
		if err := s.start(ctx, HandlerFunc(func(ctx context.Context, j *Job) error {
			child := context.WithValue(ctx, ctxKey("other"), 1)
			if got := child.Value(ctxKey("caller")); got != "value" {
				t.Errorf("the value is %v", got)
			}
			if got := JobFromContext(child); got != j {
				t.Errorf("JobFromContext is %v, want the handler's job", got)
			}
			if _, ok := ctx.Deadline(); !ok {
				t.Error("there is no deadline, want that of the default timeout")
			}
			leaked = ctx
			return nil
		})); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !errors.Is(leaked.Err(), context.Canceled) {
			t.Errorf("after the handler returned, Err is %v", leaked.Err())
		}
		if JobFromContext(context.Background()) != nil {
			t.Error("a context without a job has one")
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestContext_AJobsOwnTimeoutReplacesTheServers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		add(t, b, DefaultQueue, "none", 1, func(j *broker.NewJob) { j.Body.Timeout = NoTimeout })
		add(t, b, DefaultQueue, "own", 1, func(j *broker.NewJob) { j.Body.Timeout = time.Hour })
		add(t, b, DefaultQueue, "server", 1)
		left := map[string]time.Duration{}
		serve(t, b, Config{Concurrency: 1, Timeout: time.Minute}, func(ctx context.Context, j *Job) error {
			if end, ok := ctx.Deadline(); ok {
				left[j.Type()] = time.Until(end)
			}
			return nil
		})
		synctest.Wait()
		if left["server"] != time.Minute || left["own"] != time.Hour || len(left) != 2 {
			t.Errorf("timeouts are %v; want the server's of 1m, its own of 1h, and none", left)
		}
	})
}

// An event says what may have happened: in Postgres whoever can connect to the database can send one. Only the store says
// that a job was cancelled.
func TestServer_AnEventThatTheStoreDoesNotConfirmCancelsNoJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		forged := make(chan broker.Event)
		b := broker.Wrap(store, func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
			if c.Method == "Watch" {
				*c.Reply.(*<-chan broker.Event) = forged
				return nil
			}
			return next(ctx)
		})
		t.Cleanup(func() { close(forged) })
		asked := func(id string) {
			if _, err := store.Operate(t.Context(), broker.Operation{Kind: broker.OpCancel,
				Refs: []broker.Ref{{Queue: DefaultQueue, ID: id, Epoch: broker.AnyEpoch}}}); err != nil {
				t.Fatal(err)
			}
		}
		serve(t, b, Config{Concurrency: 2}, func(ctx context.Context, _ *Job) error {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(time.Second):
				return nil
			}
		})
		add(t, store, DefaultQueue, "a", 2)
		pass(100 * time.Millisecond)
		asked("a-1")
		for _, id := range []string{"a-0", "a-1"} {
			forged <- broker.Event{Kind: broker.EventCancel, Queue: DefaultQueue, ID: id}
		}
		pass(100 * time.Millisecond)
		expect(t, store, DefaultQueue, "a-1", StateCancelled)
		pass(2 * time.Second)
		expect(t, store, DefaultQueue, "a-0", StateCompleted)
	})
}

// A server whose store is in its process renews its leases seldom, so it must not depend on that to learn of a
// cancellation that was there before it watched.
func TestServer_ACancellationBeforeTheWatchBeganEndsTheContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		watches := make(chan struct{})
		b := broker.Wrap(store, func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
			if c.Method == "Watch" {
				<-watches
			}
			return next(ctx)
		})
		serve(t, b, Config{}, func(ctx context.Context, _ *Job) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		add(t, store, DefaultQueue, "a", 1)
		pass(100 * time.Millisecond)
		cancelJob(t, store, "a-0")
		close(watches)
		pass(100 * time.Millisecond)
		expect(t, store, DefaultQueue, "a-0", StateCancelled)
	})
}
