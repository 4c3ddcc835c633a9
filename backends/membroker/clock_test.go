package membroker

import (
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Calls may come between two microseconds; nothing may be early for it.
func TestClock_NothingIsClaimedAFractionOfAMicrosecondEarly(t *testing.T) {
	t.Parallel()
	b := New()
	defer b.Close()
	register(t, b, "w", "q")
	start := time.Unix(1_800_000_000, 300)
	byDelay, byTime := newTestJob("q", "by delay"), newTestJob("q", "by time")
	byDelay.Delay, byTime.RunAt = time.Second, start.Add(time.Second)
	if _, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Now: start, Jobs: []broker.NewJob{byDelay, byTime}}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		after time.Duration
		want  int
	}{
		{time.Second - 300*time.Nanosecond, 0},
		{time.Second + 699*time.Nanosecond, 0},
		{time.Second + 700*time.Nanosecond, 2},
	} {
		req := claimRequest("w", 2, 0, "q")
		req.Now = start.Add(step.after)
		got, err := b.Claim(t.Context(), req)
		if err != nil || len(got.Jobs) != step.want {
			t.Errorf("%v after the enqueue a claim gives %v, %v; want %d jobs", step.after, ids(got.Jobs), err, step.want)
		}
	}
}
