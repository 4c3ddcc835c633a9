// Package sleep waits under a context.
package sleep

import (
	"context"
	"time"
)

// For waits for d. It returns the context's error if ctx ends first.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
