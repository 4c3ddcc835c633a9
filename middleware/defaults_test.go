package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/internal/chaintest"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/middleware"
)

type tenantKey struct{}

func TestDefaults_FillWhatAJobLeavesOpenAndNothingElse(t *testing.T) {
	t.Parallel()
	c, b := producer(t, middleware.Defaults(func(ctx context.Context, job *broker.NewJob) middleware.TaskDefaults {
		tenant, _ := ctx.Value(tenantKey{}).(string)
		d := middleware.TaskDefaults{Key: tenant, CorrelationID: "request 7", Source: "web", IdempotencyKey: "effect",
			Headers: map[string]string{"a": "default", "b": "default"}}
		if strings.HasPrefix(job.Body.Type, "report:") {
			d.Queue, d.Timeout, d.Retention, d.CrashBudget, d.TypeVersion = "reports", time.Hour, time.Minute, 2, 3
			d.Backoff = jobs.Backoff{Kind: jobs.BackoffConstant, Base: time.Second}
		}
		return d
	}))
	open := map[string]string{"a": "default", "b": "default"}
	steady := jobs.Backoff{Kind: jobs.BackoffConstant, Base: time.Second}
	ctx := context.WithValue(t.Context(), tenantKey{}, "acme")
	for _, x := range []struct {
		task  *jobs.Task
		queue string
		want  broker.Body
	}{
		{jobs.NewTask("mail", nil), jobs.DefaultQueue,
			broker.Body{Key: "acme", CorrelationID: "request 7", Source: "web", IdempotencyKey: "effect", Headers: open}},
		{jobs.NewTask("report:daily", nil), "reports",
			broker.Body{Key: "acme", CorrelationID: "request 7", Source: "web", IdempotencyKey: "effect", Headers: open,
				Timeout: time.Hour, Retention: time.Minute, CrashBudget: 2, TypeVersion: 3, Backoff: steady}},
		{jobs.NewTask("report:mine", nil, jobs.WithQueue("mine"), jobs.WithPartitionKey("own"), jobs.WithTimeout(time.Second),
			jobs.WithHeader("a", "own"), jobs.WithCorrelationID("own")), "mine",
			broker.Body{Key: "own", CorrelationID: "own", Source: "web", IdempotencyKey: "effect",
				Headers: map[string]string{"a": "own", "b": "default"},
				Timeout: time.Second, Retention: time.Minute, CrashBudget: 2, TypeVersion: 3, Backoff: steady}},
	} {
		info, err := c.Enqueue(ctx, x.task)
		if err != nil {
			t.Fatal(err)
		}
		page, err := b.Find(ctx, broker.Query{Queue: x.queue, IDs: []string{info.ID}})
		if err != nil || info.Queue != x.queue || len(page.Jobs) != 1 {
			t.Fatalf("the job went to %q (%v), want %q", info.Queue, err, x.queue)
		}
		got := page.Jobs[0].Body
		if got.Key != x.want.Key || got.CorrelationID != x.want.CorrelationID || got.Source != x.want.Source ||
			got.IdempotencyKey != x.want.IdempotencyKey ||
			got.Timeout != x.want.Timeout || got.Retention != x.want.Retention || got.CrashBudget != x.want.CrashBudget ||
			got.TypeVersion != x.want.TypeVersion ||
			got.Backoff != x.want.Backoff || !maps.Equal(got.Headers, x.want.Headers) {
			t.Errorf("%s was stored as %+v, want %+v", got.Type, got, x.want)
		}
	}
	chaintest.WantRefusal(t, "Defaults: invalid: has no function", func() { middleware.Defaults(nil) })
}

func TestDefaults_ADefaultOutsideItsLimitsIsRefusedByName(t *testing.T) {
	t.Parallel()
	for _, timeout := range []time.Duration{-time.Second, 30} { // 30 lacks its unit
		c, _ := producer(t, middleware.Defaults(func(context.Context, *broker.NewJob) middleware.TaskDefaults {
			return middleware.TaskDefaults{Timeout: timeout}
		}))
		if _, err := c.Enqueue(t.Context(), jobs.NewTask("a", nil)); !errors.Is(err, jobs.ErrInvalid) ||
			!strings.Contains(err.Error(), "timeout") {
			t.Errorf("with the default %v the task gets %v, want the field named", timeout, err)
		}
	}
}

func TestDefaults_CountForLabels(t *testing.T) {
	t.Parallel()
	c, _ := producer(t, middleware.Defaults(func(_ context.Context, job *broker.NewJob) middleware.TaskDefaults {
		return middleware.TaskDefaults{Queue: "reports", Key: job.Body.Type}
	}))
	sides := make(map[string]int)
	for i := range 40 {
		task := jobs.NewTask(fmt.Sprint("tenant-", i%4), nil, jobs.WithLabels("gpu"), jobs.WithLabelShare("canary", 50))
		info, err := c.Enqueue(t.Context(), task)
		if err != nil {
			t.Fatal(err)
		}
		sides[task.Type()+" "+info.Queue]++
	}
	for side, n := range sides {
		if n != 10 || !strings.HasSuffix(side, " reports+gpu") && !strings.HasSuffix(side, " reports+canary+gpu") {
			t.Errorf("%d jobs of %s; want the queue of the default with the labels, and all 10 jobs of a key on one side", n, side)
		}
	}
}
