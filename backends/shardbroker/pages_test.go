package shardbroker

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// A listing shows each job once and in order, even if its pages have different limits: a page that shows a part of what a shard
// has may be followed by a smaller one, in which all is shown already.
func TestPages_MayHaveDifferentLimits(t *testing.T) {
	t.Parallel()
	b := named(t, "a", "b")
	const n = 400
	var req broker.EnqueueRequest
	for i := range n {
		end := time.Unix(1_800_000_000+int64(i), 0)
		j := newJob(fmt.Sprintf("job-%03d", i))
		head := broker.Head{Reason: broker.ReasonRetries, FinishedAt: end}
		if i%7 == 0 {
			head.Errors.Entries = []broker.Failure{{Message: "busy"}}
		}
		j.Restore = &broker.Restored{State: broker.StateDead, CreatedAt: end, Head: head}
		req.Jobs = append(req.Jobs, j)
	}
	if _, err := b.Enqueue(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	for _, limits := range [][]int{{100, 10}, {10, 100}, {200, 3, 3}, {50}} {
		var got, want []string
		query := broker.Query{Queue: "q", State: broker.StateDead, ErrorText: "busy", NoPayload: true}
		for i := 0; i == 0 || query.Cursor != ""; i++ {
			query.Limit = limits[i%len(limits)]
			page, err := b.Find(t.Context(), query)
			if err != nil || i > n {
				t.Fatal(i, err)
			}
			for _, j := range page.Jobs {
				got = append(got, j.ID)
			}
			query.Cursor = page.Cursor
		}
		for i := 0; i < n; i += 7 {
			want = append(want, fmt.Sprintf("job-%03d", i))
		}
		if !slices.Equal(got, want) {
			t.Errorf("with pages of %d jobs in turn the listing has %d jobs, want %d: %q", limits, len(got), len(want), got)
		}
	}
}
