package redisbroker

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
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
