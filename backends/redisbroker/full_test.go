package redisbroker

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// A store without free memory refuses new jobs, but everything that ends jobs or keeps
// workers alive still works, so that it drains.
func TestFull_AFullStoreDrains(t *testing.T) {
	t.Parallel()
	c := clientOf(t, testenv.PrivateRedis(t).URL)
	b := openAs(t, c, Config{})
	for _, worker := range []string{"w1", "w2", "w3"} {
		register(t, b, worker, "q")
	}
	var jobs []broker.NewJob
	for i := range 30 {
		j := job("q", fmt.Sprintf("j%02d", i))
		if i%3 == 0 {
			j.Delay = time.Second
		}
		jobs = append(jobs, j)
	}
	enqueue(t, b, jobs...)
	first := claimAt(t, b, at(0), "w2", 3, "q") // left to be reclaimed
	claimAt(t, b, at(0), "w3", 3, "q")          // left to be released
	mark := broker.MarkRequest{Now: at(0), Action: broker.MarkTake, Name: "m", Owner: "o", TTL: time.Minute}
	if _, err := b.Mark(t.Context(), mark); err != nil {
		t.Fatal(err)
	}
	if err := c.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}

	late := []broker.NewJob{job("q", "late"), job("q2", "late")}
	receipts, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Now: at(0), Jobs: late})
	for i, err := range outcomes(late, receipts, err) {
		if !errors.Is(err, broker.ErrUnavailable) {
			t.Errorf("Enqueue into %s: got %v, want ErrUnavailable", late[i].Queue, err)
		}
	}
	for _, queue := range []string{"q", "q2"} {
		if page, err := b.Find(t.Context(), broker.Query{Queue: queue, IDs: []string{"late"}}); err != nil || len(page.Jobs) != 0 {
			t.Errorf("what was refused is in %s: %v, %v", queue, page.Jobs, err)
		}
	}
	// A program that starts now has not used the queue before.
	register(t, openAs(t, c, Config{}), "w4", "q")
	l := &life{t: t, b: b, queue: "q"}
	l.renew("w1", at(1))
	half := broker.Kept{Checkpoint: []byte("half")}
	l.settle(at(1), "w2", first.Jobs, broker.Keep(half))
	if got, err := b.Mark(t.Context(), mark); err != nil || !got.Held {
		t.Errorf("renewing a mark: %+v, %v", got, err)
	}
	if _, err := b.Retire(t.Context(), broker.RetireRequest{Now: at(2), Worker: "w3", Queues: []string{"q"}}); err != nil {
		t.Errorf("Retire: %v", err)
	}
	failure := broker.Failure{Message: "no"}
	l.settle(at(3), "w1", claimAt(t, b, at(3), "w1", 7, "q").Jobs, broker.Complete(nil), broker.Retry(time.Second, failure),
		broker.Retry(0, failure), broker.Die(broker.ReasonRetries, failure), broker.Release(), broker.Snooze(time.Second, failure),
		broker.Cancel(failure))
	l.operate(broker.Operation{Kind: broker.OpCancel}, first.Jobs[0].ID, "j28")
	l.operate(broker.Operation{Kind: broker.OpReschedule, Delay: time.Second}, "j29")
	l.operate(broker.Operation{Kind: broker.OpDelete}, "j27")
	l.renew("w1", at(59))
	reclaimed, err := b.Reclaim(t.Context(), broker.ReclaimRequest{Now: at(60), Worker: "w1", Queues: []string{"q"}, Max: 10})
	if err != nil || len(reclaimed.Jobs) != 3 {
		t.Errorf("Reclaim: %d jobs, %v", len(reclaimed.Jobs), err)
	}
	for _, j := range reclaimed.Jobs {
		if j.Kept == nil || string(j.Kept.Checkpoint) != "half" {
			t.Errorf("job %s has kept %v on a full server, want %v", j.ID, j.Kept, &half)
		}
	}
	l.settle(at(61), "w1", reclaimed.Jobs, broker.Crash(0, failure))
	for range 3 {
		l.settle(at(62), "w1", claimAt(t, b, at(62), "w1", 30, "q").Jobs, broker.Complete(nil))
	}
	if _, err := b.Prune(t.Context(), broker.PruneRequest{Now: at(63), Queues: []string{"q"}, Max: 10}); err != nil {
		t.Errorf("Prune: %v", err)
	}
	info, err := b.Queues(t.Context(), broker.QueuesRequest{Names: []string{"q"}})
	if err != nil {
		t.Fatal(err)
	}
	for state, n := range info.Queues[0].Counts {
		if state != broker.StateDead && n > 0 {
			t.Errorf("after the drain %d jobs are %v", n, state)
		}
	}
}

// Reclaim also works while other workers, which renewed through their group, are alive, and a live worker hears that it lost a lease.
func TestFull_AFullStoreRecoversLeases(t *testing.T) {
	t.Parallel()
	c := clientOf(t, testenv.PrivateRedis(t).URL)
	b := openAs(t, c, Config{})
	for _, worker := range []string{"alive", "gone"} {
		register(t, b, worker, "q")
	}
	enqueue(t, b, job("q", "a"), job("q", "b"))
	claimAt(t, b, at(0), "gone", 1, "q")
	lost := claimAt(t, b, at(0), "alive", 1, "q")
	if err := c.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	l := &life{t: t, b: b, queue: "q"}
	l.renew("alive", at(59))
	got, err := b.Reclaim(t.Context(), broker.ReclaimRequest{Now: at(61), Worker: "alive", Queues: []string{"q"}, Max: 10})
	if err != nil || len(got.Jobs) != 1 {
		t.Errorf("Reclaim\ngot  %d jobs, %v\nwant 1", len(got.Jobs), err)
	}
	l.settle(at(62), "alive", lost.Jobs, broker.Complete(nil))
	verdicts, err := b.Settle(t.Context(), broker.SettleRequest{Now: at(62), Worker: "alive", Number: 1000,
		Items: []broker.Settlement{{Job: &lost.Jobs[0], Outcome: broker.Complete(nil)}}})
	if err != nil || !errors.Is(verdicts[0].Err, broker.ErrLeaseLost) {
		t.Errorf("a settle of a lease that is over\ngot  %v, %v\nwant ErrLeaseLost", verdicts, err)
	}
}

