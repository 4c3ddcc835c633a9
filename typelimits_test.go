package jobs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

// ofType gives jobs a type that is not the beginning of their IDs.
func ofType(typ string) func(*broker.NewJob) { return func(j *broker.NewJob) { j.Body.Type = typ } }

// limited is a configuration in which one job of the type slow runs at a time.
func limited(concurrency int) Config {
	return Config{Concurrency: concurrency, TypeConcurrency: map[string]int{"slow": 1}}
}

func TestServer_ATypeAtItsLimitLeavesTheSlotsToOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		var running tally
		s := serve(t, b, Config{Concurrency: 10, TypeConcurrency: map[string]int{"report:*": 2, "report:short": 1}},
			func(_ context.Context, j *Job) error {
				kind, _, _ := strings.Cut(j.Type(), ":")
				running.add(kind, 1)
				running.add(j.Type(), 1)
				time.Sleep(time.Second)
				running.add(kind, -1)
				running.add(j.Type(), -1)
				return nil
			})
		for i, typ := range []string{"report:a", "report:b", "report:short"} {
			add(t, b, DefaultQueue, fmt.Sprint("r", i), 3, ofType(typ))
		}
		add(t, b, DefaultQueue, "mail", 21)
		pass(3*time.Second + time.Millisecond) // 7 slots are left for mail in the first three seconds
		if n := count(t, b, DefaultQueue, StateCompleted); n != 21+6+3 {
			t.Errorf("%d jobs are done after 3 s, want all 21 mails, 6 reports of two types and 3 of their own limit", n)
		}
		if all, short := running.peak("report"), running.peak("report:short"); all != 3 || short != 1 {
			t.Errorf("at most %d reports ran at once and %d short ones, want 3 (2 and 1) and 1", all, short)
		}
		for _, l := range s.TypeLimits() {
			if l.Running != 0 || l.Waiting != 0 {
				t.Errorf("when all is done, the limit of %s has %+v", l.Pattern, l)
			}
		}
	})
}

// A million jobs of one type in front of all others: so many of them are claimed as
// there are slots, and no more of that queue; other queues go on.
func TestServer_ATypeAtItsLimitIsHeldBackOncePerSlot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		var claims, released atomic.Int64
		countReleased := func(req broker.SettleRequest) {
			for _, item := range req.Items {
				if item.Outcome.Kind() == broker.OutcomeRelease {
					released.Add(1)
				}
			}
		}
		tapped := &tap{Broker: b, claim: func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
			if req.Wait == 0 {
				claims.Add(1)
			}
			countReleased(req.Settle)
			return b.Claim(ctx, req)
		}, settle: func(ctx context.Context, req broker.SettleRequest) ([]broker.Verdict, error) {
			countReleased(req)
			return b.Settle(ctx, req)
		}}
		cfg := limited(5)
		cfg.Queues = map[string]int{"bad": 10, "good": 1}
		gate := make(chan struct{})
		var order []string
		s := serve(t, tapped, cfg, func(_ context.Context, j *Job) error {
			if j.Type() == "slow" {
				order = append(order, j.ID())
				<-gate
			}
			return nil
		})
		ids := add(t, b, "bad", "slow", 500)
		add(t, b, "good", "quick", 100)
		pass(time.Second)
		if n := count(t, b, "good", StateCompleted); n != 100 {
			t.Errorf("%d of 100 jobs of the other queue are done", n)
		}
		if n := count(t, b, "bad", StateActive); n != 6 {
			t.Errorf("%d jobs of the queue are leased, want the one that runs and one for each of 5 slots", n)
		}
		if l := s.TypeLimits()[0]; l.Pattern != "slow" || l.Max != 1 || l.Running != 1 || l.Waiting != 5 {
			t.Errorf("the limit says %+v, want 1 running and 5 waiting", l)
		}
		if st := statsOf(t, s.Health(), 200); len(st.Types) != 1 || st.Types[0] != (typeStats{"slow", 1, 1, 5}) {
			t.Errorf("the stats say %+v of the limit", st.Types)
		}
		before := claims.Load()
		pass(time.Minute)
		if n := claims.Load() - before; n > 0 {
			t.Errorf("the server claimed %d times in a minute in which nothing could begin", n)
		}
		for range 20 {
			gate <- struct{}{}
			pass(time.Millisecond)
		}
		if n := claims.Load() - before; n > 100 {
			t.Errorf("%d claims for 20 jobs that ended", n)
		}
		for i, id := range order {
			if id != ids[i] {
				t.Fatalf("number %d to run was %s; jobs that wait keep their order", i, id)
			}
		}
		if n := released.Load(); n > 0 || len(order) != 21 {
			t.Errorf("%d jobs were claimed and given back, and %d ran; want none and 21", n, len(order))
		}
		close(gate)
		pass(time.Minute)
		if n := count(t, b, "bad", StateCompleted); n != 500 {
			t.Errorf("%d of 500 jobs of the limited type are done", n)
		}
	})
}

