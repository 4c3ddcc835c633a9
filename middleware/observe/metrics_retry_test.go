package observe

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs"
)

// A job that fails and then snoozes twice has waited once for its retry.
func TestMetricsValues_ARetryWaitsOnceWhateverSnoozesIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMeasured(t, MetricsConfig{})
		m.enqueue(t, "now")
		runs := 0
		stop := m.serve(t, jobs.Config{}, jobs.HandlerFunc(func(_ context.Context, job *jobs.Job) error {
			runs++
			switch runs {
			case 1:
				return jobs.RetryAfter(time.Minute, errors.New("not yet"))
			case 2, 3:
				return jobs.Snooze(10 * time.Second)
			}
			return nil
		}))
		pass(3 * time.Minute)
		got := values(t, m.registry)
		stop()
		const series = "jobs_retry_wait_seconds{priority=normal,queue=default,type=now}"
		if runs != 4 || got[series] != 1 || got[series+" sum"] < 80 || got[series+" sum"] > 81 {
			t.Errorf("after %d runs there are %v waits of %v s, want one of 80 s", runs, got[series], got[series+" sum"])
		}
	})
}
