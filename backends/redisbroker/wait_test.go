package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
)

// waitFor returns a request for one job, with a wait.
func waitFor(worker string, wait time.Duration, queues ...string) broker.ClaimRequest {
	req := broker.ClaimRequest{Worker: worker, Max: 1, Wait: wait}
	for _, q := range queues {
		req.Queues = append(req.Queues, broker.Share{Queue: q, Max: 1})
	}
	return req
}

func registerNow(t *testing.T, b *Broker, worker string, queues ...string) {
	t.Helper()
	got, err := b.Renew(t.Context(), broker.RenewRequest{Worker: worker, Queues: queues, Lease: time.Hour, Register: true})
	if err != nil || got.Lost {
		t.Fatalf("Renew of %s: lost %v, %v", worker, got.Lost, err)
	}
}

// eachKind runs a test on one server and on a Cluster.
func eachKind(t *testing.T, test func(*testing.T, redis.UniversalClient)) {
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		test(t, client(t))
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		test(t, clusterClient(t))
	})
}

// A caller that goes away while its wait ends must leave no leased job behind, and must not
// take a wake-up from another waiting claim.
func TestWait_AWaitThatIsCancelledStrandsNothingAndWakesTheNext(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, client redis.UniversalClient) {
		const rounds = 40
		b := open(t, client)
		registerNow(t, b, "fickle", "q1", "q2")
		registerNow(t, b, "steady", "q1", "q2")
		for round := range rounds {
			queue := fmt.Sprint("q", round%2+1)
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			got := make(chan broker.Claimed, 1)
			wg.Go(func() {
				claimed, err := b.Claim(ctx, waitFor("fickle", time.Minute, "q1", "q2"))
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("Claim: %v", err)
				}
				got <- claimed
			})
			taken := make(chan []broker.Job, 1)
			wg.Go(func() {
				start := time.Now()
				for {
					claimed, err := b.Claim(t.Context(), waitFor("steady", 20*time.Second, "q1", "q2"))
					if err != nil {
						t.Errorf("Claim: %v", err)
					}
					if len(claimed.Jobs) > 0 || err != nil {
						taken <- claimed.Jobs
						return
					}
					if time.Since(start) > 15*time.Second {
						t.Error("nobody woke the second waiter")
						taken <- nil
						return
					}
				}
			})
			waiting(t, b, queue, 2)
			wg.Go(cancel)
			wg.Go(func() {
				if _, err := b.Enqueue(context.Background(), broker.EnqueueRequest{Jobs: []broker.NewJob{job(queue,
					fmt.Sprint("j", round))}}); err != nil {
					t.Error(err)
				}
			})
			if first := <-got; len(first.Jobs) > 0 { // it got the job before its end: the second needs another
				settleAll(t, b, "fickle", first.Jobs)
				enqueueNow(t, b, job(queue, fmt.Sprint("more", round)))
			}
			settleAll(t, b, "steady", <-taken)
			wg.Wait()
		}
		if err := b.Close(); err != nil { // waits until jobs and tokens are put back
			t.Fatal(err)
		}
		after := openAs(t, client, b.config)
		for _, worker := range []string{"fickle", "steady"} {
			held, err := after.Renew(t.Context(), broker.RenewRequest{Worker: worker, Queues: []string{"q1", "q2"}, Lease: time.Hour})
			if err != nil || held.Held["q1"]+held.Held["q2"] != 0 {
				t.Errorf("%s holds %v, %v, want nothing", worker, held.Held, err)
			}
		}
	})
}

// waiting returns when n connections of the broker's client are blocked on the server that
// has a queue.
func waiting(t *testing.T, b *Broker, queue string, n int) {
	t.Helper()
	node, err := b.store.node(t.Context(), b.queue(queue).key("t"))
	if err != nil {
		t.Fatal(err)
	}
	ours := "name=" + node.Options().ClientName
	for deadline := time.Now().Add(10 * time.Second); ; {
		list, err := node.ClientList(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		blocked := 0
		for line := range strings.Lines(list) {
			if fields := strings.Fields(line); slices.Contains(fields, ours) && slices.Contains(fields, "flags=b") {
				blocked++
			}
		}
		if blocked >= n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d connections wait, want %d", blocked, n)
		}
	}
}

