package redisbroker

import (
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// A claim that needs no look says what the time is now, and not what it was then:
// a wait that counts from then would end late.
func TestWait_AClaimThatNeedsNoLookKnowsTheTime(t *testing.T) {
	t.Parallel()
	var q quiet
	req := waitFor("w", time.Second, "q")
	q.note(&req, &broker.Claimed{Now: at(0), NextDue: at(100)}, nil)
	q.at = q.at.Add(-time.Minute)
	got, ok := q.still(&req)
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
}
