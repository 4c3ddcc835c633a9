package membroker

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// A store made outside a bubble serves calls that wait inside one.
func TestWait_WaitingClaimInABubbleWakesForAnEnqueueOnAStoreFromOutside(t *testing.T) {
	t.Parallel()
	store := NewStore()
	synctest.Test(t, func(t *testing.T) {
		b := store.Open()
		defer b.Close()
		register(t, b, "w", "q")
		got := claimInBackground(t, b, "w", 1, time.Minute, "q")
		synctest.Wait()
		enqueue(t, b, newTestJob("q", "a"))
		if c := <-got; c.err != nil || len(c.Jobs) != 1 || c.Jobs[0].ID != "a" {
			t.Fatalf("the waiting claim answered %v, %v; want job a", ids(c.Jobs), c.err)
		}
	})
}

func TestWait_WaitingClaimTakesADueJobAtItsInstant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := New()
		defer b.Close()
		register(t, b, "w", "q")
		got := claimInBackground(t, b, "w", 1, time.Minute, "q")
		synctest.Wait()
		start := time.Now()
		later, sooner := newTestJob("q", "later"), newTestJob("q", "sooner")
		later.Delay, sooner.Delay = 20*time.Second, 1500*time.Microsecond
		enqueue(t, b, later)
		enqueue(t, b, sooner)
		c := <-got
		if c.err != nil || len(c.Jobs) != 1 || c.Jobs[0].ID != "sooner" {
			t.Fatalf("the waiting claim answered %v, %v; want the job that was due first", ids(c.Jobs), c.err)
		}
		if waited := time.Since(start); waited != sooner.Delay {
			t.Errorf("a job due after %v was claimed after %v", sooner.Delay, waited)
		}
	})
}

func TestWait_WaitingClaimEndsWithItsWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := New()
		defer b.Close()
		register(t, b, "w", "q")
		start := time.Now()
		got, err := b.Claim(t.Context(), claimRequest("w", 1, 3*time.Second, "q"))
		if err != nil || len(got.Jobs) > 0 || time.Since(start) != 3*time.Second {
			t.Fatalf("an empty queue answered %v, %v after %v; want nothing after the wait of 3s", ids(got.Jobs), err, time.Since(start))
		}
	})
}

func TestWait_OneWaiterWakesAtATimeAndAllGetTheirJobs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := New()
		defer b.Close()
		register(t, b, "w", "q", "r")
		const waiters = 10
		var got []<-chan claimed
		for range waiters {
			got = append(got, claimInBackground(t, b, "w", 1, time.Minute, "q", "r"))
		}
		synctest.Wait()

		b.store.mu.Lock()
		q := b.store.queues["q"]
		for _, id := range []string{"0", "1"} {
			q.add(&job{Job: broker.Job{Queue: "q", ID: id, Body: broker.Body{Priority: 1}}}, broker.OnEnqueue, broker.StatePending, time.Time{})
		}
		b.store.wake()
		listening := len(q.waiters)
		b.store.mu.Unlock()
		if listening != waiters-1 {
			t.Fatalf("two jobs of one step left %d of %d waiters; want one to wake, which wakes the next", listening, waiters)
		}

		for n := 2; n < waiters; n++ {
			enqueue(t, b, newTestJob([]string{"q", "r"}[n%2], fmt.Sprint(n)))
		}
		seen := make(map[string]bool)
		for _, c := range got {
			for _, j := range (<-c).Jobs {
				seen[j.ID] = true
			}
		}
		if len(seen) != waiters {
			t.Errorf("%d waiters got the jobs %v; want one each", waiters, seen)
		}
	})
}

func TestWait_AWokenClaimThatGoesAwayHandsItsWakeOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := NewStore()
		leaving, staying := store.Open(), store.Open()
		defer staying.Close()
		register(t, staying, "w", "q")
		ctx, cancel := context.WithCancel(t.Context())
		first := make(chan claimed, 1)
		go func() {
			c, err := leaving.Claim(ctx, claimRequest("w", 1, time.Minute, "q"))
			first <- claimed{c, err}
		}()
		synctest.Wait()
		second := claimInBackground(t, staying, "w", 1, time.Minute, "q")
		synctest.Wait()

		store.mu.Lock() // so that the first waiter is woken and its context ends before it can claim
		q := store.queues["q"]
		q.add(&job{Job: broker.Job{Queue: "q", ID: "a", Body: broker.Body{Priority: 1}}}, broker.OnEnqueue, broker.StatePending, time.Time{})
		store.wake()
		cancel()
		store.mu.Unlock()

		if c := <-first; !errors.Is(c.err, context.Canceled) || len(c.Jobs) > 0 {
			t.Errorf("the claim whose context ended answered %v, %v", ids(c.Jobs), c.err)
		}
		start := time.Now()
		if c := <-second; c.err != nil || len(c.Jobs) != 1 || time.Since(start) > 0 {
			t.Errorf("the other waiter got %v, %v after %v; want the job at once", ids(c.Jobs), c.err, time.Since(start))
		}
	})
}

func TestWait_AKeeperThatLeavesPassesTheTimeKeepingOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := New()
		defer b.Close()
		register(t, b, "w", "q")
		start := time.Now()
		j := newTestJob("q", "a")
		j.Delay = 10 * time.Second
		enqueue(t, b, j)
		keeper := claimInBackground(t, b, "w", 1, time.Second, "q")
		synctest.Wait()
		other := claimInBackground(t, b, "w", 1, time.Minute, "q")
		if c := <-keeper; len(c.Jobs) > 0 {
			t.Fatalf("a claim got %v early", ids(c.Jobs))
		}
		if c := <-other; len(c.Jobs) != 1 || time.Since(start) != j.Delay {
			t.Errorf("after the keeper of the time had left, the other claim got %v after %v; want the job after %v",
				ids(c.Jobs), time.Since(start), j.Delay)
		}
	})
}

