package jobs

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

func TestHooks_JoinedHooksAreAllCalledInOrder(t *testing.T) {
	t.Parallel()
	var got []string
	name := func(s string) Hooks {
		return Hooks{
			Claim:   func(ClaimEvent) { got = append(got, s+" claim") },
			Settle:  func(SettleEvent) { got = append(got, s+" settle") },
			Renew:   func(RenewEvent) { got = append(got, s+" renew") },
			Reclaim: func(ReclaimEvent) { got = append(got, s+" reclaim") },
			Worker:  func(WorkerEvent) { got = append(got, s+" worker") },
			Stuck:   func(StuckEvent) { got = append(got, s+" stuck") },
			Unstuck: func(StuckEvent) { got = append(got, s+" unstuck") },
		}
	}
	all := JoinHooks(name("first"), Hooks{}, name("second"), Hooks{Renew: func(RenewEvent) { got = append(got, "third renew") }})
	all.Claim(ClaimEvent{})
	all.Settle(SettleEvent{})
	all.Renew(RenewEvent{})
	all.Reclaim(ReclaimEvent{})
	all.Worker(WorkerEvent{})
	all.Stuck(StuckEvent{})
	all.Unstuck(StuckEvent{})
	want := []string{"first claim", "second claim", "first settle", "second settle", "first renew", "second renew", "third renew",
		"first reclaim", "second reclaim", "first worker", "second worker", "first stuck", "second stuck", "first unstuck", "second unstuck"}
	if !slices.Equal(got, want) {
		t.Errorf("calls\ngot  %q\nwant %q", got, want)
	}
	none := JoinHooks(Hooks{}, Hooks{})
	if none.Claim != nil || none.Settle != nil || none.Renew != nil || none.Reclaim != nil || none.Worker != nil || none.Stuck != nil ||
		none.Unstuck != nil {
		t.Errorf("joining no hooks gives some: %+v", none)
	}
}

func TestHooks_TheWorkerHookTellsOfStartsLossesAndTheDrain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var mu sync.Mutex
		var events []WorkerEvent
		lost := false
		b := &tap{Broker: newStore()}
		b.renew = func(ctx context.Context, req broker.RenewRequest) (broker.Renewed, error) {
			mu.Lock()
			defer mu.Unlock()
			if lost && !req.Register {
				lost = false
				return broker.Renewed{Lost: true}, nil
			}
			return b.Broker.Renew(ctx, req)
		}
		cfg := Config{Concurrency: 3, Hooks: Hooks{Worker: func(e WorkerEvent) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, e)
		}}}
		gate := make(chan struct{})
		s := serve(t, b, cfg, func(context.Context, *Job) error { <-gate; return nil })
		add(t, b, DefaultQueue, "a", 1)
		pass(time.Second)
		mu.Lock()
		lost = true
		mu.Unlock()
		pass(broker.DefaultLease)
		if err := s.Shutdown(t.Context()); err == nil {
			t.Error("the handler, which the lost worker holds on to, has returned")
		}
		close(gate)
		var kinds []WorkerEventKind
		for _, e := range events {
			kinds = append(kinds, e.Kind)
			if e.Concurrency != 3 || e.Lease != broker.DefaultLease || e.Worker == "" || e.Err != nil {
				t.Errorf("event %+v; want the server's concurrency, its lease and no error", e)
			}
		}
		if want := []WorkerEventKind{WorkerStarted, WorkerLost, WorkerStarted, WorkerDrained}; !slices.Equal(kinds, want) {
			t.Fatalf("a worker that was lost once: events %v, want %v", kinds, want)
		}
		if events[0].Worker != events[1].Worker || events[2].Worker != events[3].Worker || events[0].Worker == events[2].Worker {
			t.Errorf("the events name the wrong workers: %+v", events)
		}
	})
}

// Nobody was told that it began, so nobody is told that it ended.
func TestHooks_AWorkerThatNeverRegisteredIsNotToldOf(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := &tap{Broker: newStore()}
		b.renew = func(context.Context, broker.RenewRequest) (broker.Renewed, error) { return broker.Renewed{}, errCut }
		var mu sync.Mutex
		var events []WorkerEvent
		s := serve(t, b, Config{Hooks: Hooks{Worker: func(e WorkerEvent) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, e)
		}}}, func(context.Context, *Job) error { return nil })
		pass(time.Second)
		if err := s.Shutdown(t.Context()); err != nil {
			t.Errorf("the drain of a server that could not register says: %v", err)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(events) > 0 {
			t.Errorf("the hook was told of a worker that never registered: %+v", events)
		}
	})
}
