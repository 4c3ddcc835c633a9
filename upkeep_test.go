package jobs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// crash starts a server that takes one job and dies: it is never heard of
// again. The job's handler does not return before the test ends.
func crash(t *testing.T, store broker.Broker) {
	t.Helper()
	c := newCable(store)
	gate := make(chan struct{})
	before := count(t, store, DefaultQueue, StateActive)
	cfg := Config{Concurrency: 1, Prefetch: NoPrefetch, ShutdownTimeout: -1}
	serve(t, c, cfg, func(context.Context, *Job) error { <-gate; return nil })
	t.Cleanup(func() { close(gate) })
	for count(t, store, DefaultQueue, StateActive) == before {
		pass(time.Millisecond)
	}
	c.setCut(true)
}

func TestServer_AJobOfADeadServerRunsAgainWithinALeaseAndASecond(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		var at time.Time
		var seen *Job
		serve(t, store, Config{Concurrency: 1}, func(_ context.Context, j *Job) error {
			if j.Type() == "busy" {
				time.Sleep(10 * time.Second)
				return nil
			}
			at, seen = time.Now(), j
			return nil
		})
		pass(time.Minute)
		add(t, store, DefaultQueue, "busy", 1) // keeps the healthy server from taking the other
		synctest.Wait()
		add(t, store, DefaultQueue, "a", 1)
		crash(t, store)
		began := time.Now()
		pass(2 * time.Minute)
		if took := at.Sub(began); at.IsZero() || took > broker.DefaultLease+time.Second {
			t.Errorf("it ran again after %v, want a lease and a second at most", took)
		}
		if seen == nil || seen.Crashes() != 1 || seen.Attempt() != 0 || seen.Delivery() != 1 {
			t.Errorf("it ran with %+v; want one crash and no failure charged", seen)
		}
		expect(t, store, DefaultQueue, "a-0", StateCompleted)
	})
}

func TestServer_AJobThatKillsItsServersStopsWhenItsCrashBudgetIsSpent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		server, own    int
		deaths, charge int
	}{
		{"the default of 3", 0, 0, 4, 4},
		{"the server's of 1", 1, 0, 2, 2},
		{"none", -1, 0, 1, 1},
		{"its own of 2", 0, 2, 3, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store := newStore()
				add(t, store, DefaultQueue, "poison", 1, func(j *broker.NewJob) { j.Body.CrashBudget = c.own })
				paused := func(p bool) {
					if _, err := store.Policy(t.Context(), broker.PolicyRequest{Queue: DefaultQueue, Paused: &p}); err != nil {
						t.Fatal(err)
					}
				}
				deaths := 0
				var delays atomic.Int32
				counting := Hooks{Settle: func(e SettleEvent) {
					for _, item := range e.Items {
						if item.Outcome.Delay() > 0 {
							delays.Add(1)
						}
					}
				}}
				for expect := StatePending; expect != StateDead && deaths < 10; deaths++ {
					paused(false)
					crash(t, store)
					paused(true) // the reclaimer must not take it
					healthy := serve(t, store, Config{CrashBudget: c.server, Hooks: counting},
						func(context.Context, *Job) error { t.Error("it ran"); return nil })
					time.Sleep(broker.DefaultLease + 2*time.Second)
					j := stored(t, store, DefaultQueue, "poison-0")
					if err := healthy.Shutdown(t.Context()); err != nil {
						t.Error(err)
					}
					for j.State == StateRetry && time.Now().Before(j.RunAt) {
						time.Sleep(time.Second)
					}
					expect = j.State
				}
				j := expect(t, store, DefaultQueue, "poison-0", StateDead)
				if deaths != c.deaths || j.Crashes != c.charge || j.Failures != 0 || j.Reason != broker.ReasonCrashes {
					t.Errorf("dead after %d deaths with %d crashes and %d failures, reason %q; want %d, %d, none", deaths, j.Crashes, j.Failures, j.Reason,
						c.deaths, c.charge)
				}
				if n := int(delays.Load()); n != max(0, c.deaths-2) {
					t.Errorf("it came back with a delay %d times, want from its second crash on", n)
				}
				if last := j.Errors.Last(); last.Class != ClassCrash || !strings.Contains(last.Message, "died") {
					t.Errorf("the last error is %+v", last)
				}
			})
		})
	}
}

