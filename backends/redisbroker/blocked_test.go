package redisbroker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// rules changes the policy of queue q.
func rules(t *testing.T, b *Broker, req broker.PolicyRequest) {
	t.Helper()
	req.Queue = "q"
	if _, err := b.Policy(t.Context(), req); err != nil {
		t.Fatal(err)
	}
}

func keyed(id, key string) broker.NewJob {
	j := job("q", id)
	j.Body.Key = key
	return j
}

// The end of a key's job may leave the key to its rate: then claims that wait learn when the next job may start.
func TestWakeTokens_AKeyThatIsLeftToItsRate(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	register(t, b, "w", "q")
	rules(t, b, broker.PolicyRequest{KeyMaxActive: new(int64(1)), KeyRate: &broker.Rate{Jobs: 1, Per: 10 * time.Second}})
	enqueue(t, b, keyed("1", "tenant"), keyed("2", "tenant"))
	first := claimAt(t, b, at(0), "w", 5, "q")
	if len(first.Jobs) != 1 || !first.NextDue.IsZero() {
		t.Fatalf("the first claim gave %d jobs, next due %v; want 1 and no time, since the key is busy", len(first.Jobs), first.NextDue)
	}
	(&life{t: t, b: b, queue: "q"}).settle(at(1), "w", first.Jobs, broker.Complete(nil))
	if n := c.LLen(t.Context(), b.queue("q").key("t")).Val(); n != 1 {
		t.Errorf("after the settle there are %d tokens, want 1", n)
	}
	if got := claimAt(t, b, at(1), "w", 5, "q"); len(got.Jobs) != 0 || !got.NextDue.Equal(at(10)) {
		t.Errorf("a claim before the rate allows a job gave %d, next due %v; want 0, %v", len(got.Jobs), got.NextDue, at(10))
	}
}

// Programs may set their policy each time they start: that costs nothing for each blocked key.
func TestPolicy_SettingWhatIsSetHasNoKeyLookedAt(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	register(t, b, "w", "q")
	daily := broker.PolicyRequest{KeyRate: &broker.Rate{Jobs: 1, Per: 24 * time.Hour}}
	rules(t, b, daily)
	enqueue(t, b, keyed("1", "tenant"), keyed("2", "tenant"))
	claimAt(t, b, at(0), "w", 5, "q")
	for _, same := range []broker.PolicyRequest{daily, {MaxDepth: new(int64(1000))}, {Paused: new(true)}, {Paused: new(false)}} {
		rules(t, b, same)
		if n := c.ZCard(t.Context(), b.queue("q").key("kd")).Val(); n != 0 {
			t.Errorf("after %+v, claims are to look at %d keys again, want none", same, n)
		}
	}
	rules(t, b, broker.PolicyRequest{KeyRate: &broker.Rate{Jobs: 1, Per: time.Hour}})
	if n := c.ZCard(t.Context(), b.queue("q").key("kd")).Val(); n != 1 {
		t.Errorf("after another rate, claims are to look at %d keys again, want 1", n)
	}
}

// A key may be blocked between two changes of the policy, and the keys of the first change may go before claims look at them.
func TestPolicy_AKeyBlockedBetweenTwoChangesIsLookedAt(t *testing.T) {
	t.Parallel()
	b := open(t, client(t))
	register(t, b, "w", "q")
	rules(t, b, broker.PolicyRequest{Ordered: new(broker.OrderStop)})
	enqueue(t, b, keyed("1", "gone"), keyed("2", "tenant"))
	(&life{t: t, b: b, queue: "q"}).settle(at(0), "w", claimAt(t, b, at(0), "w", 5, "q").Jobs,
		broker.Die(broker.ReasonRetries, broker.Failure{Message: "no"}), broker.Die(broker.ReasonRetries, broker.Failure{Message: "no"}))
	enqueue(t, b, keyed("3", "gone"))
	rules(t, b, broker.PolicyRequest{KeyMaxDepth: new(int64(1000))})
	enqueue(t, b, keyed("4", "tenant"))
	rules(t, b, broker.PolicyRequest{Ordered: new(broker.OrderSkip)})
	r, err := b.Operate(t.Context(), broker.Operation{Kind: broker.OpCancel, Now: at(0),
		Refs: []broker.Ref{{Queue: "q", ID: "3", Epoch: broker.AnyEpoch}}})
	if err != nil || r[0].Err != nil {
		t.Fatal(r, err)
	}
	if got := claimAt(t, b, at(0), "w", 5, "q"); len(got.Jobs) != 1 || got.Jobs[0].ID != "4" {
		t.Errorf("a key whose dead head is to be skipped gave %v, want job 4", got.Jobs)
	}
}

