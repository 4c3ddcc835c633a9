package pgbroker_test

import (
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/backends/pgbroker"
	"github.com/seed81422ce9/jobs/broker"
)

// Idle processes must not keep the server busy.
func TestIdle_AClaimThatWaitsInVainAsksSeldom(t *testing.T) {
	t.Parallel()
	const wait = time.Second
	for _, c := range []struct {
		name   string
		config pgbroker.Config
		most   int // round trips
	}{
		{"Listening", pgbroker.Config{}, 6},               // three looks, two that record that it waits, and a spurious look
		{"PollOnly", pgbroker.Config{PollOnly: true}, 16}, // 10 ms apart at first, a second later
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			pool := testPool(t, 4)
			c.config.Schema = f.schema
			b, err := pgbroker.New(t.Context(), pool, c.config)
			f.ok(err)
			defer b.Close()
			if !c.config.PollOnly {
				// Watch returns once the broker listens; the calls of a watcher that polls
				// would be counted with those of the claim.
				_, err = b.Watch(t.Context(), broker.WatchRequest{Queues: []string{"another"}, Kinds: []broker.EventKind{broker.EventCancel}})
				f.ok(err)
			}
			before := pool.Stat().AcquireCount()
			got, err := b.Claim(t.Context(), broker.ClaimRequest{Worker: testWorker, Max: 1, Wait: wait,
				Queues: []broker.Share{{Queue: testQueue, Max: 1}}})
			f.ok(err)
			if n := int(pool.Stat().AcquireCount() - before); len(got.Jobs) > 0 || n > c.most {
				t.Errorf("a claim that waited %v in vain used a connection %d times, want at most %d", wait, n, c.most)
			}
		})
	}
}
