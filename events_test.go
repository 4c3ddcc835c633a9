package jobs

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// slowly takes a long while for each line of the log.
type slowly struct {
	slog.Handler
	line time.Duration
}

func (h slowly) Handle(ctx context.Context, r slog.Record) error {
	time.Sleep(h.line)
	return h.Handler.Handle(ctx, r)
}

func TestServer_ASlowLogAndSlowHooksDoNotMakeTheHeartbeatLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		var renewals atomic.Int64
		b := &tap{Broker: store}
		b.renew = func(ctx context.Context, req broker.RenewRequest) (broker.Renewed, error) {
			if renewals.Add(1)%3 == 0 {
				return broker.Renewed{}, errCut // which is told to the log and to the hook
			}
			return store.Renew(ctx, req)
		}
		var log testLog
		slow := func() { time.Sleep(30 * time.Second) }
		cfg := Config{Logger: slog.New(slowly{slog.NewTextHandler(&log, nil), 30 * time.Second}),
			Hooks: Hooks{Renew: func(RenewEvent) { slow() }, Worker: func(WorkerEvent) { slow() }}}
		s := serve(t, b, cfg, func(context.Context, *Job) error { return nil })
		synctest.Wait()
		first := currentWorker(s)
		pass(30 * time.Minute)
		if currentWorker(s) != first {
			t.Error("the worker was lost to a slow log")
		}
		if n := renewals.Load(); n < 30*60/5 {
			t.Errorf("%d renewals in half an hour", n)
		}
		pass(10 * time.Minute)
		if len(log.lines("events of the heartbeat were dropped")) == 0 {
			t.Error("nothing tells that events were dropped")
		}
		began := time.Now()
		s.Shutdown(t.Context())
		if took := time.Since(began); took > 2*time.Minute { // four lines of the drain itself
			t.Errorf("the shutdown took %v", took)
		}
		time.Sleep(3 * time.Hour) // until the last event was told, outside of the drain
	})
}

func TestServer_ShutdownNeedsAContext(t *testing.T) {
	t.Parallel()
	s, err := NewServer(newStore(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	var none context.Context
	if err := s.Shutdown(none); !errors.Is(err, ErrInvalid) {
		t.Errorf("Shutdown without a context says %v, want ErrInvalid as Run does", err)
	}
	if err := s.Start(context.Background(), HandlerFunc(func(context.Context, *Job) error { return nil })); err != nil {
		t.Errorf("a refused Shutdown did something: %v", err)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestServer_RenewEventsOfARegistrationHaveAMarginThatMakesSense(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCable(newStore())
		var events []RenewEvent
		c.setCut(true)
		s := serve(t, c, Config{Hooks: Hooks{Renew: func(e RenewEvent) { events = append(events, e) }}},
			func(context.Context, *Job) error { return nil })
		pass(10 * time.Second)
		c.setCut(false)
		pass(10 * time.Second)
		s.Shutdown(t.Context())
		if len(events) < 2 || events[0].Err == nil {
			t.Fatalf("the hook was told %+v", events)
		}
		for _, e := range events {
			if e.Err != nil && e.Margin != 0 || e.Err == nil && (e.Margin <= 0 || e.Margin > broker.DefaultLease) {
				t.Errorf("the hook was told of a margin of %v beside the error %v", e.Margin, e.Err)
			}
		}
	})
}

func TestServer_ATransactionThatSaidTheLeaseIsLostIsNoCompletion(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newTransactional()
		var verdicts []broker.Verdict
		s := serve(t, b, Config{Prefetch: NoPrefetch, Hooks: Hooks{Settle: func(e SettleEvent) { verdicts = append(verdicts, e.Verdicts...) }}},
			func(_ context.Context, job *Job) error {
				job.CompletesInTx()          // in a first transaction, which was rolled back
				b.committed[job.ID()] = true // by another server, under a later lease
				return ErrLeaseLost          // as the second transaction was told
			})
		add(t, b, DefaultQueue, "order", 1)
		pass(time.Minute)
		if len(verdicts) != 1 || !errors.Is(verdicts[0].Err, ErrLeaseLost) {
			t.Errorf("hooks were told %+v, want that the lease was lost", verdicts)
		}
		s.Shutdown(t.Context())
	})
}

func TestServer_AfterAClaimThatTimedOutOutcomesGoAloneForALease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		b := &tap{Broker: store}
		var lost, claims atomic.Int64
		b.claim = func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
			if req.Wait == 0 && len(req.Settle.Items) > 0 {
				lost.Add(1)
				<-ctx.Done() // and the store rolls back all of it
				return broker.Claimed{}, errCut
			}
			claims.Add(1)
			time.Sleep(time.Millisecond)
			return store.Claim(ctx, req)
		}
		s := serve(t, b, Config{Concurrency: 4}, func(context.Context, *Job) error {
			time.Sleep(2 * time.Millisecond)
			return nil
		})
		add(t, store, DefaultQueue, "a", 10_000)
		add(t, store, DefaultQueue, "b", 10_000)
		pass(70 * time.Second)
		if lost.Load() == 0 || claims.Load() == 0 {
			t.Errorf("%d claims carried outcomes, %d did not: this test wants both", lost.Load(), claims.Load())
		}
		if most := int64(70*time.Second/broker.DefaultLease) + 1; lost.Load() > most {
			t.Errorf("%d claims took outcomes down with them in 70 s, want %d at most", lost.Load(), most)
		}
		if n := count(t, store, DefaultQueue, StateCompleted); n < 19_000 {
			t.Errorf("%d of 20000 jobs are done", n)
		}
		s.Shutdown(t.Context())
	})
}