func TestWait_ResumeWakesAndPauseDoesNot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := New()
		defer b.Close()
		register(t, b, "w", "q")
		pause(t, b, "q", true)
		got := claimInBackground(t, b, "w", 1, time.Minute, "q")
		synctest.Wait()
		b.store.mu.Lock()
		q := b.store.queues["q"]
		q.add(&job{Job: broker.Job{Queue: "q", ID: "a", Body: broker.Body{Priority: 1}}}, broker.OnEnqueue, broker.StatePending, time.Time{})
		q.add(&job{Job: broker.Job{Queue: "q", ID: "b", Body: broker.Body{Priority: 1}}}, broker.OnEnqueue, broker.StateScheduled,
			time.Now().Add(time.Second))
		b.store.wake()
		if len(q.waiters) == 0 {
			t.Error("a job in a paused queue woke a claim")
		}
		b.store.mu.Unlock()
		synctest.Wait()
		select {
		case c := <-got:
			t.Fatalf("a paused queue gave %v, %v", ids(c.Jobs), c.err)
		default:
		}
		pause(t, b, "q", false)
		start := time.Now()
		if c := <-got; len(c.Jobs) != 1 || time.Since(start) > 0 {
			t.Errorf("resuming gave %v after %v; want the job at once", ids(c.Jobs), time.Since(start))
		}
	})
}

func TestWait_CloseEndsWaitingCallsOfItsHandleOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := NewStore()
		b, other := store.Open(), store.Open()
		register(t, b, "w", "q")
		events, err := b.Watch(t.Context(), broker.WatchRequest{Queues: []string{"q"}})
		if err != nil {
			t.Fatal(err)
		}
		closed := claimInBackground(t, b, "w", 1, time.Minute, "q")
		goesOn := claimInBackground(t, other, "w", 1, time.Minute, "q")
		synctest.Wait()
		start := time.Now()
		b.Close()
		b.Close()
		if c := <-closed; !errors.Is(c.err, broker.ErrClosed) || time.Since(start) > 0 {
			t.Errorf("a waiting claim of the closed handle answered %v after %v, want ErrClosed at once", c.err, time.Since(start))
		}
		if _, open := <-events; open {
			t.Error("the watch of the closed handle goes on")
		}
		if _, err := b.Find(t.Context(), broker.Query{}); !errors.Is(err, broker.ErrClosed) {
			t.Errorf("a later call answered %v, want ErrClosed", err)
		}
		enqueue(t, other, newTestJob("q", "a"))
		if c := <-goesOn; c.err != nil || len(c.Jobs) != 1 {
			t.Errorf("a claim of the handle that stays open got %v, %v", ids(c.Jobs), c.err)
		}
		other.Close()
	})
}

func TestWait_AClaimIsWokenForTwoReasonsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := New()
		register(t, b, "w", "q")
		got := claimInBackground(t, b, "w", 1, time.Minute, "q")
		synctest.Wait()
		b.store.mu.Lock()
		for w := range b.waiting {
			w.wake()
			w.wake()
		}
		b.store.mu.Unlock()
		synctest.Wait()
		start := time.Now()
		enqueue(t, b, newTestJob("q", "a"))
		if c := <-got; c.err != nil || len(c.Jobs) != 1 || time.Since(start) > 0 {
			t.Errorf("the claim answered %v, %v after %v; want the job at once", ids(c.Jobs), c.err, time.Since(start))
		}
		b.Close()
	})
}

func TestWait_AWorkerThatEndsEndsItsWaitingClaims(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := New()
		defer b.Close()
		register(t, b, "w", "q")
		got := claimInBackground(t, b, "w", 1, time.Minute, "q")
		synctest.Wait()
		start := time.Now()
		if _, err := b.Retire(t.Context(), broker.RetireRequest{Worker: "w", Queues: []string{"q"}}); err != nil {
			t.Fatal(err)
		}
		if c := <-got; !errors.Is(c.err, broker.ErrWorkerGone) || time.Since(start) > 0 {
			t.Errorf("the retired worker's claim answered %v, %v after %v; want ErrWorkerGone at once", ids(c.Jobs), c.err, time.Since(start))
		}
	})
}

func TestWait_RemovingAQueueEndsTheClaimsThatWaitForIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := New()
		defer b.Close()
		if _, err := b.Renew(t.Context(), broker.RenewRequest{Worker: "w", Queues: []string{"q"}, Lease: time.Second,
			Register: true}); err != nil {
			t.Fatal(err)
		}
		got := claimInBackground(t, b, "w", 1, time.Minute, "q")
		<-time.After(2 * time.Second) // the worker runs out
		results, err := b.Operate(t.Context(), broker.Operation{Kind: broker.OpRemoveQueue, Refs: []broker.Ref{{Queue: "q"}}})
		if err != nil || results[0].Err != nil {
			t.Fatalf("removing: %+v, %v", results, err)
		}
		start := time.Now()
		if c := <-got; !errors.Is(c.err, broker.ErrWorkerGone) || time.Since(start) > 0 {
			t.Errorf("the claim answered %v, %v after %v; want ErrWorkerGone at once", ids(c.Jobs), c.err, time.Since(start))
		}
	})
}
