package jobs

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

// counted is a store in memory that counts the calls of a server.
type counted struct {
	*membroker.Broker
	calls atomic.Int64
}

func (c *counted) Claim(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
	c.calls.Add(1)
	return c.Broker.Claim(ctx, req)
}

func (c *counted) Settle(ctx context.Context, req broker.SettleRequest) ([]broker.Verdict, error) {
	c.calls.Add(1)
	return c.Broker.Settle(ctx, req)
}

func (c *counted) Renew(ctx context.Context, req broker.RenewRequest) (broker.Renewed, error) {
	c.calls.Add(1)
	return c.Broker.Renew(ctx, req)
}

func (c *counted) Reclaim(ctx context.Context, req broker.ReclaimRequest) (broker.Claimed, error) {
	c.calls.Add(1)
	return c.Broker.Reclaim(ctx, req)
}

func (c *counted) Prune(ctx context.Context, req broker.PruneRequest) (broker.Pruned, error) {
	c.calls.Add(1)
	return c.Broker.Prune(ctx, req)
}

func (c *counted) Find(ctx context.Context, q broker.Query) (broker.Page, error) {
	c.calls.Add(1)
	return c.Broker.Find(ctx, q)
}

// month has one job fail 25 times within 30 virtual days and then succeed, and
// returns how often it ran and how many calls its server made.
func month(tb testing.TB, cfg Config) (runs, calls int64) {
	store := &counted{Broker: membroker.New()}
	cfg.RetryPolicy, cfg.Logger = Constant(28*time.Hour), slog.New(slog.DiscardHandler)
	var ran atomic.Int64
	s := serve(tb, store, cfg, func(context.Context, *Job) error {
		if ran.Add(1) <= 25 {
			return errors.New("not yet")
		}
		return nil
	})
	add(tb, store, DefaultQueue, "a", 1, func(j *broker.NewJob) { j.Body.MaxRetries = 25 })
	time.Sleep(30 * 24 * time.Hour)
	expect(tb, store, DefaultQueue, "a-0", StateCompleted)
	calls = store.calls.Load()
	if err := s.Shutdown(context.Background()); err != nil {
		tb.Error(err)
	}
	return ran.Load(), calls
}

func TestServer_AMonthInVirtualTimeTakesFewCalls(t *testing.T) {
	bubble(t, func(t *testing.T) {
		runs, calls := month(t, Config{})
		t.Logf("%d calls", calls)
		if runs != 26 {
			t.Errorf("the job ran %d times, want 26", runs)
		}
		if calls > 1200 {
			t.Errorf("the server made %d calls in 30 days with 26 runs, want 1200 at most", calls)
		}
	})
}

func TestServer_InProcessTakesOverFromADeadOneAfterTheLeaseOfItsConfig(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := membroker.New()
		c := newCable(store)
		gate := make(chan struct{})
		defer close(gate)
		add(t, store, DefaultQueue, "a", 1)
		cfg := Config{Lease: time.Minute}
		serve(t, c, Config{Lease: cfg.Lease, ShutdownTimeout: -1}, func(context.Context, *Job) error { <-gate; return nil })
		synctest.Wait()
		c.setCut(true)
		began := time.Now()
		var took time.Duration
		serve(t, store, cfg, func(context.Context, *Job) error { took = time.Since(began); return nil })
		pass(cfg.Lease + 20*time.Second) // it looks a lease after its own start at the earliest
		if took == 0 || took > cfg.Lease+time.Second {
			t.Errorf("it ran again after %v, want %v and a second at most", took, cfg.Lease)
		}
	})
}

func TestServer_InProcessLooksIntoALostAnswerTwiceBeforeLong(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := membroker.New()
		var lose atomic.Bool
		var audits tally
		b := &tap{Broker: store, claim: func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
			got, err := store.Claim(ctx, req)
			if len(got.Jobs) > 0 && lose.Swap(false) {
				return broker.Claimed{}, errCut
			}
			return got, err
		}, find: func(ctx context.Context, q broker.Query) (broker.Page, error) {
			if q.Worker != "" {
				audits.add("made", 1)
			}
			return store.Find(ctx, q)
		}}
		serve(t, b, Config{}, func(context.Context, *Job) error { return nil })
		pass(30 * 24 * time.Hour)
		lose.Store(true)
		add(t, store, DefaultQueue, "a", 1)
		pass(time.Second)
		expect(t, store, DefaultQueue, "a-0", StateCompleted)
		pass(maxHeartbeat + time.Second)
		if n := audits.get("made"); n < auditsAfterLoss { // the claim may have been applied after the first one
			t.Errorf("its leases were audited %d times within %v, want %d", n, maxHeartbeat, auditsAfterLoss)
		}
		calm := audits.get("made")
		pass(10 * time.Hour)
		if n := audits.get("made"); n > calm {
			t.Errorf("%d more audits without a doubt", n-calm)
		}
	})
}

