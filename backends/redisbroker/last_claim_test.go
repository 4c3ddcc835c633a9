package redisbroker

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// A claim that need not ask returns the time now, not that of the last claim: a wait that
// counts from the last claim would end late.
func TestWait_AClaimThatNeedsNoLookKnowsTheTime(t *testing.T) {
	t.Parallel()
	var q lastClaim
	req := waitFor("w", time.Second, "q")
	q.remember(&req, &broker.Claimed{Now: at(0), NextDue: at(100)}, nil)
	q.at = q.at.Add(-time.Minute)
	got, ok := q.again(&req)
	if left := got.NextDue.Sub(got.Now); !ok || left > 40*time.Second || left < 30*time.Second {
		t.Errorf("a minute after the last look (%t) the next job is said to be due in %v, want 40s", ok, left)
	}
}

// However many claims waited at once, few of their connections are kept.
func TestWait_FewIdleConnectionsAreKept(t *testing.T) {
	t.Parallel()
	b := open(t, client(t))
	for range 3 * maxIdleWaiters {
		b.waiters.put(newWaiter(b.store.single))
	}
	if n := len(b.waiters.idle); n != maxIdleWaiters {
		t.Errorf("%d connections are kept, want %d", n, maxIdleWaiters)
	}
	for range 5 { // nodes of a Cluster that changes
		node := redis.NewClient(b.store.single.Options())
		t.Cleanup(func() { _ = node.Close() })
		for range maxIdleWaiters {
			b.waiters.put(newWaiter(node))
		}
	}
	if n := len(b.waiters.idle); n != maxIdle {
		t.Errorf("%d connections to five servers are kept, want %d", n, maxIdle)
	}
}

// If each job left a token, as many claims would end without a job.
func TestWait_OneTokenIsLeftWhateverWakes(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	register(t, b, "w", "q")
	enqueue(t, b, several("q", 4, nil)...)
	held := claimAt(t, b, at(0), "w", 4, "q").Jobs
	l := &life{t: t, b: b, queue: "q"}
	for what, wake := range map[string]func(i int){
		"retried at once": func(i int) { l.settle(at(0), "w", held[i:i+1], broker.Retry(0, broker.Failure{})) },
		"released":        func(i int) { l.settle(at(0), "w", held[2+i:3+i], broker.Release()) },
		"enqueued": func(i int) {
			j := job("q", string(rune('a'+i)))
			j.Body.Key = "k"
			enqueue(t, b, j)
		},
	} {
		for i := range 2 {
			wake(i)
		}
		if n, err := c.LLen(t.Context(), b.queue("q").key("t")).Result(); n != 1 || err != nil {
			t.Errorf("after two jobs were %s there are %d tokens, %v; want 1", what, n, err)
		}
	}
}

// lateClaims holds back claims until they may go on.
type lateClaims struct {
	redis.Hook
	until chan struct{}
}

func (*lateClaims) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *lateClaims) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); len(args) > 1 && args[1] == claimScript.sha {
			<-c.until
		}
		return next(ctx, cmd)
	}
}

func (*lateClaims) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A wait for many queues ends for one of them, and the claim asks only that one. Meanwhile a job of another queue has fallen due.
func TestWait_AJobThatFellDueWhileAnotherQueueWokeTheClaim(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	b.few = 1
	registerNow(t, b, "w", "q1", "q2")
	soon := job("q2", "soon")
	soon.Delay = time.Second
	enqueueNow(t, b, soon)
	if got, err := b.Claim(t.Context(), waitFor("w", 0, "q1", "q2")); err != nil || got.NextDue.IsZero() {
		t.Fatalf("a claim before the wait: next due %v, %v", got.NextDue, err)
	}
	late := &lateClaims{until: make(chan struct{})}
	b.store.single.AddHook(late)
	claim := func() chan broker.Claimed {
		answer := make(chan broker.Claimed, 1)
		go func() {
			got, err := b.Claim(t.Context(), waitFor("w", time.Minute, "q1", "q2"))
			if err != nil {
				t.Errorf("Claim: %v", err)
			}
			answer <- got
		}()
		return answer
	}
	first := claim()
	waiting(t, b, "q1", 1)
	if err := c.LPush(t.Context(), b.queue("q1").key("t"), "1").Err(); err != nil { // of a job that another worker took
		t.Fatal(err)
	}
	due := time.Now().Add(soon.Delay)
	testenv.Eventually(t, "the job falls due", func() bool { return time.Now().After(due) })
	close(late.until)
	start, got := time.Now(), <-first
	if len(got.Jobs) == 0 {
		got = <-claim()
	}
	if len(got.Jobs) != 1 || time.Since(start) > 30*time.Second {
		t.Errorf("two claims got %d jobs after %v, want the one that is due, at once", len(got.Jobs), time.Since(start))
	}
}
