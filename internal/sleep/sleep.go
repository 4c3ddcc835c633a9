// Package sleep waits under a context.
package sleep

import (
	"context"
	"time"
)

// For waits for d. It returns the context's error if ctx ends first.
func For(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		// Without a timer: the race detector crashes when two goroutines of a synctest
		// bubble receive from timers that are due already (Go 1.26).
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
