package jobs

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

// deaf is a store whose claims do not wait: its caller must know on its own what becomes due.
func deaf(b broker.Broker) *tap {
	limits := b.Limits()
	limits.NoWait = true
	return &tap{Broker: b, limits: &limits, claim: func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
		req.Wait = 0
		return b.Claim(ctx, req)
	}}
}

func TestServer_AnIdleServerStartsANewJobAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		var at time.Time
		serve(t, b, Config{Concurrency: 1}, func(context.Context, *Job) error { at = time.Now(); return nil })
		for range 3 {
			time.Sleep(12345 * time.Millisecond)
			now := time.Now()
			add(t, b, DefaultQueue, now.Format(time.TimeOnly), 1)
			synctest.Wait()
			if !at.Equal(now) {
				t.Errorf("it ran %v after it was enqueued", at.Sub(now))
			}
		}
	})
}

func TestServer_ADueJobIsClaimedOnTimeWhereTheStoreCannotWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := deaf(newStore())
		began := time.Now()
		add(t, b, DefaultQueue, "a", 1, func(j *broker.NewJob) { j.Delay = 12345678 * time.Microsecond })
		var at time.Time
		serve(t, b, Config{PollInterval: time.Minute}, func(context.Context, *Job) error { at = time.Now(); return nil })
		pass(5 * time.Minute)
		if took := at.Sub(began); took != 12345678*time.Microsecond {
			t.Errorf("it ran after %v", took)
		}
	})
}

func TestServer_ARetryIsClaimedOnTimeByTheServerThatAskedForIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := deaf(newStore())
		add(t, b, DefaultQueue, "a", 1)
		var runs []time.Time
		serve(t, b, Config{PollInterval: time.Minute, RetryPolicy: Constant(7 * time.Second)}, func(context.Context, *Job) error {
			runs = append(runs, time.Now())
			return errors.New("no")
		})
		pass(5 * time.Minute)
		for i := 1; i < len(runs); i++ {
			if d := runs[i].Sub(runs[i-1]); d != 7*time.Second {
				t.Errorf("run %d came %v after the one before, want 7s", i, d)
			}
		}
		if len(runs) != 4 {
			t.Errorf("it ran %d times", len(runs))
		}
	})
}

func TestServer_APausedQueueWithDueJobsIsNotAskedInCircles(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		var calls atomic.Int64
		tapped := &tap{Broker: b, claim: func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
			calls.Add(1)
			got, err := b.Claim(ctx, req)
			got.NextDue = got.Now.Add(-time.Second) // as another store may say
			return got, err
		}}
		paused := true
		if _, err := b.Policy(t.Context(), broker.PolicyRequest{Queue: DefaultQueue, Paused: &paused}); err != nil {
			t.Fatal(err)
		}
		add(t, b, DefaultQueue, "a", 1, func(j *broker.NewJob) { j.Delay = time.Second })
		serve(t, tapped, Config{}, func(context.Context, *Job) error { return nil })
		pass(time.Minute)
		if n := calls.Load(); n > 100 {
			t.Errorf("%d claims in a minute", n)
		}
	})
}

func TestServer_NoMoreIsLeasedThanThereAreSlots(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]Config{
		"without prefetch": {Concurrency: 5, Prefetch: NoPrefetch},
		"slow handlers":    {Concurrency: 5},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newStore()
				add(t, b, DefaultQueue, "a", 200)
				most := 0
				serve(t, b, cfg, func(context.Context, *Job) error {
					time.Sleep(50 * time.Millisecond)
					return nil
				})
				for range 300 {
					time.Sleep(7 * time.Millisecond)
					most = max(most, count(t, b, DefaultQueue, StateActive))
				}
				if most != 5 {
					t.Errorf("%d jobs were leased at once, want 5", most)
				}
				if n := count(t, b, DefaultQueue, StateCompleted); n != 200 {
					t.Errorf("%d jobs of 200 are done after 2.1 s", n)
				}
			})
		})
	}
}

