package observe

import (
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs"
)

// A task that replaces another job adds no job, and none will be run for it.
func TestMetricsValues_AReplacedJobIsEnqueuedOnce(t *testing.T) {
	t.Parallel()
	m := newMeasured(t, MetricsConfig{})
	for range 3 {
		m.enqueue(t, "ok", jobs.WithUniqueKey("k"), jobs.WithUniqueReplace())
	}
	got := lines(values(t, m.registry), func(series string) bool {
		return strings.HasPrefix(series, "jobs_enqueued_total") || strings.HasPrefix(series, "jobs_duplicate_total")
	})
	const want = `
jobs_duplicate_total{priority=normal,queue=default,type=ok,where=replace} 2
jobs_enqueued_total{priority=normal,queue=default,type=ok} 1
`
	if got != want {
		t.Errorf("of three tasks with one key:\n%s", difference(got, want))
	}
}
