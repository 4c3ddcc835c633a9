package redisbroker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
)

// sent counts the keys of the script calls that are sent, by the script's name.
type sent struct {
	mu    sync.Mutex
	calls map[string][]int
}

func (s *sent) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *sent) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		s.count(cmd)
		return next(ctx, cmd)
	}
}

func (s *sent) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			s.count(cmd)
		}
		return next(ctx, cmds)
	}
}

func (s *sent) count(cmd redis.Cmder) {
	if cmd.Name() != "evalsha" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, script := range scripts {
		if script.sha == cmd.Args()[1] {
			s.calls[script.name] = append(s.calls[script.name], cmd.Args()[2].(int))
		}
	}
}

// take returns what was counted, and begins anew.
func (s *sent) take() map[string][]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = make(map[string][]int)
	return calls
}

// A renewal in many queues takes one call for a hundred of them, and asks those apart
// that have something to tell.
func TestRenew_OfManyQueues(t *testing.T) {
	t.Parallel()
	b := open(t, client(t))
	queues := names("q", 250)
	register(t, b, "w", queues...)
	enqueue(t, b, job("q0003", "runs"), job("q0120", "runs"))
	if got := claimAt(t, b, at(1), "w", 2, "q0003", "q0120"); len(got.Jobs) != 2 {
		t.Fatalf("claimed %d jobs, want 2", len(got.Jobs))
	}
	if _, err := b.Renew(t.Context(), broker.RenewRequest{Now: at(1), Worker: "early", Queues: queues[7:8], Lease: time.Second * 30,
		Register: true}); err != nil {
		t.Fatal(err)
	}
	count := &sent{}
	b.store.single.AddHook(count)
	keys := len(extendScript.keys)
	many := []int{100 * keys, 100 * keys, 50 * keys}
	renew := func(now time.Time, held int, want map[string][]int) broker.Renewed {
		t.Helper()
		count.take()
		got, err := b.Renew(t.Context(), broker.RenewRequest{Now: now, Worker: "w", Queues: queues, Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if calls := count.take(); !maps.EqualFunc(calls, want, slices.Equal) {
			t.Errorf("called scripts with so many keys: %v, want %v", calls, want)
		}
		if len(got.Held) != len(queues) || got.Held["q0003"] != held || got.Held["q0120"] != 1 || got.Held["q0001"] != 0 {
			t.Errorf("held: %d queues, q0003 %d, q0120 %d, q0001 %d; want %d, %d, 1, 0", len(got.Held), got.Held["q0003"], got.Held["q0120"],
				got.Held["q0001"], len(queues), held)
		}
		return got
	}
	for n := range 2 {
		got := renew(at(2+n), 1, map[string][]int{"extend": many})
		if want := at(31); !got.NextLapse.Equal(want) || got.Lost {
			t.Errorf("the next leases run out at %v, want %v, when those of one queue do; lost: %t", got.NextLapse, want, got.Lost)
		}
	}
	if _, err := b.Operate(t.Context(), broker.Operation{Now: at(4), Kind: broker.OpCancel,
		Refs: []broker.Ref{{Queue: "q0003", ID: "runs", Epoch: broker.AnyEpoch}}}); err != nil {
		t.Fatal(err)
	}
	got := renew(at(5), 1, map[string][]int{"extend": many, "renew": {len(renewScript.keys)}})
	if fmt.Sprint(got.Cancel) != fmt.Sprint([]broker.Ref{{Queue: "q0003", ID: "runs"}}) {
		t.Errorf("asked to cancel: %v, want the job of q0003", got.Cancel)
	}
	if _, err := b.Retire(t.Context(), broker.RetireRequest{Now: at(6), Worker: "w", Queues: queues[200:201]}); err != nil {
		t.Fatal(err)
	}
	again, err := b.Renew(t.Context(), broker.RenewRequest{Now: at(7), Worker: "w", Queues: queues, Lease: time.Minute})
	if err != nil || !again.Lost {
		t.Errorf("Renew of a worker that one queue has ended: lost %t, %v", again.Lost, err)
	}
	if n := b.store.single.ZScore(t.Context(), b.queue("q0200").key("w"), "w"); n.Err() == nil {
		t.Errorf("Renew noted a worker that the queue has ended: until %v", n.Val())
	}
}