func TestServer_InProcessReportsAStuckHandlerInTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := membroker.New()
		gate := make(chan struct{})
		reported := make(chan StuckEvent, 10)
		cfg := Config{Timeout: 2 * time.Hour, Hooks: Hooks{Stuck: func(e StuckEvent) { reported <- e }}}
		serve(t, store, cfg, func(ctx context.Context, j *Job) error {
			if j.Type() == "bound" {
				_, release := WithBound(ctx, Bound{End: time.Now().Add(time.Hour), Grace: 10 * time.Second})
				defer release()
			}
			<-gate
			return nil
		})
		for typ, after := range map[string]time.Duration{
			"slow":      2*time.Hour + defaultStuckGrace,
			"bound":     time.Hour + 10*time.Second,
			"cancelled": time.Hour + defaultStuckGrace,
		} {
			pass(30 * 24 * time.Hour) // so that nothing else has upkeep look
			ids := add(t, store, DefaultQueue, typ, 1)
			began := time.Now()
			if typ == "cancelled" {
				pass(time.Hour)
				cancelJob(t, store, ids[0])
			}
			e := <-reported
			if took := time.Since(began); e.Job.Type() != typ || took < after || took > after+time.Second {
				t.Errorf("%s: %s was reported after %v, want %v", typ, e.Job.Type(), took, after)
			}
		}
		close(gate)
	})
}

func TestServer_InProcessPrunesSoonAfterTheEndOfRetention(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := membroker.New()
		serve(t, store, Config{}, func(context.Context, *Job) error { return nil })
		pass(30 * 24 * time.Hour) // so that it prunes ever more seldom
		for _, keep := range []time.Duration{time.Second, time.Minute, time.Hour} {
			add(t, store, DefaultQueue, "kept-"+keep.String(), 100, func(j *broker.NewJob) { j.Body.Retention = keep })
			synctest.Wait()
			if n := count(t, store, DefaultQueue, StateCompleted); n != 100 {
				t.Fatalf("%d jobs are done, want 100", n)
			}
			pass(2*keep + pruneInterval)
			if n := count(t, store, DefaultQueue, StateCompleted); n != 0 {
				t.Errorf("%d records are left %v after jobs ended that are kept for %v", n, 2*keep+pruneInterval, keep)
			}
		}
	})
}

func TestServer_InProcessSaysInTimeWhatTheLogLeftOut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := membroker.New()
		var log testLog
		serve(t, store, Config{Logger: log.logger(), RetryPolicy: Constant(time.Hour)},
			func(context.Context, *Job) error { return errors.New("no") })
		pass(time.Hour)
		add(t, store, DefaultQueue, "a", 20, func(j *broker.NewJob) { j.Body.MaxRetries = 100 })
		pass(time.Second)
		if n := len(log.lines("were left out")); n != 0 {
			t.Errorf("%d lines on what was left out already after a second", n)
		}
		pass(11 * time.Second)
		if n := len(log.lines("were left out")); n == 0 {
			t.Errorf("nothing was said of the lines left out:\n%s", log.String())
		}
	})
}

func BenchmarkServer_VirtualMonth(b *testing.B) {
	began := cpuTime(b)
	all := func(string, string) (bool, error) { return true, nil }
	for range b.N { // a bubble takes a test, and not a benchmark
		ok := testing.RunTests(all, []testing.InternalTest{{Name: "month", F: func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { month(t, Config{}) })
		}}})
		if !ok {
			b.Fatal("the month failed")
		}
	}
	b.ReportMetric(float64(cpuTime(b)-began)/float64(b.N)/1e6, "cpu-ms/month")
}