func TestServer_AJobThatWaitsForItsTypeIsNotCharged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		cfg := limited(4)
		cfg.Timeout, cfg.Lease = 40*time.Second, 10*time.Second
		serve(t, b, cfg, func(ctx context.Context, j *Job) error {
			select {
			case <-time.After(35 * time.Second):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		add(t, b, DefaultQueue, "slow", 3)
		pass(106 * time.Second)
		for i := range 3 {
			j := expect(t, b, DefaultQueue, fmt.Sprint("slow-", i), StateCompleted)
			if j.Failures+j.Crashes+j.Snoozes > 0 || j.Epoch != 1 {
				t.Errorf("number %d was leased %d times with %d failures, %d crashes and %d snoozes; want one lease alone, whose timeout began "+
					"with its run", i, j.Epoch, j.Failures, j.Crashes, j.Snoozes)
			}
		}
	})
}

func TestServer_AJobThatIsCancelledWhileItWaitsForItsTypeEndsAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		gate := make(chan struct{})
		defer close(gate)
		var ran atomic.Int64
		serve(t, b, limited(2), func(context.Context, *Job) error { ran.Add(1); <-gate; return nil })
		ids := add(t, b, DefaultQueue, "slow", 3)
		pass(time.Second)
		cancelJob(t, b, ids[2])
		pass(time.Second)
		expect(t, b, DefaultQueue, "slow-2", StateCancelled)
		if n := ran.Load(); n != 1 {
			t.Errorf("%d handlers ran, want the first alone", n)
		}
	})
}

func TestServer_ADrainReleasesWhatWaitsForItsType(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		var ran atomic.Int64
		s := serve(t, b, limited(4), func(context.Context, *Job) error { ran.Add(1); time.Sleep(5 * time.Second); return nil })
		add(t, b, DefaultQueue, "slow", 10)
		pass(time.Second)
		if err := s.Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
		done, pending := count(t, b, DefaultQueue, StateCompleted), count(t, b, DefaultQueue, StatePending)
		if done != 1 || pending != 9 || ran.Load() != 1 {
			t.Errorf("%d jobs are done and %d pending after %d runs; want 1 and 9 after one", done, pending, ran.Load())
		}
		if j := expect(t, b, DefaultQueue, "slow-1", StatePending); j.Failures+j.Crashes+j.Snoozes > 0 {
			t.Errorf("a job that waited was charged: %+v", j.Head)
		}
	})
}

// What waits aside is in no slot, so neither limit may let in what the other holds
// back.
func TestServer_TheLimitsOfAQueueAndOfATypeHoldTogether(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		var running tally
		cfg := limited(6)
		cfg.Queues, cfg.QueueConcurrency = map[string]int{"narrow": 1, "wide": 1}, map[string]int{"narrow": 2}
		cfg.TypeConcurrency["slow"] = 3
		serve(t, b, cfg, func(_ context.Context, j *Job) error {
			running.add(j.Queue(), 1)
			running.add(j.Type(), 1)
			time.Sleep(time.Duration(len(j.ID())%3+1) * time.Second)
			running.add(j.Queue(), -1)
			running.add(j.Type(), -1)
			return nil
		})
		for i := range 30 {
			add(t, b, "narrow", fmt.Sprint("ns", i*i), 1, ofType("slow"))
			add(t, b, "narrow", fmt.Sprint("nq", i*i), 1, ofType("quick"))
			add(t, b, "wide", fmt.Sprint("ws", i*i), 2, ofType("slow"))
			add(t, b, "wide", fmt.Sprint("wq", i*i), 2, ofType("quick"))
		}
		pass(5 * time.Minute)
		if n, s := running.peak("narrow"), running.peak("slow"); n != 2 || s != 3 {
			t.Errorf("at most %d jobs of the narrow queue and %d of the limited type ran at once, want 2 and 3", n, s)
		}
		if n := count(t, b, "narrow", StateCompleted) + count(t, b, "wide", StateCompleted); n != 180 {
			t.Errorf("%d of 180 jobs are done", n)
		}
	})
}

func TestServer_AJobToBeCarefulWithWaitsForItsTypeFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		add(t, b, DefaultQueue, "slow", 3)
		m := &machine{t: t, b: b, cfg: limited(10)}
		m.cfg.Lease, m.cfg.Logger = 10*time.Second, new(testLog).logger()
		var running tally
		m.handler = func(_ context.Context, j *Job, killed <-chan struct{}, kill func()) error {
			if j.ID() == "slow-0" && j.Record().Crashes == 0 {
				kill()
				return nil
			}
			running.add(j.Type(), 1)
			defer running.add(j.Type(), -1)
			select {
			case <-time.After(time.Second):
			case <-killed:
			}
			return nil
		}
		m.start()
		defer m.stop()
		pass(time.Minute)
		if n := count(t, b, DefaultQueue, StateCompleted); n != 3 {
			t.Errorf("%d of 3 jobs are done a minute after their server died", n)
		}
		if n := running.peak("slow"); n != 1 {
			t.Errorf("%d ran at once, want 1", n)
		}
	})
}

