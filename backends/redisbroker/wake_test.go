package redisbroker

import (
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// A claimable job with a key wakes a claim, whatever else the same call enqueues.
func TestWakeTokens_AJobWithAKeyBesideOneThatIsDueLater(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	register(t, b, "w", "q")
	token := func(after string, want int64) {
		t.Helper()
		if n, err := c.LLen(t.Context(), b.queue("q").key("t")).Result(); n != want || err != nil {
			t.Fatalf("after %s: got %d tokens, %v, want %d", after, n, err, want)
		}
	}
	delayed := func(id string, delay time.Duration) broker.NewJob {
		j := job("q", id)
		j.Delay = delay
		return j
	}
	keyed := job("q", "keyed")
	keyed.Body.Key = "tenant"
	enqueue(t, b, job("q", "fails"), delayed("first", time.Hour))
	fails := claimAt(t, b, at(0), "w", 5, "q").Jobs[0]
	token("a claim of all", 0)
	enqueue(t, b, keyed, delayed("second", 2*time.Hour))
	token("an enqueue of both", 1)
	released := claimAt(t, b, at(0), "w", 5, "q").Jobs[0]
	token("another claim of all", 0)
	_, err := b.Settle(t.Context(), broker.SettleRequest{Now: at(0), Worker: "w", Number: 1, Items: []broker.Settlement{
		{Job: &released, Outcome: broker.Release()},
		{Job: &fails, Outcome: broker.Retry(3*time.Hour, broker.Failure{Message: "no"})}}})
	if err != nil {
		t.Fatal(err)
	}
	token("a settle of both", 1)
}