// Calls that need not remove anything work in a full store, too: a claim that leaves a wake token, a search for leases that takes several
// calls, a watch, and the removal of a queue whose workers ended without notice.
func TestFull_CallsThatRemoveNothingWorkInAFullStore(t *testing.T) {
	t.Parallel()
	c := clientOf(t, testenv.PrivateRedis(t).URL)
	b := openAs(t, c, Config{})
	register(t, b, "w", "q", "left")
	register(t, b, "gone", "q", "left")
	enqueue(t, b, job("q", "a"), job("q", "b"))
	claimAt(t, b, at(0), "gone", 1, "q")
	q, pipe := b.queue("q"), c.Pipeline()
	pipe.Del(t.Context(), q.key("t"))
	pipe.HSet(t.Context(), q.key("n"), "gone", 1)
	pipe.HSet(t.Context(), q.key("k"), "gone", 2) // more than it has, so that the search does not end early
	for i := range 30_000 {
		pipe.HSet(t.Context(), q.key("a"), fmt.Sprint("other", i), "20:w\n")
	}
	pipe.ConfigSet(t.Context(), "maxmemory", "1")
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}

	s := b.newClaim(&broker.ClaimRequest{Worker: "w", Now: at(0)}, true).step(0, 1, "q") // as for a share of 0
	if err := b.runOne(t.Context(), s); err != nil || c.LLen(t.Context(), q.key("t")).Val() != 1 {
		t.Errorf("a claim of no jobs: %v; want a token, since a job can be claimed", err)
	}
	if _, err := b.Watch(t.Context(), broker.WatchRequest{Queues: []string{"q"}}); err != nil {
		t.Errorf("Watch: %v", err)
	}
	results, err := b.Operate(t.Context(), broker.Operation{Kind: broker.OpRemoveQueue, Now: at(1000), Refs: []broker.Ref{{Queue: "left"}}})
	if err != nil || results[0].Err != nil {
		t.Errorf("removing a queue: %v, %v", results, err)
	}
	found := 0
	for call, more := 0, true; more; call++ {
		got, err := b.Reclaim(t.Context(), broker.ReclaimRequest{Now: at(1), Worker: "w", Queues: []string{"q"}, Max: 10})
		if found += len(got.Jobs); err != nil || call > 10 {
			t.Fatalf("call %d of Reclaim: %v", call, err)
		}
		more = got.More
	}
	if found != 1 {
		t.Errorf("reclaimed %d jobs, want 1", found)
	}
}

// A claim that only gives turns to keys that may start nothing works in a full store, too. A mover has put an urgent job into an ordered
// queue, whose head is less urgent.
func TestFull_AKeyWhoseHeadIsLessUrgentDrains(t *testing.T) {
	t.Parallel()
	c := clientOf(t, testenv.PrivateRedis(t).URL)
	b := openAs(t, c, Config{})
	register(t, b, "w", "q")
	stop := broker.OrderStop
	if _, err := b.Policy(t.Context(), broker.PolicyRequest{Queue: "q", Ordered: &stop}); err != nil {
		t.Fatal(err)
	}
	head, urgent := job("q", "head"), job("q", "urgent")
	head.Body.Key, urgent.Body.Key, urgent.Body.Priority = "tenant", "tenant", broker.PriorityNormal-1
	urgent.Restore = &broker.Restored{State: broker.StatePending, CreatedAt: at(0)}
	enqueue(t, b, head)
	l := &life{t: t, b: b, queue: "q"}
	got := claimAt(t, b, at(0), "w", 1, "q").Jobs
	enqueue(t, b, urgent)
	l.settle(at(1), "w", got, broker.Release())
	if err := c.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if got := claimAt(t, b, at(2), "w", 1, "q").Jobs; len(got) != 1 || got[0].ID != "head" {
		t.Errorf("in a full store a claim got %v, want the head", got)
	}
}

// A queue without jobs counts bytes, since a repair did not subtract them. Prune sets the count to 0 in a full store, too.
func TestFull_PruneResetsACountOfBytes(t *testing.T) {
	t.Parallel()
	c := clientOf(t, testenv.PrivateRedis(t).URL)
	b := openAs(t, c, Config{})
	register(t, b, "w", "q")
	enqueue(t, b, job("q", "a"))
	l := &life{t: t, b: b, queue: "q"}
	l.settle(at(1), "w", claimAt(t, b, at(0), "w", 1, "q").Jobs, broker.Complete(nil))
	if err := c.HIncrBy(t.Context(), b.queue("q").key("m"), "bytes", 5).Err(); err != nil {
		t.Fatal(err)
	}
	if err := c.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Prune(t.Context(), broker.PruneRequest{Now: at(2), Queues: []string{"q"}, Max: 10}); err != nil {
		t.Error(err)
	}
	info, err := b.Queues(t.Context(), broker.QueuesRequest{Now: at(2), Names: []string{"q"}})
	if err != nil || len(info.Queues) != 1 || info.Queues[0].Bytes != 0 {
		t.Errorf("after a prune: %+v, %v; want no bytes", info.Queues, err)
	}
}
