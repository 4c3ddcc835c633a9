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
	"github.com/seed81422ce9/jobs/internal/testenv"
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

// take returns the counts, and resets them.
func (s *sent) take() map[string][]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = make(map[string][]int)
	return calls
}

// A worker that registers in many queues takes one call for each group of them, and makes those that do not exist
// together. Its next renewal counts leases in none.
func TestRegister_OfManyQueues(t *testing.T) {
	t.Parallel()
	c := client(t)
	queues := names("q", 250)
	prefix := testenv.Name(t)
	for worker, want := range []map[string]int{{"extend": 2 * queueGroups, "create": len(queues)}, {"extend": queueGroups}} {
		b := openAs(t, c, Config{Prefix: prefix})
		count := &sent{}
		b.store.single.AddHook(count)
		count.take()
		req := broker.RenewRequest{Worker: fmt.Sprint("w", worker), Queues: queues, Lease: time.Minute, Register: true}
		for n := range 2 {
			req.Now = at(n)
			got, err := b.Renew(t.Context(), req)
			if err != nil || got.Lost || len(got.Held) != len(queues) {
				t.Fatalf("worker %d, renewal %d: %v, lost: %t, held in %d queues; want no error and %d queues", worker, n, err, got.Lost,
					len(got.Held), len(queues))
			}
			calls := make(map[string]int)
			for name, keys := range count.take() {
				calls[name] = len(keys)
			}
			if !maps.Equal(calls, want) {
				t.Errorf("worker %d, renewal %d: calls of scripts: %v, want %v", worker, n, calls, want)
			}
			b.members.of[req.Worker].counted = time.Now() // not yet a minute ago
			req.Register, want = false, map[string]int{"renew": 1}
		}
	}
}