func TestServer_AServerJudgesOthersOnlyAfterALeaseWithoutAGapOfItsOwn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCable(unsure(newStore()))
		var calls []time.Time
		var cut atomic.Bool
		began := time.Now()
		serve(t, c, Config{Hooks: Hooks{
			Reclaim: func(e ReclaimEvent) {
				if e.Err == nil {
					calls = append(calls, time.Now())
				}
			},
			Renew: func(RenewEvent) {
				if cut.CompareAndSwap(true, false) {
					c.setCut(true) // just after a renewal, so that the lease outlives it
				}
			},
		}}, func(context.Context, *Job) error { return nil })
		pass(time.Minute)
		if d := calls[0].Sub(began); d < broker.DefaultLease || d > broker.DefaultLease+time.Second {
			t.Errorf("it first looked for dead servers after %v, want a lease", d)
		}
		first := workers(t, c.Broker)[0].ID
		cut.Store(true)
		for !c.isCut() {
			pass(100 * time.Millisecond)
		}
		pass(11500 * time.Millisecond)
		c.setCut(false)
		back := time.Now()
		pass(time.Minute)
		for _, at := range calls {
			if since := at.Sub(back); since > 0 && since < broker.DefaultLease {
				t.Errorf("it looked for dead servers %v after the store was back from 11.5 s away", since)
			}
		}
		if workers(t, c.Broker)[0].ID != first {
			t.Error("the worker was lost, which this test is not about")
		}
		if calls[len(calls)-1].Before(back.Add(30 * time.Second)) {
			t.Error("it never looked again")
		}
	})
}

// unsure is a store that does not say when a lease runs out, so that servers
// look all the time.
func unsure(b broker.Broker) *tap {
	return &tap{Broker: b, renew: func(ctx context.Context, req broker.RenewRequest) (broker.Renewed, error) {
		got, err := b.Renew(ctx, req)
		got.NextLapse = time.Time{}
		return got, err
	}}
}

func TestServer_AJobOfADeadServerRunsAgainWithinItsLeaseAndASecondWhateverOthersLeasesAre(t *testing.T) {
	t.Parallel()
	for _, own := range []time.Duration{time.Second, broker.DefaultLease, 10 * time.Minute} {
		for _, dead := range []time.Duration{5 * time.Second, broker.DefaultLease, time.Minute} {
			t.Run(fmt.Sprintf("%v beside %v", dead, own), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					store := newStore()
					busy := make(chan struct{})
					var at time.Time
					healthy := func(_ context.Context, j *Job) error {
						if j.Type() == "busy" {
							<-busy
						} else {
							at = time.Now()
						}
						return nil
					}
					serve(t, store, Config{Concurrency: 1, Lease: own, CrashBudget: 9}, healthy)
					add(t, store, DefaultQueue, "busy", 1) // keeps the healthy server from taking the other
					pass(own + time.Minute)
					c := newCable(store)
					gate := make(chan struct{})
					defer close(gate)
					add(t, store, DefaultQueue, "a", 1)
					serve(t, c, Config{Concurrency: 1, Prefetch: NoPrefetch, Lease: dead, ShutdownTimeout: -1},
						func(context.Context, *Job) error { <-gate; return nil })
					synctest.Wait()
					c.setCut(true)
					close(busy)
					began := time.Now()
					pass(dead + 2*time.Second)
					if took := at.Sub(began); at.IsZero() || took > dead+time.Second {
						t.Errorf("it ran again after %v, want %v and a second at most", took, dead)
					}
				})
			})
		}
	}
}

