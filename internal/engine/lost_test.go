package engine

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

func TestServer_AJobClaimedWhileTheLeasesAreListedIsNotMistakenForALostOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		listed := make(chan struct{}, 100)
		slow := &tap{Broker: b, find: func(ctx context.Context, q broker.Query) (broker.Page, error) {
			page, err := b.Find(ctx, q)
			if q.Worker != "" {
				listed <- struct{}{}
				time.Sleep(time.Second)
			}
			return page, err
		}}
		s := serve(t, slow, Options{}, func(ctx context.Context, _ *broker.Job) error {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(time.Minute):
				return nil
			}
		})
		synctest.Wait()
		s.mu.Lock()
		s.worker.suspect = 1
		s.mu.Unlock()
		<-listed
		add(t, b, "a", 1)
		pass(2 * time.Minute)
		if j := stored(t, b, "a-0"); j.State != broker.StateCompleted || j.Deliveries != 1 {
			t.Errorf("it is %v and was delivered %d times, want completed and once", j.State, j.Deliveries)
		}
	})
}

func TestServer_NoRunBeginsUnderALeaseThatIsKnownToBeLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		var block atomic.Bool
		gate := make(chan struct{})
		var mu sync.Mutex
		runs := map[string]int{}
		s := serve(t, b, Options{Concurrency: 2}, func(_ context.Context, j *broker.Job) error {
			mu.Lock()
			runs[j.ID]++
			mu.Unlock()
			if block.Load() {
				<-gate
			}
			return nil
		})
		add(t, b, "quick", 10)
		synctest.Wait()
		block.Store(true)
		add(t, b, "a", 20)
		synctest.Wait()
		id := s.Stats().Worker
		if _, err := b.Retire(t.Context(), broker.RetireRequest{Worker: id, Queues: []string{testQueue}}); err != nil {
			t.Fatal(err)
		}
		poke(s.renewNow)
		synctest.Wait()
		block.Store(false)
		close(gate)
		pass(10 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		twice, done := 0, 0
		for i := range 20 {
			id := "a-" + strconv.Itoa(i)
			if runs[id] > 1 {
				twice++
			}
			if stored(t, b, id).State == broker.StateCompleted {
				done++
			}
		}
		if twice != 2 || done != 20 {
			t.Errorf("%d jobs ran twice, %d of 20 are done; want the 2 whose handlers ran when the worker was lost, and all", twice, done)
		}
	})
}

func TestServer_AJobStartsAtOnceAfterTheWorkerThatWaitedWasLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		var at time.Time
		s := serve(t, b, Options{PollInterval: 4 * time.Second}, func(context.Context, *broker.Job) error { at = time.Now(); return nil })
		pass(time.Minute)
		first := s.Stats().Worker
		if _, err := b.Retire(t.Context(), broker.RetireRequest{Worker: first, Queues: []string{testQueue}}); err != nil {
			t.Fatal(err)
		}
		poke(s.renewNow)
		pass(100 * time.Millisecond)
		now := time.Now()
		add(t, b, "a", 1)
		synctest.Wait()
		if !at.Equal(now) || s.Stats().Worker == first {
			t.Errorf("it ran %v after it was enqueued", at.Sub(now))
		}
	})
}

func TestServer_AJobThatEndsWhileTheLeasesAreListedIsNotReleased(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		slow := &tap{Broker: b, find: func(ctx context.Context, q broker.Query) (broker.Page, error) {
			page, err := b.Find(ctx, q)
			if q.Worker != "" {
				time.Sleep(time.Second)
			}
			return page, err
		}}
		var refused atomic.Int64
		hooks := Hooks{Settle: func(e SettleEvent) {
			for _, v := range e.Verdicts {
				if v.Err != nil {
					refused.Add(1)
				}
			}
		}}
		s := serve(t, slow, Options{Hooks: hooks}, func(context.Context, *broker.Job) error {
			time.Sleep(time.Second + time.Second/2)
			return nil
		})
		synctest.Wait()
		add(t, b, "a", 10)
		pass(time.Second)
		s.mu.Lock()
		s.worker.audit = true
		s.mu.Unlock()
		poke(s.upkeepNow)
		pass(time.Minute)
		if j := stored(t, b, "a-9"); j.State != broker.StateCompleted || refused.Load() > 0 {
			t.Errorf("a job is %v; %d outcomes were refused, want none", j.State, refused.Load())
		}
	})
}
