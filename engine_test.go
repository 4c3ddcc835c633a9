package jobs

import (
	"context"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/sleep"
)

// What the engine keeps to, as tests of whole servers see it.
const (
	prefetchStale   = 50 * time.Millisecond // a job fetched ahead is given back by then
	maxRegister     = 10 * time.Second      // of one attempt
	maxHeartbeat    = broker.DefaultLease / 3
	keptLongest     = 32 // jobs that a worker names
	youngCall       = 10 * time.Millisecond
	maxUnsettled    = 4 * broker.MaxClaim
	pruneInterval   = 15 * time.Second
	auditsAfterLoss = 2
)

// waits waits for d and reports whether it has passed before ctx ended.
func waits(ctx context.Context, d time.Duration) bool { return sleep.For(ctx, d) == nil }
