package jobs

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// shutDown ends s, whose store is well, and checks that nothing holds it up.
func shutDown(t *testing.T, s *Server) {
	t.Helper()
	began := time.Now()
	if err := s.Shutdown(t.Context()); err != nil {
		t.Errorf("the drain says: %v", err)
	}
	if took := time.Since(began); took > 100*time.Millisecond {
		t.Errorf("the drain of an idle server took %v", took)
	}
	if n := s.engine.Stats().Unsettled; n != 0 {
		t.Errorf("%d outcomes were never sent", n)
	}
}

func currentWorker(s *Server) string { return s.engine.Stats().Worker }

func TestServer_JobsOfAClaimAnsweredAfterItsWorkerWasLostAreReleased(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		c := newCable(store)
		slow := &tap{Broker: store, renew: c.renew}
		slow.claim = func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
			got, err := store.Claim(ctx, req)
			if len(got.Jobs) > 0 {
				time.Sleep(3 * time.Second)
			}
			return got, err
		}
		s := serve(t, slow, Config{}, func(context.Context, *Job) error { return nil })
		synctest.Wait()
		first := workers(t, store)[0].ID
		c.setCut(true)
		pass(broker.DefaultLease - time.Second)
		add(t, store, DefaultQueue, "a", 1) // which the worker claims right before it is lost
		pass(1500 * time.Millisecond)
		c.setCut(false)
		pass(30 * time.Second)
		if currentWorker(s) == first {
			t.Fatal("the worker was not lost, which this test is about")
		}
		j := expect(t, store, DefaultQueue, "a-0", StateCompleted)
		if j.Deliveries != 2 || j.Crashes != 0 {
			t.Errorf("the job was delivered %d times with %d crashes; want that its late lease was released", j.Deliveries, j.Crashes)
		}
		shutDown(t, s)
	})
}

func TestServer_JobsOfAReclaimAnsweredAfterItsWorkerWasLostAreSettled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := newStore()
		slow := &tap{Broker: store}
		slow.reclaim = func(ctx context.Context, req broker.ReclaimRequest) (broker.Claimed, error) {
			got, err := store.Reclaim(ctx, req)
			if len(got.Jobs) > 0 {
				if _, err := store.Retire(ctx, broker.RetireRequest{Worker: req.Worker, Queues: req.Queues}); err != nil {
					t.Error(err)
				}
				time.Sleep(maxHeartbeat + time.Second) // until a renewal was told of it
			}
			return got, err
		}
		abandon(t, store, "ghost", broker.DefaultLease+time.Second)
		s := serve(t, slow, Config{}, func(context.Context, *Job) error { return nil })
		synctest.Wait()
		first := currentWorker(s)
		pass(time.Minute)
		if currentWorker(s) == first {
			t.Fatal("the worker was not lost, which this test is about")
		}
		expect(t, store, DefaultQueue, "ghost-0", StateCompleted)
		shutDown(t, s)
	})
}

// abandon has a worker claim a job of its own and never renew it.
func abandon(t *testing.T, b broker.Broker, name string, lease time.Duration) {
	t.Helper()
	add(t, b, DefaultQueue, name, 1)
	_, err := b.Renew(t.Context(), broker.RenewRequest{Worker: name, Queues: []string{DefaultQueue}, Lease: lease, Register: true,
		Info: broker.WorkerInfo{ID: name}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := b.Claim(t.Context(), broker.ClaimRequest{Worker: name, Queues: []broker.Share{{Queue: DefaultQueue, Max: 1}}, Max: 1})
	if err != nil || len(got.Jobs) != 1 {
		t.Fatalf("the worker %s got %d jobs: %v", name, len(got.Jobs), err)
	}
}
