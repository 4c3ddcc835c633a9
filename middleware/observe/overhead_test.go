//go:build !race

// The race detector allocates, and drops objects from pools.

package observe

import (
	"context"
	"runtime"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

// observed enqueues, claims, runs and settles jobs with tracing and metrics, but
// without a store.
type observed struct {
	enqueue jobs.EnqueueFunc
	handler jobs.Handler
	hooks   jobs.Hooks
	batch   []*jobs.Outgoing
	list    []broker.Job
	items   []broker.Settlement
	replies []broker.Verdict
	now     time.Time
}

// drop discards spans, so that only the cost of making them is measured.
type drop struct{}

func (drop) OnStart(context.Context, trace.ReadWriteSpan) {}
func (drop) OnEnd(trace.ReadOnlySpan)                     {}
func (drop) Shutdown(context.Context) error               { return nil }
func (drop) ForceFlush(context.Context) error             { return nil }

// observe mounts the given parts around a handler that does nothing, for batches
// of n jobs.
func observe(tb testing.TB, n int, tracing *Tracing, metrics *Metrics) *observed {
	tb.Helper()
	o := &observed{
		enqueue: func(_ context.Context, batch []*jobs.Outgoing) {},
		handler: jobs.HandlerFunc(func(context.Context, *jobs.Job) error { return nil }),
		now:     time.Now(),
	}
	if metrics != nil {
		o.enqueue, o.handler = metrics.Enqueue()(o.enqueue), metrics.Middleware()(o.handler)
		o.hooks = metrics.Hooks()
	}
	if tracing != nil {
		o.enqueue, o.handler = tracing.Enqueue()(o.enqueue), tracing.Middleware()(o.handler)
		o.hooks = jobs.JoinHooks(tracing.Hooks(), o.hooks)
	}
	if o.hooks.Claim == nil {
		o.hooks.Claim, o.hooks.Settle = func(jobs.ClaimEvent) {}, func(jobs.SettleEvent) {}
	}
	for range n {
		out := &jobs.Outgoing{}
		out.Queue, out.ID = "default", "01J0000000000000000000000"
		out.Body.Type, out.Body.Priority = "email:welcome", broker.PriorityNormal
		o.batch = append(o.batch, out)
		o.list = append(o.list, broker.Job{Queue: out.Queue, ID: out.ID, Body: out.Body, CreatedAt: o.now})
	}
	for i := range o.list {
		o.items = append(o.items, broker.Settlement{Job: &o.list[i], Outcome: broker.Complete(nil)})
		o.replies = append(o.replies, broker.Verdict{State: broker.StateCompleted})
	}
	return o
}

// pass takes the batch through its life; each job is enqueued in its own call.
func (o *observed) pass(ctx context.Context) {
	for i, out := range o.batch {
		clear(out.Body.Headers)
		o.enqueue(ctx, o.batch[i:i+1])
		o.list[i].Headers = out.Body.Headers
	}
	o.hooks.Claim(jobs.ClaimEvent{Now: o.now, Jobs: o.list, Asked: len(o.list)})
	for i := range o.list {
		_ = o.handler.ProcessJob(ctx, jobs.NewJob(&o.list[i]))
	}
	o.hooks.Settle(jobs.SettleEvent{Items: o.items, Verdicts: o.replies})
}

var overheads = []struct {
	name    string
	sampler trace.Sampler // nil: no tracing
	metrics bool
	allocs  float64 // ceiling, per job
	bytes   uint64  // ceiling, per job
}{
	{"Nothing", nil, false, 1, 50}, // the jobs.Job, which a server allocates together with others
	{"Metrics", nil, true, 1, 50},
	{"TracingUnsampled", trace.NeverSample(), false, 10.2, 1060},
	{"TracingSampled", trace.AlwaysSample(), false, 20.5, 5750},
	{"UnsampledAndMetrics", trace.NeverSample(), true, 10.2, 1060},
	{"SampledAndMetrics", trace.AlwaysSample(), true, 20.5, 5750},
}

func observedBy(tb testing.TB, n int, sampler trace.Sampler, withMetrics bool) *observed {
	tb.Helper()
	var tracing *Tracing
	var metrics *Metrics
	if sampler != nil {
		tracing = NewTracing(TracingConfig{TracerProvider: trace.NewTracerProvider(trace.WithSampler(sampler), trace.WithSpanProcessor(drop{}))})
	}
	if withMetrics {
		var err error
		metrics, err = NewMetrics(MetricsConfig{MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))})
		if err != nil {
			tb.Fatal(err)
		}
	}
	return observe(tb, n, tracing, metrics)
}

const overheadBatch = 100

// BenchmarkObserve measures what tracing and metrics add to one job's whole
// life: enqueue, claim, run and settle.
func BenchmarkObserve(b *testing.B) {
	for _, c := range overheads {
		b.Run(c.name, func(b *testing.B) {
			o := observedBy(b, overheadBatch, c.sampler, c.metrics)
			b.ReportAllocs()
			for n := 0; n < b.N; n += overheadBatch { // an iteration is a job
				o.pass(b.Context())
			}
		})
	}
}

func TestOverhead_ObservingAJobAllocatesNoMoreThanItMust(t *testing.T) {
	for _, c := range overheads {
		o := observedBy(t, overheadBatch, c.sampler, c.metrics)
		if got := testing.AllocsPerRun(20, func() { o.pass(t.Context()) }) / overheadBatch; got > c.allocs {
			t.Errorf("%s: %.2f allocations per job, the ceiling is %v", c.name, got, c.allocs)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 20 {
			o.pass(t.Context())
		}
		runtime.ReadMemStats(&after)
		if got := (after.TotalAlloc - before.TotalAlloc) / (20 * overheadBatch); got > c.bytes {
			t.Errorf("%s: %d bytes allocated per job, the ceiling is %d", c.name, got, c.bytes)
		}
	}
}