func enqueueNow(t *testing.T, b *Broker, jobs ...broker.NewJob) {
	t.Helper()
	receipts, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: jobs})
	for _, r := range receipts {
		err = errors.Join(err, r.Err)
	}
	if err != nil {
		t.Fatalf("Enqueue: %v", err)
	}
}

// settleAll completes jobs, without a number of its own for each worker.
func settleAll(t *testing.T, b *Broker, worker string, jobs []broker.Job) {
	t.Helper()
	if len(jobs) == 0 {
		return
	}
	req := broker.SettleRequest{Worker: worker, Number: settles.next()}
	for i := range jobs {
		req.Items = append(req.Items, broker.Settlement{Job: &jobs[i], Outcome: broker.Complete(nil)})
	}
	verdicts, err := b.Settle(t.Context(), req)
	for _, v := range verdicts {
		err = errors.Join(err, v.Err)
	}
	if err != nil {
		t.Errorf("Settle: %v", err)
	}
}

// counter numbers the settles of all tests, so that each worker's numbers rise.
type counter struct {
	mu sync.Mutex
	n  int64
}

var settles counter

func (c *counter) next() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return c.n
}

// Two waits of one claim may both take a token, of which the claim needs only one.
func TestWait_ATokenThatWasTakenForNothingIsLeftAgain(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	registerNow(t, b, "w", "q")
	enqueueNow(t, b, job("q", "a"))
	key := b.queue("q").key("t")
	if err := c.LPop(t.Context(), key).Err(); err != nil {
		t.Fatal(err)
	}
	b.putBack(&claimant{worker: "w"}, &blocked{queues: []string{"q"}, called: "q"})
	if n, err := c.LLen(t.Context(), key).Result(); n != 1 || err != nil {
		t.Errorf("got %d tokens, %v, want 1", n, err)
	}
}

// The worker whose wait a token ends may have ended meanwhile.
func TestWait_AWorkerThatEndedLeavesTheWakeUpToTheNext(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, client redis.UniversalClient) {
		b := open(t, client)
		registerNow(t, b, "first", "q")
		registerNow(t, b, "second", "q")
		ended := make(chan error, 1)
		go func() {
			_, err := b.Claim(t.Context(), waitFor("first", time.Minute, "q"))
			ended <- err
		}()
		waiting(t, b, "q", 1)
		got := make(chan broker.Claimed, 1)
		go func() {
			claimed, err := b.Claim(t.Context(), waitFor("second", time.Minute, "q"))
			if err != nil {
				t.Errorf("Claim: %v", err)
			}
			got <- claimed
		}()
		waiting(t, b, "q", 2)
		if _, err := b.Retire(t.Context(), broker.RetireRequest{Worker: "first", Queues: []string{"q"}}); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		enqueueNow(t, b, job("q", "a"))
		if err := <-ended; !errors.Is(err, broker.ErrWorkerGone) {
			t.Errorf("the wait of a worker that ended: got %v, want ErrWorkerGone", err)
		}
		if claimed := <-got; len(claimed.Jobs) != 1 || time.Since(start) > 30*time.Second {
			t.Errorf("the second worker got %d jobs after %v, want one at once", len(claimed.Jobs), time.Since(start))
		}
	})
}

// A job that is due before all others ends a wait when it is enqueued, so that the caller
// learns when to ask again.
func TestWait_AnEarlierDueTimeEndsAWait(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, client redis.UniversalClient) {
		b := open(t, client)
		registerNow(t, b, "w", "q1", "q2")
		got := make(chan broker.Claimed, 1)
		go func() {
			claimed, err := b.Claim(t.Context(), waitFor("w", time.Minute, "q1", "q2"))
			if err != nil {
				t.Errorf("Claim: %v", err)
			}
			got <- claimed
		}()
		waiting(t, b, "q1", 1)
		j := job("q1", "soon")
		j.Delay = time.Hour
		enqueueNow(t, b, j)
		if claimed := <-got; len(claimed.Jobs) > 0 || claimed.NextDue.Before(claimed.Now.Add(59*time.Minute)) {
			t.Errorf("the wait ended with %d jobs and the next due at %v, want none, in an hour", len(claimed.Jobs), claimed.NextDue)
		}
	})
}