func TestServer_IdleServersAskTheirStoreSeldom(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		var calls tally
		counting := &tap{Broker: store}
		counting.claim = func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
			calls.add("claims", 1)
			return store.Claim(ctx, req)
		}
		counting.renew = func(ctx context.Context, req broker.RenewRequest) (broker.Renewed, error) {
			calls.add("renewals", 1)
			return store.Renew(ctx, req)
		}
		counting.reclaim = func(ctx context.Context, req broker.ReclaimRequest) (broker.Claimed, error) {
			calls.add("reclaims", 1)
			return store.Reclaim(ctx, req)
		}
		counting.find = func(ctx context.Context, q broker.Query) (broker.Page, error) {
			calls.add("finds", 1)
			return store.Find(ctx, q)
		}
		serve(t, counting, Config{}, func(context.Context, *Job) error { return nil })
		serve(t, counting, Config{}, func(context.Context, *Job) error { return nil })
		pass(10 * time.Minute)
		for what, most := range map[string]int{
			"claims":   2*600*4/15 + 10, // 3.75 s apart at least
			"renewals": 2*600*2/9 + 10,  // 4.5 s
			"reclaims": 0,
			"finds":    0,
		} {
			if n := calls.get(what); n > most {
				t.Errorf("%d %s of two servers in ten minutes, want %d at most", n, what, most)
			}
		}
	})
}

// shifted is a store whose clock is off from that of its callers; jump moves
// it further.
type shifted struct {
	*tap
	by atomic.Int64
}

func newShifted(by time.Duration) *shifted {
	store := newStore()
	s := &shifted{tap: &tap{Broker: store}}
	s.by.Store(int64(by))
	s.claim = func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
		if req.Wait > 0 { // a request with Now does not wait
			now := req
			now.Wait, now.Now = 0, s.now()
			got, err := store.Claim(ctx, now)
			if !got.NextDue.IsZero() {
				req.Wait = min(req.Wait, got.NextDue.Sub(got.Now))
			}
			if err != nil || len(got.Jobs) > 0 || !waits(ctx, req.Wait) {
				return got, err
			}
		}
		req.Wait, req.Now, req.Settle.Now = 0, s.now(), s.now()
		return store.Claim(ctx, req)
	}
	s.settle = func(ctx context.Context, req broker.SettleRequest) ([]broker.Verdict, error) {
		req.Now = s.now()
		return store.Settle(ctx, req)
	}
	s.renew = func(ctx context.Context, req broker.RenewRequest) (broker.Renewed, error) {
		req.Now = s.now()
		return store.Renew(ctx, req)
	}
	s.reclaim = func(ctx context.Context, req broker.ReclaimRequest) (broker.Claimed, error) {
		req.Now = s.now()
		return store.Reclaim(ctx, req)
	}
	s.find = func(ctx context.Context, q broker.Query) (broker.Page, error) {
		q.Now = s.now()
		return store.Find(ctx, q)
	}
	return s
}

func (s *shifted) Ping(context.Context) (time.Time, error) { return s.now(), nil }

func (s *shifted) now() time.Time { return time.Now().Add(time.Duration(s.by.Load())) }

