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

func (s *shifted) now() time.Time { return time.Now().Add(time.Duration(s.by.Load())) }

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

// A damaged record can have any counts. A server that dies of them would die again whenever it takes the job.
func TestServer_CountsThatCannotBeHarmNoServer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		damaged := func(got broker.Claimed) broker.Claimed {
			for i := range got.Jobs {
				if j := &got.Jobs[i]; j.Type == "damaged" {
					j.Failures, j.Crashes, j.Snoozes, j.Deliveries = -3, -3, -3, -3
				}
			}
			return got
		}
		b := &tap{Broker: newStore()}
		b.claim = func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
			got, err := b.Broker.Claim(ctx, req)
			return damaged(got), err
		}
		b.reclaim = func(ctx context.Context, req broker.ReclaimRequest) (broker.Claimed, error) {
			got, err := b.Broker.Reclaim(ctx, req)
			return damaged(got), err
		}
		add(t, b, DefaultQueue, "damaged", 1)
		crash(t, b)
		serve(t, b, Config{Concurrency: 1}, func(_ context.Context, j *Job) error {
			if j.Type() == "damaged" {
				return errors.New("no")
			}
			return nil
		})
		pass(time.Hour)
		add(t, b, DefaultQueue, "sound", 1)
		pass(time.Minute)
		expect(t, b, DefaultQueue, "sound-0", StateCompleted)
	})
}