func TestServer_QuickHandlersHaveJobsFetchedAheadWhichAreReleasedWhenTheyDoNotStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		var block atomic.Bool
		gate := make(chan struct{})
		var ran tally
		serve(t, b, Config{Concurrency: 4, Prefetch: 50}, func(_ context.Context, j *Job) error {
			ran.add("all", 1)
			if block.Load() {
				<-gate
			}
			return nil
		})
		add(t, b, DefaultQueue, "quick", 10)
		synctest.Wait()
		block.Store(true)
		add(t, b, DefaultQueue, "blocked", 100)
		synctest.Wait()
		if n := count(t, b, DefaultQueue, StateActive); n != 54 {
			t.Errorf("%d jobs are leased, want 4 running and 50 ahead", n)
		}
		pass(prefetchStale - 1)
		synctest.Wait()
		if n := count(t, b, DefaultQueue, StateActive); n != 54 {
			t.Errorf("%d jobs are leased just before a second has passed, want 54", n)
		}
		pass(1)
		synctest.Wait()
		if n := count(t, b, DefaultQueue, StateActive); n != 4 {
			t.Errorf("%d jobs are leased after a second, want the 4 that run", n)
		}
		pass(time.Minute)
		if n := count(t, b, DefaultQueue, StateActive); n != 4 {
			t.Errorf("%d jobs are leased after a minute: the slow handlers were not noticed", n)
		}
		close(gate)
		synctest.Wait()
		if n := ran.get("all"); n != 110 {
			t.Errorf("%d runs, want 110", n)
		}
	})
}

func TestServer_AQueueWithLocalConcurrencyIsNeverFetchedAhead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		var block atomic.Bool
		gate := make(chan struct{})
		cfg := Config{Concurrency: 4, Queues: map[string]int{DefaultQueue: 1}, QueueConcurrency: map[string]int{DefaultQueue: 3}}
		serve(t, b, cfg, func(context.Context, *Job) error {
			if block.Load() {
				<-gate
			}
			return nil
		})
		add(t, b, DefaultQueue, "quick", 10)
		synctest.Wait()
		block.Store(true)
		add(t, b, DefaultQueue, "blocked", 100)
		synctest.Wait()
		if n := count(t, b, DefaultQueue, StateActive); n != 3 {
			t.Errorf("%d jobs are leased, want 3", n)
		}
		close(gate)
	})
}

func TestServer_AServerOutlivesAStoreThatIsAway(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCable(newStore())
		var log testLog
		var claims atomic.Int64
		cfg := Config{Logger: log.logger(), Hooks: Hooks{Claim: func(ClaimEvent) { claims.Add(1) }}}
		c.setCut(true)
		s := serve(t, c, cfg, func(context.Context, *Job) error { return nil })
		pass(time.Minute)
		if err := s.Ready(); err == nil {
			t.Error("it is ready without a store")
		}
		c.setCut(false)
		add(t, c.Broker, DefaultQueue, "early", 1)
		pass(maxRegister + time.Second)
		expect(t, c.Broker, DefaultQueue, "early-0", StateCompleted)
		if err := s.Ready(); err != nil {
			t.Error(err)
		}
		c.setCut(true)
		before := claims.Load()
		pass(10 * time.Minute)
		if err := s.Ready(); err == nil {
			t.Error("it is ready although the store has been away for minutes")
		}
		if n := claims.Load() - before; n > 600 {
			t.Errorf("%d claims in ten minutes of a dead store", n)
		}
		c.setCut(false)
		add(t, c.Broker, DefaultQueue, "late", 1)
		pass(maxRegister + time.Second)
		expect(t, c.Broker, DefaultQueue, "late-0", StateCompleted)
		if err := s.Ready(); err != nil {
			t.Error(err)
		}
		if n := len(log.lines("claim failed")); n > 2 {
			t.Errorf("%d warnings of failed claims, want one an outage", n)
		}
	})
}

func TestServer_JobsThatComeBesideAnErrorAreHandled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		half := &tap{Broker: b, claim: func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
			got, err := b.Claim(ctx, req)
			return got, errors.Join(err, broker.ErrNewerForm) // of another queue
		}}
		add(t, b, DefaultQueue, "a", 100)
		serve(t, half, Config{Concurrency: 1, Prefetch: NoPrefetch}, func(context.Context, *Job) error { return nil })
		synctest.Wait()
		if n := count(t, b, DefaultQueue, StateCompleted); n != 100 {
			t.Errorf("%d of 100 jobs were handled without a pause", n)
		}
	})
}

