package schedule

import (
	"context"
	"errors"
	"reflect"
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

func TestWithJob_DefaultsOfClientsDoNotApply(t *testing.T) {
	t.Parallel()
	defaults := []jobs.Option{jobs.WithQueue("default"), jobs.WithLabels("gpu"), jobs.WithLabelShare("canary", 100),
		jobs.WithHeader("tenant", "x"), jobs.WithPriority(jobs.PriorityUrgent), jobs.WithDelay(time.Hour),
		jobs.WithDeadline(time.Now()), jobs.WithTimeout(time.Second),
		jobs.WithMaxRetries(1), jobs.WithBackoff(jobs.Backoff{Kind: jobs.BackoffConstant, Base: time.Second}), jobs.WithCrashBudget(1),
		jobs.WithRetention(time.Hour), jobs.WithID("id"), jobs.WithPartitionKey("k"), jobs.WithCorrelationID("c"), jobs.WithIdempotencyKey("i"),
		jobs.WithTypeVersion(9), jobs.WithSource("client"), jobs.WithPayloadRef("ref"), jobs.WithUniqueKey("u"),
		jobs.WithUniqueDebounce(time.Minute, time.Hour)}
	client := jobs.NewClient(nil, jobs.ClientConfig{Defaults: defaults})
	for name, opts := range map[string][]jobs.Option{"plain": nil, "labelled": {jobs.WithLabels("eu"), jobs.WithHeader("a", "b"),
		jobs.WithHeader("raw", "\xff"), jobs.WithUniqueKey("own")}} {
		task := jobs.NewTask("t", []byte("p"), append([]jobs.Option{jobs.WithQueue("reports")}, opts...)...)
		r, err := newRecord(Definition{ID: "s", Spec: Every(time.Hour), Task: task}, "test", broker.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		k := tick{At: time.Now()}
		got, err := client.Draft(r.task("s", k))
		if want := r.newJob("s", k); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: with defaults of the client the job is %+v, want %+v (%v)", name, got, want, err)
		}
	}
}
