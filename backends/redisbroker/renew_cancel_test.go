package redisbroker

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/examinetest"
)

// The requests to cancel of a queue are those of all its workers. Only a renewal of a worker that has one of them
// looks through them, each time until the lease has ended, also if a look failed.
func TestRenew_OnlyWorkersAskedToCancelLookThroughTheRequests(t *testing.T) {
	t.Parallel()
	b := open(t, client(t))
	group := slices.DeleteFunc(names("q", 50), func(name string) bool { return groupOf(name) != groupOf("q0001") })
	q, p := group[0], group[1]
	counted := &sent{}
	leased := make(map[string][]broker.Job)
	for _, worker := range []string{"asked", "other"} {
		register(t, b, worker, q, p)
		enqueue(t, b, job(q, worker+" first"), job(p, worker+" second"))
		leased[worker] = claimAt(t, b, at(0), worker, 2, q, p).Jobs
		if len(leased[worker]) != 2 {
			t.Fatalf("%s has %d jobs, want 2", worker, len(leased[worker]))
		}
	}
	counted.take()
	var refuses *script
	b.store.single.AddHook(counted)
	b.store.single.AddHook(around{before: func(cmd redis.Cmder) error {
		if args := cmd.Args(); refuses != nil && len(args) > 1 && args[1] == refuses.sha {
			return full{}
		}
		return nil
	}})
	renew := func(worker string, lookups int, want ...string) {
		t.Helper()
		counted.take()
		got, err := b.Renew(t.Context(), broker.RenewRequest{Now: at(1), Worker: worker, Queues: []string{q, p}, Lease: time.Minute})
		if err != nil || got.Lost {
			t.Fatalf("%s: lost %t, %v", worker, got.Lost, err)
		}
		var ids []string
		for _, ref := range got.Cancel {
			ids = append(ids, ref.ID)
		}
		if slices.Sort(ids); !slices.Equal(ids, want) {
			t.Errorf("%s is asked to cancel %q, want %q", worker, ids, want)
		}
		if calls := counted.take(); len(calls["register"]) != lookups {
			t.Errorf("%s looks through the requests of %d queues, want %d", worker, len(calls["register"]), lookups)
		}
	}
	ask := func(queue, id string) {
		t.Helper()
		results, err := b.Operate(t.Context(), broker.Operation{Now: at(0), Kind: broker.OpCancel,
			Refs: []broker.Ref{{Queue: queue, ID: id, Epoch: broker.AnyEpoch}}})
		if err != nil || results[0].Err != nil {
			t.Fatal(results, err)
		}
	}
	renew("asked", 0)
	renew("other", 0)
	ask(q, "asked first")
	for range 3 {
		renew("asked", 1, "asked first")
		renew("other", 0)
	}
	ask(p, "asked second")
	renew("asked", 2, "asked first", "asked second")

	refuses = registerScript
	req := broker.RenewRequest{Now: at(1), Worker: "asked", Queues: []string{q, p}, Lease: time.Minute}
	if _, err := b.Renew(t.Context(), req); err == nil {
		t.Error("a renewal whose look is refused answers no error; the test shows nothing then")
	}
	refuses = nil
	renew("asked", 2, "asked first", "asked second")

	ask(q, "other first")
	renew("other", 2, "other first") // it may be asked in any queue of the group
	settle := broker.SettleRequest{Now: at(1), Worker: "asked", Number: 1}
	for i := range leased["asked"] {
		settle.Items = append(settle.Items, broker.Settlement{Job: &leased["asked"][i], Outcome: broker.Complete(nil)})
	}
	if _, err := b.Settle(t.Context(), settle); err != nil {
		t.Fatal(err)
	}
	renew("asked", 1) // it finds that nothing is asked of it any more
	renew("asked", 0)
	renew("other", 1, "other first")

	// An examination that repairs which worker is asked tells that one.
	if err := b.store.single.HSet(t.Context(), b.queue(q).key("c"), "other first", "asked").Err(); err != nil {
		t.Fatal(err)
	}
	renew("other", 1)
	examinetest.Examine(t, b, broker.ExamineRequest{Now: at(1), Queue: q, Fix: true})
	renew("other", 1, "other first")
}

// A job that is asked to cancel and whose lease is lost does not keep its worker from being renewed.
func TestRenew_ARequestToCancelWithoutALeaseHarmsNoWorker(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	register(t, b, "w", "q")
	enqueue(t, b, job("q", "lost"), job("q", "there"))
	claimAt(t, b, at(0), "w", 2, "q")
	results, err := b.Operate(t.Context(), broker.Operation{Kind: broker.OpCancel, Now: at(0),
		Refs: []broker.Ref{{Queue: "q", ID: "lost", Epoch: broker.AnyEpoch}, {Queue: "q", ID: "there", Epoch: broker.AnyEpoch}}})
	if err != nil || results[0].Err != nil || results[1].Err != nil {
		t.Fatal(results, err)
	}
	c.HDel(t.Context(), b.queue("q").key("a"), "lost")
	got, err := b.Renew(t.Context(), broker.RenewRequest{Now: at(1), Worker: "w", Queues: []string{"q"}, Lease: time.Minute})
	if err != nil || got.Lost || len(got.Cancel) != 1 || got.Cancel[0].ID != "there" {
		t.Errorf("Renew: %+v, %v; want the worker renewed, and told of the other job", got, err)
	}
}
