package engine

import (
	"context"
	"time"

	"github.com/seed81422ce9/jobs/internal/sleep"
)

// serverCallTimeout bounds a call to the broker, beyond the wait of a claim.
const serverCallTimeout = 5 * time.Second

// storeClock estimates the store's time, which deadlines are judged by.
type storeClock struct{ store, local time.Time }

// set takes over the store's time as it was at about local, which only the
// process's own, monotonic time is measured from.
func (c *storeClock) set(store, local time.Time) {
	if !store.IsZero() {
		c.store, c.local = store, local
	}
}

// at is the store's time at local.
func (c *storeClock) at(local time.Time) time.Time {
	if c.store.IsZero() {
		return local
	}
	return c.store.Add(local.Sub(c.local))
}

// after waits for d and reports whether it has passed before ctx ended.
func after(ctx context.Context, d time.Duration) bool { return sleep.For(ctx, d) == nil }

// earliest is the sooner of two times, of which zero is none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// backoff is the pause of a loop after failures of its calls in a row: doubling
// from 50 ms, between half and the whole of it, at most a second, because the
// store's return should be noticed at once.
func backoff(failures int) time.Duration {
	return sleep.Jitter(sleep.Doubled(50*time.Millisecond, failures-1, time.Second), 0.5)
}