// A wait ends at the next due time, so that callers need no timer.
func TestWait_AWaitEndsWhenAJobIsDue(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, client redis.UniversalClient) {
		b := open(t, client)
		registerNow(t, b, "w", "q1", "q2")
		j := job("q2", "soon")
		j.Delay = 100 * time.Millisecond
		enqueueNow(t, b, j)
		start := time.Now()
		claimed, err := b.Claim(t.Context(), waitFor("w", time.Minute, "q1", "q2"))
		if err != nil || len(claimed.Jobs) != 1 {
			t.Errorf("Claim: %d jobs, %v, want the one that became due", len(claimed.Jobs), err)
		}
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("the wait took %v", took)
		}
	})
}

// The token exists exactly as long as something can be claimed.
func TestWakeTokens(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	register(t, b, "w", "q")
	tokens := func(when string, want int64) {
		t.Helper()
		if n, err := c.LLen(t.Context(), b.queue("q").key("t")).Result(); n != want || err != nil {
			t.Errorf("%s: got %d tokens, %v, want %d", when, n, err, want)
		}
	}
	pause := func(paused bool) {
		t.Helper()
		if _, err := b.Policy(t.Context(), broker.PolicyRequest{Queue: "q", Paused: &paused}); err != nil {
			t.Fatal(err)
		}
	}
	tokens("a new queue", 0)
	enqueue(t, b, job("q", "a"), job("q", "b"), job("q", "c"))
	tokens("three jobs", 1)
	claimAt(t, b, at(0), "w", 2, "q")
	tokens("one job left", 1)
	pause(true)
	tokens("paused", 0)
	enqueue(t, b, job("q", "d"))
	tokens("enqueued while paused", 0)
	claimAt(t, b, at(0), "w", 2, "q")
	tokens("claimed while paused", 0)
	pause(false)
	tokens("resumed", 1)
	got := claimAt(t, b, at(0), "w", 5, "q")
	tokens("nothing left", 0)
	req := broker.SettleRequest{Now: at(0), Worker: "w", Number: 1}
	req.Items = append(req.Items, broker.Settlement{Job: &got.Jobs[0], Outcome: broker.Release()})
	if _, err := b.Settle(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	tokens("released", 1)
	claimAt(t, b, at(0), "w", 5, "q")
	tokens("nothing left again", 0)

	// Entries of deleted jobs are no reason for a wake-up.
	enqueue(t, b, job("q", "e"), job("q", "f"), job("q", "g"))
	results, err := b.Operate(t.Context(), broker.Operation{Now: at(0), Kind: broker.OpDelete,
		Refs: []broker.Ref{{Queue: "q", ID: "f", Epoch: broker.AnyEpoch}, {Queue: "q", ID: "g", Epoch: broker.AnyEpoch}}})
	if err != nil || results[0].Err != nil || results[1].Err != nil {
		t.Fatal(results, err)
	}
	if got := claimAt(t, b, at(0), "w", 1, "q"); len(got.Jobs) != 1 || got.More {
		t.Errorf("a claim of the last job got %d and says there are more: %t", len(got.Jobs), got.More)
	}
	tokens("two deleted jobs left", 0)

	// A claim that waits must learn of a due time that it does not know.
	pause(true)
	j := job("q", "later")
	j.Delay = time.Hour
	first := job("q", "first")
	first.Delay = time.Hour / 2
	enqueue(t, b, j, first)
	tokens("scheduled while paused", 0)
	pause(false)
	tokens("resumed with scheduled jobs", 1)
	claimAt(t, b, at(0), "w", 5, "q")
	tokens("a claim was told when the first is due", 0)
	for _, move := range []struct {
		delay time.Duration
		want  int64
	}{{2 * time.Hour, 0}, {time.Minute, 1}} {
		results, err := b.Operate(t.Context(), broker.Operation{Now: at(0), Kind: broker.OpReschedule, Delay: move.delay,
			Refs: []broker.Ref{{Queue: "q", ID: "later", Epoch: broker.AnyEpoch}}})
		if err != nil || results[0].Err != nil {
			t.Fatal(results, err)
		}
		tokens("rescheduled by "+move.delay.String(), move.want)
	}
}