// A job whose body is lost ends as undecodable, and then its key may start other jobs.
func TestClaim_AJobWithoutABodyDoesNotBlockItsKey(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"tenant", strings.Repeat("long", 60)} {
		c := client(t)
		b := open(t, c)
		register(t, b, "w", "q")
		rules(t, b, broker.PolicyRequest{KeyMaxActive: new(int64(1))})
		enqueue(t, b, keyed("lost", key))
		l, failure := &life{t: t, b: b, queue: "q"}, broker.Failure{Message: "no"}
		l.settle(at(0), "w", claimAt(t, b, at(0), "w", 1, "q").Jobs, broker.Retry(0, failure))
		if n := c.HDel(t.Context(), b.queue("q").bucket(0), "lost").Val(); n != 1 {
			t.Fatalf("deleted %d bodies", n)
		}
		for _, outcome := range []broker.Outcome{broker.Retry(0, failure), broker.Die(broker.ReasonUndecodable, failure)} {
			lost := claimAt(t, b, at(1), "w", 1, "q")
			if len(lost.Jobs) != 1 || lost.Jobs[0].Broken == nil {
				t.Fatalf("claimed %+v, want the job without a body", lost.Jobs)
			}
			l.settle(at(1), "w", lost.Jobs, outcome)
		}
		enqueue(t, b, keyed("next", key))
		if got := claimAt(t, b, at(2), "w", 2, "q"); len(got.Jobs) != 1 || got.Jobs[0].ID != "next" {
			t.Errorf("after the job without a body has ended, a claim gave %v; want the key's next job", got.Jobs)
		}
	}
}

// A key that its rate blocked before the clock was set back does not wait until the clock is there again.
func TestPrune_AKeyBlockedBeforeTheClockWasSetBackIsFreed(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	register(t, b, "w", "q")
	rules(t, b, broker.PolicyRequest{KeyRate: &broker.Rate{Jobs: 1, Per: 10 * time.Second}})
	enqueue(t, b, keyed("1", "tenant"), keyed("2", "tenant"))
	if got := claimAt(t, b, at(3600), "w", 5, "q"); len(got.Jobs) != 1 || !got.NextDue.Equal(at(3610)) {
		t.Fatalf("claimed %d jobs, next due %v; want one, and the other ten seconds later", len(got.Jobs), got.NextDue)
	}
	prune := func(n int) {
		t.Helper()
		if _, err := b.Prune(t.Context(), broker.PruneRequest{Now: at(n), Queues: []string{"q"}, Max: 10}); err != nil {
			t.Fatal(err)
		}
	}
	prune(3601)
	if got := claimAt(t, b, at(3602), "w", 5, "q"); len(got.Jobs) != 0 || !got.NextDue.Equal(at(3610)) {
		t.Errorf("while the clock goes on, a claim gave %d jobs, next due %v; want none, %v", len(got.Jobs), got.NextDue, at(3610))
	}
	prune(20)
	if n := c.LLen(t.Context(), b.queue("q").key("t")).Val(); n != 1 {
		t.Errorf("after the clock was set back there are %d tokens, want one", n)
	}
	if got := claimAt(t, b, at(20), "w", 5, "q"); len(got.Jobs) != 1 {
		t.Errorf("after the clock was set back, a claim gave %d jobs, want the other one", len(got.Jobs))
	}
}

