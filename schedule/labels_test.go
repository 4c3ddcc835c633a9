package schedule

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

func TestSchedule_TicksRunOnServersThatHaveTheirLabels(t *testing.T) {
	inWorld(t, func(w *world) {
		var last atomic.Value // ticks that are due at once run at once
		last.Store("")
		w.handler = func(_ context.Context, j *jobs.Job) error { last.Store(j.Queue()); return nil }
		w.serve(w.store, jobs.Config{}, ExtensionConfig{})
		define := func(id string, opts ...jobs.Option) Definition {
			return Definition{ID: id, Spec: Every(time.Hour), Task: jobs.NewTask("t", nil, opts...)}
		}
		if _, err := w.schedules.Sync(w.Context(), define("a", jobs.WithQueue("images"), jobs.WithLabels("gpu"),
			jobs.WithPartitionKey("acme"), jobs.WithLabelShare("canary", 100))); err != nil {
			w.Fatal(err)
		}
		pass(2 * time.Hour)
		if queue := last.Load(); queue != "" {
			w.Errorf("a tick ran in %s without a server that has its labels", queue)
		}
		w.serve(w.store, jobs.Config{Queues: map[string]int{"images": 1}, Labels: []string{"gpu", "canary"}}, ExtensionConfig{})
		pass(2 * time.Hour)
		if queue := last.Load(); queue != "images+canary+gpu" {
			w.Errorf("the ticks ran in %q, want images+canary+gpu", queue)
		}
		_, err := w.schedules.Sync(w.Context(), define("b", jobs.WithLabelShare("canary", 10)))
		if !errors.Is(err, broker.ErrInvalid) || !strings.Contains(err.Error(), "needs a key") {
			w.Errorf("a share of ticks without a key: %v", err)
		}
	})
}