// A renewal of a worker of many queues takes one call with three keys for each group of queues. It also
// asks those queues in which leases may have changed or which have something to report.
func TestRenew_OfManyQueues(t *testing.T) {
	t.Parallel()
	b := open(t, client(t))
	queues := names("q", 250)
	register(t, b, "w", queues...)
	count := &sent{}
	b.store.single.AddHook(count)
	renewAt := func(now time.Time, worker string) broker.Renewed {
		t.Helper()
		count.take()
		got, err := b.Renew(t.Context(), broker.RenewRequest{Now: now, Worker: worker, Queues: queues, Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	calls := func(want map[string]int) {
		t.Helper()
		got := make(map[string]int)
		for name, keys := range count.take() {
			got[name] = len(keys)
			if most := 2 * queueGroups; name == "renew" && keys[0] > most {
				t.Errorf("renew.lua was given %d keys, want %d at most", keys[0], most)
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("calls of scripts: %v, want %v", got, want)
		}
	}
	quiet := func() {
		b.members.of["w"].counted = time.Now()
		for _, in := range b.members.of["w"].queues {
			in.changed = time.Time{}
		}
	}
	quiet()
	renewAt(at(1), "w")
	calls(map[string]int{"renew": 1})

	enqueue(t, b, job("q0003", "runs"), job("q0120", "runs"))
	if got := claimAt(t, b, at(1), "w", 2, "q0003", "q0120"); len(got.Jobs) != 2 {
		t.Fatalf("claimed %d jobs, want 2", len(got.Jobs))
	}
	if _, err := b.Renew(t.Context(), broker.RenewRequest{Now: at(1), Worker: "early", Queues: queues[7:8], Lease: time.Second * 30,
		Register: true}); err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		got := renewAt(at(2+n), "w")
		calls(map[string]int{"renew": 1, "extend": len(groupsOf([]string{"q0003", "q0120"}))})
		if len(got.Held) != len(queues) || got.Held["q0003"] != 1 || got.Held["q0120"] != 1 || got.Held["q0001"] != 0 {
			t.Errorf("held: %d queues, q0003 %d, q0120 %d, q0001 %d; want %d, 1, 1, 0", len(got.Held), got.Held["q0003"], got.Held["q0120"],
				got.Held["q0001"], len(queues))
		}
		if want := at(31); !got.NextLapse.Equal(want) || got.Lost {
			t.Errorf("the next leases run out at %v, want %v, when those of one queue do; lost: %t", got.NextLapse, want, got.Lost)
		}
	}
	quiet()
	if got := renewAt(at(4), "w"); got.Held["q0003"] != 1 || got.Held["q0120"] != 1 {
		t.Errorf("held without a count: q0003 %d, q0120 %d; want what was counted last, 1 and 1", got.Held["q0003"], got.Held["q0120"])
	}
	calls(map[string]int{"renew": 1})

	if _, err := b.Operate(t.Context(), broker.Operation{Now: at(4), Kind: broker.OpCancel,
		Refs: []broker.Ref{{Queue: "q0003", ID: "runs", Epoch: broker.AnyEpoch}}}); err != nil {
		t.Fatal(err)
	}
	for n := range 2 { // as long as the job is active
		got := renewAt(at(5+n), "w")
		if fmt.Sprint(got.Cancel) != fmt.Sprint([]broker.Ref{{Queue: "q0003", ID: "runs"}}) {
			t.Errorf("asked to cancel: %v, want the job of q0003", got.Cancel)
		}
		calls(map[string]int{"renew": 1, "extend": 1, "register": 1})
	}
	if _, err := b.Retire(t.Context(), broker.RetireRequest{Now: at(7), Worker: "w", Queues: queues[200:201]}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := renewAt(at(8), "w"); !got.Lost {
			t.Error("a worker that one queue has ended is not told so")
		}
	}
	if n := b.store.single.ZScore(t.Context(), b.queue("q0200").key("w"), "w"); n.Err() == nil {
		t.Errorf("Renew noted a worker that the queue has ended: until %v", n.Val())
	}
}

// If a worker is renewed for a group of queues, its leases hold in each of them, and run out in each.
func TestRenew_OfAGroupHoldsInItsQueues(t *testing.T) {
	t.Parallel()
	b := open(t, client(t))
	queues := slices.DeleteFunc(names("q", 200), func(name string) bool { return groupOf(name) != 3 })[:3]
	enqueue(t, b, job(queues[1], "runs"))
	register(t, b, "w", queues...)
	register(t, b, "other", queues...)
	if got := claimAt(t, b, at(0), "w", 1, queues[1]); len(got.Jobs) != 1 {
		t.Fatalf("claimed %d jobs, want 1", len(got.Jobs))
	}
	renew := func(worker string, now time.Time) broker.Renewed {
		t.Helper()
		got, err := b.Renew(t.Context(), broker.RenewRequest{Now: now, Worker: worker, Queues: queues, Lease: time.Minute})
		if err != nil || got.Lost {
			t.Fatalf("Renew of %s: lost %t, %v", worker, got.Lost, err)
		}
		return got
	}
	reclaim := func(now time.Time, want int) {
		t.Helper()
		got, err := b.Reclaim(t.Context(), broker.ReclaimRequest{Now: now, Worker: "other", Queues: queues, Max: 5})
		if err != nil || len(got.Jobs) != want || got.More {
			t.Fatalf("reclaimed %d jobs, more %t, %v; want %d", len(got.Jobs), got.More, err, want)
		}
	}
	renew("w", at(1)) // which counts in all queues
	renew("w", at(50))
	renew("other", at(100))
	reclaim(at(100), 0)
	if got := renew("other", at(105)); !got.NextLapse.Equal(at(110)) {
		t.Errorf("the next leases run out at %v, want %v", got.NextLapse, at(110))
	}
	reclaim(at(110), 1)
	if got := renew("other", at(111)); !got.NextLapse.Equal(at(171)) {
		t.Errorf("the next leases run out at %v, want %v, the caller's own", got.NextLapse, at(171))
	}
	q, c := b.queue(queues[0]), b.store.single
	if c.ZScore(t.Context(), q.key("gw"), "w").Err() == nil || c.HExists(t.Context(), q.key("gk"), "w").Val() ||
		c.SIsMember(t.Context(), q.key("gn"), "w").Val() {
		t.Error("the group still has the worker that ran out")
	}
}
