package jobs

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

func workers(t *testing.T, b broker.Broker) []broker.WorkerInfo {
	t.Helper()
	reply, err := b.Queues(t.Context(), broker.QueuesRequest{Names: []string{DefaultQueue}, Workers: true})
	if err != nil || len(reply.Queues) != 1 {
		t.Fatal(reply, err)
	}
	return reply.Queues[0].Workers
}

func TestServer_AServerRegistersWithWhatOperatorsWantToKnow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		mux := NewServeMux()
		mux.HandleFunc("email:send", func(context.Context, *Job) error { return nil })
		s, err := NewServer(b, Config{Concurrency: 7, Program: "mailer 1.2"})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Start(context.Background(), mux); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		found := workers(t, b)
		if len(found) != 1 {
			t.Fatalf("%d workers are registered", len(found))
		}
		w := found[0]
		if w.Concurrency != 7 || w.Program != "mailer 1.2" || w.PID == 0 || w.Host == "" || !w.StartedAt.Equal(time.Now()) ||
			!slices.Equal(w.Queues, []string{DefaultQueue}) || !slices.Equal(w.Types, []string{"email:send"}) {
			t.Errorf("registered as %+v", w)
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if n := len(workers(t, b)); n != 0 {
			t.Errorf("%d workers are left after the shutdown", n)
		}
	})
}

func TestServer_ALongJobKeepsItsLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		add(t, b, DefaultQueue, "a", 1)
		runs := 0
		var least atomic.Int64
		least.Store(int64(time.Hour))
		cfg := Config{Hooks: Hooks{Renew: func(e RenewEvent) { least.Store(min(least.Load(), int64(e.Margin))) }}}
		handler := func(ctx context.Context, _ *Job) error {
			runs++
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(20 * time.Minute):
				return nil
			}
		}
		serve(t, b, cfg, handler)
		synctest.Wait()
		serve(t, b, Config{}, handler) // would take it over
		pass(21 * time.Minute)
		expect(t, b, DefaultQueue, "a-0", StateCompleted)
		if runs != 1 {
			t.Errorf("it ran %d times", runs)
		}
		if margin := time.Duration(least.Load()); margin < broker.DefaultLease/2 {
			t.Errorf("the lease had only %v left at a renewal", margin)
		}
	})
}

func TestServer_WithoutARenewalForALeaseTheHandlersEndAndAnotherWorkerStarts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCable(newStore())
		add(t, c.Broker, DefaultQueue, "a", 1)
		began := time.Now()
		var took time.Duration
		var runs tally
		gate := make(chan struct{})
		s := serve(t, c, Config{Concurrency: 1}, func(ctx context.Context, j *Job) error {
			if runs.add(j.ID(), 1) > 1 || j.ID() != "a-0" {
				return nil
			}
			<-ctx.Done()
			took = time.Since(began)
			if context.Cause(ctx) != ErrLeaseLost {
				t.Errorf("the cause is %v, want ErrLeaseLost", context.Cause(ctx))
			}
			<-gate
			return errors.New("cut off")
		})
		synctest.Wait()
		first := workers(t, c.Broker)[0].ID
		c.setCut(true)
		pass(time.Minute)
		if took == 0 || took > broker.DefaultLease {
			t.Errorf("the context ended after %v, want a lease at most", took)
		}
		c.setCut(false)
		add(t, c.Broker, DefaultQueue, "other", 1)
		pass(7 * time.Second)
		if now := currentWorker(s); now == first {
			t.Error("the worker has the same ID as before")
		}
		expect(t, c.Broker, DefaultQueue, "other-0", StatePending) // the only slot is held by the old handler
		close(gate)
		pass(time.Second)
		expect(t, c.Broker, DefaultQueue, "other-0", StateCompleted)
		// Nobody had reclaimed the first job, so that what its handler returned counted.
		if j := expect(t, c.Broker, DefaultQueue, "a-0", StateCompleted); j.Failures != 0 || j.Crashes != 0 {
			t.Errorf("it was charged %d failures and %d crashes for the store's absence", j.Failures, j.Crashes)
		}
	})
}