func TestServer_SkewedClocksDoNoHarm(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{-time.Hour, time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newShifted(by)
				req := broker.EnqueueRequest{Now: s.now()}
				for _, j := range []broker.NewJob{
					{ID: "delayed", Delay: 90 * time.Second},
					{ID: "expiring", Body: broker.Body{Deadline: s.now().Add(30 * time.Second)}},
					{ID: "failing", Body: broker.Body{Retention: time.Hour}},
				} {
					j.Queue, j.Body.Type, j.Body.Priority, j.Body.MaxRetries = DefaultQueue, j.ID, broker.PriorityNormal, 3
					req.Jobs = append(req.Jobs, j)
				}
				if _, err := s.Broker.Enqueue(t.Context(), req); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				var took tally
				var failedAt time.Time
				serve(t, s, Config{Concurrency: 3, PollInterval: time.Second, RetryPolicy: Constant(20 * time.Second)},
					func(ctx context.Context, j *Job) error {
						switch {
						case j.Type() == "expiring":
							start := time.Now()
							<-ctx.Done()
							took.add(j.ID(), int(time.Since(start)))
							return ctx.Err()
						case j.ID() == "failing" && j.Attempt() == 0:
							failedAt = s.now()
							return errors.New("no")
						}
						took.add(j.ID(), int(time.Since(began)))
						if last := j.record.Errors.Last().At; j.ID() == "failing" && !last.Equal(failedAt) {
							t.Errorf("the failure is dated %v, %v by the store", last, failedAt)
						}
						return nil
					})
				pass(10 * time.Minute)
				// Right after a jump of the store's clock, what counts is what the claim said.
				s.by.Add(int64(time.Hour))
				if _, err := s.Broker.Enqueue(t.Context(), broker.EnqueueRequest{Now: s.now(),
					Jobs: []broker.NewJob{{Queue: DefaultQueue, ID: "expiring-2",
						Body: broker.Body{Type: "expiring", Priority: broker.PriorityNormal, Deadline: s.now().Add(30 * time.Second)}}}}); err != nil {
					t.Fatal(err)
				}
				pass(time.Minute)
				if d := time.Duration(took.get("expiring-2")); d < 28*time.Second || d > 30*time.Second {
					t.Errorf("after a jump a deadline in 30s cut a run that began within 2s off after %v", d)
				}
				for id, want := range map[string]time.Duration{"delayed": 90 * time.Second, "expiring": 30 * time.Second, "failing": 20 * time.Second} {
					if d := time.Duration(took.get(id)); d != want {
						t.Errorf("%s: %v, want %v", id, d, want)
					}
				}
				if j := expect(t, s, DefaultQueue, "expiring", StateDead); j.Crashes != 0 {
					t.Errorf("a skewed clock cost %d crashes", j.Crashes)
				}
			})
		})
	}
}

func TestServer_AJumpOfTheStoresClockCostsNobodyAJob(t *testing.T) {
	t.Parallel()
	// At the default lease of 15 s, in all phases of the two servers' renewals.
	for _, jump := range []time.Duration{3, 5, 8, 10, 11, 12, 13, 14, 15, 17, 30, 3600, -10, -3600} {
		for phase := range 6 {
			jump, later := jump*time.Second, time.Duration(phase)*900*time.Millisecond
			t.Run(fmt.Sprintf("%v/%v", jump, later), func(t *testing.T) {
				bubble(t, func(t *testing.T) { testJump(t, jump, later) })
			})
		}
	}
}

func testJump(t *testing.T, jump, later time.Duration) {
	s := newShifted(0)
	looking := unsure(s)
	var runs tally
	handler := func(ctx context.Context, j *Job) error {
		runs.add(j.ID(), 1)
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Minute):
		}
		return nil
	}
	serve(t, looking, Config{Concurrency: 1}, handler)
	pass(2500 * time.Millisecond) // so that the two renew at different times
	serve(t, looking, Config{Concurrency: 1}, handler)
	pass(17 * time.Second)
	add(t, s, DefaultQueue, "a", 2)
	pass(2*time.Second + later)
	s.by.Store(int64(jump))
	pass(10 * time.Minute)
	for _, id := range []string{"a-0", "a-1"} {
		if j := stored(t, s, DefaultQueue, id); runs.get(id) != 1 || j.Crashes != 0 {
			t.Errorf("%s ran %d times, %d crashes were charged", id, runs.get(id), j.Crashes)
		}
	}
}

func TestServer_FinishedJobsArePrunedWhenTheirRetentionIsOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		add(t, b, DefaultQueue, "a", 5000, func(j *broker.NewJob) { j.Body.Retention = time.Minute })
		serve(t, b, Config{}, func(context.Context, *Job) error { return nil })
		synctest.Wait()
		if n := count(t, b, DefaultQueue, StateCompleted); n != 5000 {
			t.Fatalf("%d are done", n)
		}
		pass(time.Minute + pruneInterval + time.Second)
		if n := count(t, b, DefaultQueue, StateCompleted); n != 0 {
			t.Errorf("%d records are left past their retention", n)
		}
	})
}
