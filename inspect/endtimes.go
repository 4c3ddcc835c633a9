package inspect

import (
	"context"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// EndTimes is how long the newest completed jobs of a queue took, from when they were
// due to their end: waits, runs and retries together. Stores keep sums of waits and of
// runs, and of single jobs the times that a record has, so that percentiles of waits
// and of runs alone are in the histograms of package observe only.
type EndTimes struct {
	Jobs          int       // so many were looked at; the other fields are zero without any
	Since         time.Time // the first end among them
	P50, P95, P99 time.Duration
}

// maxEndTimes is what one call reads: enough for a 99th percentile.
const maxEndTimes = 500

// EndTimes looks at the newest completed jobs of a queue, at most 500, in one call.
// There are none where completed jobs leave no records; see Policy.RetainCompleted.
func (i *Inspector) EndTimes(ctx context.Context, queue string) (t EndTimes, err error) {
	page, err := i.List(ctx, Query{Queue: queue, State: broker.StateCompleted, Newest: true, NoPayload: true, Limit: maxEndTimes})
	if err != nil || len(page.Jobs) == 0 {
		return t, err
	}
	took := make([]time.Duration, 0, len(page.Jobs))
	t.Since = page.Jobs[0].FinishedAt
	for n := range page.Jobs {
		j := &page.Jobs[n]
		took = append(took, max(j.FinishedAt.Sub(j.CreatedAt.Add(j.DueAfter)), 0))
		if j.FinishedAt.Before(t.Since) {
			t.Since = j.FinishedAt
		}
	}
	slices.Sort(took)
	at := func(percent int) time.Duration { return took[(len(took)*percent+99)/100-1] }
	t.Jobs, t.P50, t.P95, t.P99 = len(took), at(50), at(95), at(99)
	return t, nil
}
