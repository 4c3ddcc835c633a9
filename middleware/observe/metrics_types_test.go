package observe

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs"
)

func TestMetrics_LimitsOfTypesAreThoseOfAllServersThatRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMeasured(t, MetricsConfig{})
		gate := make(chan struct{})
		wait := jobs.HandlerFunc(func(context.Context, *jobs.Job) error { <-gate; return nil })
		limits := map[string]int{"report:*": 1, "import": 2}
		for _, queue := range []string{"a", "b"} {
			stop := m.serve(t, jobs.Config{Concurrency: 5, TypeConcurrency: limits, Queues: map[string]int{queue: 1}}, wait)
			defer stop()
			for range 3 {
				m.enqueue(t, "report:daily", jobs.WithQueue(queue))
			}
		}
		ended := m.serve(t, jobs.Config{TypeConcurrency: limits, Queues: map[string]int{"c": 1}}, wait)
		ended()
		pass(time.Second)
		const want = `
jobs_type_limit{pattern=import} 4
jobs_type_limit{pattern=report:*} 2
jobs_type_running{pattern=import} 0
jobs_type_running{pattern=report:*} 2
jobs_type_waiting{pattern=import} 0
jobs_type_waiting{pattern=report:*} 4
`
		ofTypes := func(s string) bool { return strings.HasPrefix(s, "jobs_type_") }
		if got := lines(values(t, m.registry), ofTypes); got != want {
			t.Errorf("two servers with three reports each, and one that has ended:\n%s", difference(got, want))
		}
		close(gate)
	})
}
