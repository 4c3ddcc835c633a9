package engine

import (
	"context"
	"time"

	"github.com/seed81422ce9/jobs/internal/sleep"
)

// serverCallTimeout bounds a call to the broker, beyond the wait of a claim. It is a third of the
// default lease, so that a renewal that hangs can be repeated in time.
const serverCallTimeout = 5 * time.Second

// storeClock estimates the store's time, by which deadlines count.
type storeClock struct{ store, local time.Time }

// set records the store's time, which was read at about the local time. From then on the
// process's own monotonic clock counts.
func (c *storeClock) set(store, local time.Time) {
	if !store.IsZero() {
		c.store, c.local = store, local
	}
}

// at returns the store's time at a local time.
func (c *storeClock) at(local time.Time) time.Time {
	if c.store.IsZero() {
		return local
	}
	return c.store.Add(local.Sub(c.local))
}

// after waits for d and reports whether it has passed before ctx ended.
func after(ctx context.Context, d time.Duration) bool { return sleep.For(ctx, d) == nil }

// earliest returns the sooner of two times, where zero means none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// backoff returns the pause of a loop after some failures in a row: doubling from 50 ms
// to a second, less up to half by jitter. It is short, because a server should notice
// soon that the store works again.
func backoff(failures int) time.Duration {
	return sleep.Jitter(sleep.Doubled(50*time.Millisecond, failures-1, time.Second), 0.5)
}