func TestServer_AZombieCannotSettleWhatAnotherServerHasTakenOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		c := newCable(store)
		add(t, store, DefaultQueue, "a", 1)
		gate := make(chan struct{})
		var log testLog
		serve(t, c, Config{Logger: log.logger()}, func(ctx context.Context, _ *Job) error {
			<-gate
			return SkipRetry
		})
		synctest.Wait()
		c.setCut(true)
		ran := 0
		serve(t, store, Config{}, func(context.Context, *Job) error {
			ran++
			time.Sleep(3 * time.Minute)
			return nil
		})
		pass(time.Minute)
		c.setCut(false)
		close(gate)
		pass(time.Minute)
		j := expect(t, store, DefaultQueue, "a-0", StateActive)
		if ran != 1 || j.Crashes != 1 {
			t.Errorf("the other server ran it %d times, %d crashes", ran, j.Crashes)
		}
		if len(log.lines("outcomes were refused")) != 1 {
			t.Errorf("the zombie does not say that its outcome was refused:\n%s", log.String())
		}
		pass(3 * time.Minute)
		expect(t, store, DefaultQueue, "a-0", StateCompleted)
	})
}

func TestServer_AWorkerThatTheStoreEndedStartsAnewAtItsNextRenewal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		var log testLog
		serve(t, b, Config{Logger: log.logger(), Concurrency: 2}, func(ctx context.Context, j *Job) error {
			if j.Type() == "long" {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return nil
		})
		add(t, b, DefaultQueue, "long", 1)
		synctest.Wait()
		id := workers(t, b)[0].ID
		if _, err := b.Retire(t.Context(), broker.RetireRequest{Worker: id, Queues: []string{DefaultQueue}}); err != nil {
			t.Fatal(err)
		}
		add(t, b, DefaultQueue, "a", 1)
		pass(time.Second)
		expect(t, b, DefaultQueue, "a-0", StateCompleted)
		if n := len(log.lines("worker was lost")); n != 1 {
			t.Errorf("%d workers were lost, want 1", n)
		}
	})
}

func TestServer_ASlowStoreDoesNotMakeTheHeartbeatLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		slow := &tap{Broker: b}
		hang := func(ctx context.Context) error { <-ctx.Done(); return errCut }
		slow.claim = func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
			return broker.Claimed{}, hang(ctx)
		}
		slow.settle = func(ctx context.Context, req broker.SettleRequest) ([]broker.Verdict, error) { return nil, hang(ctx) }
		slow.reclaim = func(ctx context.Context, _ broker.ReclaimRequest) (broker.Claimed, error) {
			return broker.Claimed{}, hang(ctx)
		}
		slow.find = func(ctx context.Context, q broker.Query) (broker.Page, error) { return broker.Page{}, hang(ctx) }
		var mu sync.Mutex
		var renewed []time.Time
		cfg := Config{Hooks: Hooks{Renew: func(e RenewEvent) {
			mu.Lock()
			defer mu.Unlock()
			renewed = append(renewed, time.Now())
		}}, ShutdownTimeout: time.Second}
		serve(t, slow, cfg, func(context.Context, *Job) error { return nil })
		pass(10 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		for i := 1; i < len(renewed); i++ {
			if gap := renewed[i].Sub(renewed[i-1]); gap > broker.DefaultLease/3 {
				t.Errorf("renewal %d came %v after the one before", i, gap)
			}
		}
		if len(renewed) < 100 {
			t.Errorf("%d renewals in ten minutes", len(renewed))
		}
	})
}

func TestServer_AJobThatTheStoreNoLongerHoldsForUsEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		add(t, b, DefaultQueue, "a", 2)
		var causes sync.Map
		serve(t, b, Config{}, func(ctx context.Context, j *Job) error {
			select {
			case <-ctx.Done():
				causes.Store(j.ID(), context.Cause(ctx))
			case <-time.After(5 * time.Minute):
			}
			return nil
		})
		synctest.Wait()
		// Somebody settles one lease behind the server's back.
		j := stored(t, b, DefaultQueue, "a-0")
		verdicts, err := b.Settle(t.Context(), broker.SettleRequest{Worker: j.Worker, Number: 1000,
			Items: []broker.Settlement{{Job: &j, Outcome: broker.Cancel(broker.Failure{})}}})
		if err != nil || verdicts[0].Err != nil {
			t.Fatal(verdicts, err)
		}
		pass(broker.DefaultLease)
		if cause, _ := causes.Load("a-0"); cause != ErrLeaseLost {
			t.Errorf("the cause is %v, want ErrLeaseLost", cause)
		}
		if cause, ok := causes.Load("a-1"); ok {
			t.Errorf("the other job ended too: %v", cause)
		}
		pass(10 * time.Minute)
	})
}