func TestServer_TwoClaimsThatCrossDoNotOverfillTheSlots(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]Config{
		"all slots": {Concurrency: 2, Prefetch: NoPrefetch},
		"those of the queue": {Concurrency: 20, QueueConcurrency: map[string]int{DefaultQueue: 2},
			Queues: map[string]int{DefaultQueue: 1, "other": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store := newStore()
				crossing := &tap{Broker: store, claim: func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
					got, err := store.Claim(ctx, req)
					time.Sleep(time.Millisecond) // both are under way when the jobs are due
					return got, err
				}}
				var running tally
				serve(t, crossing, cfg, func(context.Context, *Job) error {
					running.add("all", 1)
					time.Sleep(time.Second)
					running.add("all", -1)
					return nil
				})
				add(t, store, DefaultQueue, "a", 20, func(j *broker.NewJob) { j.Delay = time.Minute })
				pass(time.Minute + 500*time.Millisecond)
				if n := count(t, store, DefaultQueue, StateActive); n != 2 {
					t.Errorf("%d jobs are leased, want 2", n)
				}
				pass(time.Minute)
				if n := running.peak("all"); n != 2 {
					t.Errorf("%d handlers ran at once, want 2", n)
				}
				if n := count(t, store, DefaultQueue, StateCompleted); n != 20 {
					t.Errorf("%d jobs of 20 are done", n)
				}
			})
		})
	}
}

func TestServer_AClaimThatWaitsIsGivenUpOnlyWhenItWouldMissAQueue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		var givenUp atomic.Int64
		tapped := &tap{Broker: b, claim: func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
			got, err := b.Claim(ctx, req)
			if req.Wait > 0 && ctx.Err() != nil {
				givenUp.Add(1)
			}
			return got, err
		}}
		cfg := Config{Concurrency: 10, Queues: map[string]int{"reports": 1, "mail": 1}, QueueConcurrency: map[string]int{"reports": 2}}
		serve(t, tapped, cfg, func(context.Context, *Job) error {
			time.Sleep(100 * time.Millisecond)
			return nil
		})
		add(t, b, "reports", "a", 1000) // its slots free all the time, and are taken again
		pass(time.Minute)
		if n := count(t, b, "reports", StateCompleted); n != 1000 {
			t.Errorf("%d reports are done", n)
		}
		// Two handlers that return at once can have it be one too many, now and then.
		if n := givenUp.Load(); n > 100 {
			t.Errorf("%d claims were given up in 500 rounds", n)
		}
	})
}

func TestServer_AStoreThatCannotWaitIsPolled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		var calls atomic.Int64
		impatient := &tap{Broker: b, limits: &broker.Limits{NoWait: true}}
		impatient.claim = func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
			calls.Add(1)
			time.Sleep(time.Millisecond)
			req.Wait = 0
			return b.Claim(ctx, req)
		}
		serve(t, impatient, Config{PollInterval: 2 * time.Second}, func(context.Context, *Job) error { return nil })
		pass(time.Minute)
		if n := calls.Swap(0); n < 30 || n > 45 {
			t.Errorf("%d claims in a minute, want one in about two seconds", n)
		}
		serve(t, impatient, Config{}, func(context.Context, *Job) error { return nil })
		pass(time.Minute)
		if n := calls.Load(); n < 90 || n > 130 {
			t.Errorf("%d claims in a minute of two servers, want of the second one in about a second", n)
		}
		add(t, b, DefaultQueue, "a", 1000)
		pass(2 * time.Second)
		if n := count(t, b, DefaultQueue, StateCompleted); n != 1000 {
			t.Errorf("%d jobs of 1000 are done", n)
		}
	})
}

func TestServer_AnIdleServerAndOneThatIsFullAreReadyHoweverShortTheWindowIs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, full := range []int{0, 1} {
			for store, b := range map[string]broker.Broker{"for several processes": newStore(), "in the process": membroker.New()} {
				s := serve(t, b, Config{Concurrency: 1, ReadinessWindow: 2 * time.Second, Lease: 5 * time.Minute, PollInterval: time.Minute},
					func(ctx context.Context, _ *Job) error { <-ctx.Done(); return nil })
				add(t, b, DefaultQueue, "a", full)
				for range 1000 {
					pass(100 * time.Millisecond)
					if err := s.Ready(); err != nil {
						t.Errorf("with a store %s and %d of 1 slots taken: %v", store, full, err)
						break
					}
				}
			}
		}
	})
}
