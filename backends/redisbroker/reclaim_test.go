package redisbroker

import (
	"testing"

	"github.com/seed81422ce9/jobs/broker"
)

// The clock of the store was set back after workers registered, and renewals of their group went on. Then a worker dies. Its jobs are
// reclaimed after a lease, and not when the clock is where it was before.
func TestReclaim_FindsAWorkerThatRanOutAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	b := open(t, client(t))
	enqueue(t, b, job("q", "runs"))
	register(t, b, "gone", "q")
	register(t, b, "alive", "q")
	claimAt(t, b, at(0), "gone", 1, "q")
	l := &life{t: t, b: b, queue: "q"}
	l.renew("gone", at(1)) // counts in all queues; the next renewals are for the group
	l.renew("alive", at(1))
	l.renew("gone", at(-3600))
	for _, now := range []int{-3600, -3560, -3535} {
		l.renew("alive", at(now))
	}
	got, err := b.Reclaim(t.Context(), broker.ReclaimRequest{Now: at(-3535), Worker: "alive", Queues: []string{"q"}, Max: 5})
	if err != nil || len(got.Jobs) != 1 {
		t.Errorf("a lease after the last renewal, Reclaim got %d jobs and %v, want the job of the worker that is gone", len(got.Jobs), err)
	}
	if end := b.store.single.ZScore(t.Context(), b.queue("q").key("w"), "alive").Val(); end < float64(broker.Micros(at(-3535))) {
		t.Error("the queue has an earlier end of the leases of the worker that is alive")
	}
}