func TestServer_AWorkerThatIsLostDropsWhatWaitsForItsType(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := membroker.New()
		c := newCable(store)
		gate := make(chan struct{})
		var here atomic.Int64
		cfg := limited(4)
		cfg.Lease, cfg.Logger = 10*time.Second, new(testLog).logger()
		s := serve(t, c, cfg, func(context.Context, *Job) error { here.Add(1); <-gate; return nil })
		add(t, store, DefaultQueue, "slow", 4)
		pass(time.Second)
		c.setCut(true)
		var there atomic.Int64
		serve(t, store, Config{Lease: cfg.Lease}, func(context.Context, *Job) error { there.Add(1); return nil })
		pass(time.Minute)
		c.setCut(false)
		pass(time.Minute)
		close(gate)
		pass(time.Minute)
		if h, o := here.Load(), there.Load(); h != 1 || o != 4 {
			t.Errorf("%d jobs ran here and %d on the other server, want 1 and all 4", h, o)
		}
		if l := s.TypeLimits()[0]; l.Running != 0 || l.Waiting != 0 {
			t.Errorf("the limit still has %+v", l)
		}
	})
}

func TestServer_QuickJobsOfALimitedTypeFlow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		slow := &tap{Broker: b, claim: func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
			time.Sleep(time.Millisecond)
			return b.Claim(ctx, req)
		}}
		var running tally
		serve(t, slow, limited(10), func(_ context.Context, j *Job) error {
			running.add(j.Type(), 1)
			time.Sleep(100 * time.Microsecond)
			running.add(j.Type(), -1)
			return nil
		})
		for i := range 50 {
			add(t, b, DefaultQueue, fmt.Sprint("s", i), 20, ofType("slow"))
			add(t, b, DefaultQueue, fmt.Sprint("q", i), 20, ofType("quick"))
		}
		pass(5 * time.Second)
		if n := count(t, b, DefaultQueue, StateCompleted); n != 2000 {
			t.Errorf("%d of 2000 jobs are done", n)
		}
		if n := running.peak("slow"); n != 1 {
			t.Errorf("%d of the limited type ran at once, want 1", n)
		}
	})
}

func TestServer_TypeConcurrencyIsRefusedWhereItCannotHold(t *testing.T) {
	t.Parallel()
	mux := NewServeMux()
	mux.HandleFunc("report:*", func(context.Context, *Job) error { return nil })
	mux.HandleFunc("mail", func(context.Context, *Job) error { return nil })
	HandleMany(mux, Define[int]("batch"), ManyConfig{Max: 5}, func(context.Context, []*BatchJob[int]) error { return nil })
	for pattern, says := range map[string]string{
		"reprot:*":     `"reprot:*"`,
		"mails":        `"mails"`,
		"batch":        "takes up to 5",
		"b*":           "takes up to 5",
		"report:daily": "", "report*": "", "report:x*": "", "*": "takes up to 5", "mai*": "",
	} {
		s, err := NewServer(newStore(), Config{TypeConcurrency: map[string]int{pattern: 4}})
		if err != nil {
			t.Fatal(err)
		}
		err = s.Start(context.Background(), mux)
		if says == "" {
			if err != nil {
				t.Errorf("%s is refused: %v", pattern, err)
			}
			_ = s.Shutdown(context.Background())
			continue
		}
		var e *broker.Error
		if !errors.As(err, &e) || e.Field != "TypeConcurrency" || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: the error is %v; want it to name TypeConcurrency and say %s", pattern, err, says)
		}
	}
}

func TestServer_ALimitOfATypeIsNotForExtensions(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		var running tally
		cfg := Config{TypeConcurrency: map[string]int{"*": 1}}
		cfg.Extensions = []Extension{{Queue: "@own", Concurrency: 3, Handler: HandlerFunc(func(context.Context, *Job) error {
			running.add("own", 1)
			time.Sleep(time.Second)
			running.add("own", -1)
			return nil
		})}}
		serve(t, b, cfg, func(context.Context, *Job) error { return nil })
		add(t, b, "@own", "slow", 3)
		pass(10 * time.Second)
		if n := running.peak("own"); n != 3 {
			t.Errorf("%d jobs of the extension ran at once, want 3", n)
		}
	})
}

func TestServer_ADeadlineThatPassesWhileAJobWaitsForItsTypeIsKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		var ran atomic.Int64
		serve(t, b, limited(4), func(context.Context, *Job) error { ran.Add(1); time.Sleep(time.Minute); return nil })
		deadline := time.Now().Add(time.Second)
		add(t, b, DefaultQueue, "slow", 2, func(j *broker.NewJob) {
			if j.ID == "slow-1" {
				j.Body.Deadline = deadline
			}
		})
		pass(2 * time.Minute)
		if j := expect(t, b, DefaultQueue, "slow-1", StateDead); j.Reason != broker.ReasonExpired || ran.Load() != 1 {
			t.Errorf("it is dead because of %s, and %d handlers ran; want its deadline, and the handler of the other job alone", j.Reason,
				ran.Load())
		}
	})
}