// Nor does a queue with a rate, or a queue with a rate of retries, wait for that.
func TestClaim_ARateGoesOnAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	rate := &broker.Rate{Jobs: 1, Per: 10 * time.Second}
	for name, req := range map[string]broker.PolicyRequest{"rate": {Rate: rate}, "rate of retries": {RetryRate: rate}} {
		b := open(t, client(t))
		register(t, b, "w", "q")
		l := &life{t: t, b: b, queue: "q"}
		enqueue(t, b, job("q", "1"), job("q", "2"), job("q", "3"))
		if name != "rate" {
			failed := broker.Retry(time.Second, broker.Failure{Message: "no"})
			l.settle(at(0), "w", claimAt(t, b, at(0), "w", 5, "q").Jobs, failed, failed, failed)
		}
		rules(t, b, req)
		for i, n := range []int{3600, 20, 25, 30} {
			if got := claimAt(t, b, at(n), "w", 5, "q"); len(got.Jobs) != []int{1, 1, 0, 1}[i] {
				t.Errorf("%s: claim %d gave %d jobs, next due %v", name, i+1, len(got.Jobs), got.NextDue)
			}
		}
	}
}

// After a change of the policy, keys wait until claims look at them again. The age of their jobs is shown all the while.
func TestQueues_TheOldestJobIsShownWhileItsKeyWaitsToBeLookedAt(t *testing.T) {
	t.Parallel()
	b := open(t, client(t))
	register(t, b, "w", "q")
	rules(t, b, broker.PolicyRequest{KeyMaxActive: new(int64(1))})
	enqueue(t, b, keyed("1", "tenant"), keyed("2", "tenant"))
	claimAt(t, b, at(0), "w", 5, "q")
	rules(t, b, broker.PolicyRequest{MaxDepth: new(int64(1000))})
	got, err := b.Queues(t.Context(), broker.QueuesRequest{Names: []string{"q"}, Now: at(1)})
	if err != nil || !got.Queues[0].OldestPending[broker.PriorityNormal].Equal(at(0)) {
		t.Errorf("the oldest pending jobs are of %v, %v; want one of %v", got.Queues[0].OldestPending, err, at(0))
	}
}

// Jobs without a key take turns beside those with one. A turn drops a bounded number of void entries.
func TestClaim_ATurnDropsABoundedNumberOfVoidEntries(t *testing.T) {
	t.Parallel()
	const n = 2500
	c := client(t)
	b := open(t, c)
	register(t, b, "w", "q")
	q := b.queue("q")
	pipe := c.Pipeline()
	for i := range n {
		id := fmt.Sprintf("void%04d", i)
		pipe.LPush(t.Context(), q.key("r2"), id)
		pipe.HSet(t.Context(), q.key("v"), "2"+id, 1)
	}
	pipe.HIncrBy(t.Context(), q.key("m"), "void", n)
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	enqueue(t, b, job("q", "plain"))
	for i := range 20 {
		enqueue(t, b, keyed(fmt.Sprint("keyed", i), "tenant"))
	}
	plain, calls := false, 0
	for ; !plain && calls < 10; calls++ {
		before := c.LLen(t.Context(), q.key("r2")).Val()
		for _, j := range claimAt(t, b, at(0), "w", 1, "q").Jobs {
			plain = plain || j.ID == "plain"
		}
		if dropped := before - c.LLen(t.Context(), q.key("r2")).Val(); dropped > 1100 {
			t.Errorf("claim %d dropped %d entries, want about 1000 at most", calls, dropped)
		}
	}
	if !plain {
		t.Errorf("%d claims gave jobs with a key only, want also the one without", calls)
	}
}
