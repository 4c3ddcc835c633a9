package observe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/inspect"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	api "go.opentelemetry.io/otel/trace"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

// recording is a Tracing whose spans are recorded.
type recording struct {
	*Tracing
	spans *tracetest.SpanRecorder
	user  api.Tracer
}

func record(cfg TracingConfig) *recording {
	r := &recording{spans: tracetest.NewSpanRecorder()}
	provider := trace.NewTracerProvider(trace.WithSpanProcessor(r.spans))
	cfg.TracerProvider = provider
	r.Tracing, r.user = NewTracing(cfg), provider.Tracer("user")
	return r
}

// run runs a handler inside of the middleware for a job.
func (r *recording) run(ctx context.Context, j *broker.Job, f func(context.Context) error) error {
	return r.Middleware()(jobs.HandlerFunc(func(ctx context.Context, _ *jobs.Job) error { return f(ctx) })).ProcessJob(ctx, jobs.NewJob(j))
}

// only returns the one span that has ended.
func (r *recording) only(t *testing.T) trace.ReadOnlySpan {
	t.Helper()
	ended := r.spans.Ended()
	if len(ended) != 1 {
		t.Fatalf("%d spans, want 1: %v", len(ended), ended)
	}
	return ended[0]
}

func attributes(list []attribute.KeyValue) string {
	var all []string
	for _, a := range list {
		all = append(all, string(a.Key)+"="+a.Value.String())
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// enqueueThrough sends jobs through a client's chain to a store.
func enqueueThrough(t *testing.T, tr *Tracing) (*jobs.Client, broker.Broker) {
	t.Helper()
	b := membroker.New()
	t.Cleanup(func() { b.Close() })
	return jobs.NewClient(b, jobs.ClientConfig{Middleware: []jobs.EnqueueMiddleware{tr.Enqueue()}}), b
}

func stored(t *testing.T, b broker.Broker, id string) *broker.Job {
	t.Helper()
	job, err := inspect.New(b).Job(t.Context(), jobs.DefaultQueue, id)
	if err != nil {
		t.Fatal(err)
	}
	return job
}

func TestTracing_WhatARunLeadsToIsRecorded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want string // attributes
		code codes.Code
	}{
		{nil, "messaging.jobs.outcome=completed", codes.Unset},
		{errors.New("oops"), "error.type=retryable messaging.jobs.outcome=retried", codes.Error},
		{fmt.Errorf("%w: no", jobs.SkipRetry), "error.type=permanent messaging.jobs.outcome=dead", codes.Error},
		{jobs.Snooze(time.Second), "messaging.jobs.outcome=snoozed", codes.Unset},
		{jobs.Cancel(errors.New("enough")), "messaging.jobs.outcome=cancelled", codes.Unset},
	} {
		r := record(TracingConfig{})
		if err := r.run(t.Context(), &broker.Job{Queue: "q", Body: broker.Body{Type: "t", MaxRetries: 3}},
			func(context.Context) error { return c.err }); err != c.err {
			t.Errorf("the handler's error %v became %v", c.err, err)
		}
		span := r.only(t)
		var got []string
		for _, a := range span.Attributes() {
			if a.Key == "error.type" || a.Key == attrOutcome {
				got = append(got, string(a.Key)+"="+a.Value.String())
			}
		}
		slices.Sort(got)
		if s := strings.Join(got, " "); s != c.want || span.Status().Code != c.code {
			t.Errorf("%v: got %s, status %v; want %s, %v", c.err, s, span.Status().Code, c.want, c.code)
		}
		if failed := c.code == codes.Error; failed && (span.Status().Description != c.err.Error() || len(span.Events()) != 1) {
			t.Errorf("%v: status %+v, %d events; want its message and one", c.err, span.Status(), len(span.Events()))
		}
	}
}

func TestTracing_APanicEndsTheSpanAndGoesOnWithItsStack(t *testing.T) {
	t.Parallel()
	r := record(TracingConfig{})
	var value any
	var stack string
	func() {
		defer func() {
			buf := make([]byte, 64<<10)
			value, stack = recover(), string(buf[:runtime.Stack(buf, false)])
		}()
		_ = r.run(t.Context(), &broker.Job{Queue: "q"}, func(context.Context) error { panicsHere(); return nil })
	}()
	if value != "boom" || !strings.Contains(stack, "panicsHere") {
		t.Errorf("the panic is %v, its stack\n%s", value, stack)
	}
	if span := r.only(t); span.Status().Code != codes.Error || !strings.Contains(attributes(span.Attributes()), "error.type=panic") {
		t.Errorf("the span says %v, %s", span.Status(), attributes(span.Attributes()))
	}
	r = record(TracingConfig{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = r.run(t.Context(), &broker.Job{Queue: "q"}, func(context.Context) error { runtime.Goexit(); return nil })
	}()
	<-done
	r.only(t)
}

func TestTracing_APanicWhileEnqueueingEndsAllSpans(t *testing.T) {
	t.Parallel()
	for n := range 3 {
		r := record(TracingConfig{})
		func() {
			defer func() { _ = recover() }()
			r.Enqueue()(func(context.Context, []*jobs.Outgoing) { panicsHere() })(t.Context(),
				[]*jobs.Outgoing{new(jobs.Outgoing), new(jobs.Outgoing)}[:n])
		}()
		if started, ended := len(r.spans.Started()), len(r.spans.Ended()); started == 0 || started != ended {
			t.Errorf("with %d jobs %d spans began and %d ended", n, started, ended)
		}
	}
}

func panicsHere() { panic("boom") }

func TestTracing_ARunCanBeLinkedInsteadOfContinuingTheTrace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		links, ambient bool
		parent         string
		linked         []string
	}{
		{false, false, "producer", []string{"producer"}},
		{false, true, "producer", []string{"producer", "ambient"}},
		{true, false, "", []string{"producer"}},
		{true, true, "ambient", []string{"producer"}},
	} {
		r := record(TracingConfig{Links: c.links})
		_, producer := r.user.Start(t.Context(), "producer")
		ctx, names := t.Context(), map[api.SpanID]string{{}: "", producer.SpanContext().SpanID(): "producer"}
		if c.ambient {
			var ambient api.Span
			ctx, ambient = r.user.Start(ctx, "ambient")
			names[ambient.SpanContext().SpanID()] = "ambient"
		}
		carrier := propagation.MapCarrier{"baggage": "a=b"}
		propagation.TraceContext{}.Inject(api.ContextWithSpan(t.Context(), producer), carrier)
		var bag string
		_ = r.run(ctx, &broker.Job{Queue: "q", Body: broker.Body{Headers: carrier}}, func(ctx context.Context) error {
			bag = baggage.FromContext(ctx).String()
			return nil
		})
		span := r.only(t)
		var linked []string
		for _, link := range span.Links() {
			linked = append(linked, names[link.SpanContext.SpanID()])
		}
		if got := names[span.Parent().SpanID()]; got != c.parent || !slices.Equal(linked, c.linked) || bag != "a=b" {
			t.Errorf("Links %v, ambient %v: parent %q, links %q, baggage %q; want %q, %q, a=b", c.links, c.ambient, got, linked, bag, c.parent,
				c.linked)
		}
	}
}

func TestTracing_ACallersOwnContextInTheHeadersIsKept(t *testing.T) {
	t.Parallel()
	const own = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	r := record(TracingConfig{})
	client, b := enqueueThrough(t, r.Tracing)
	info, err := client.Enqueue(t.Context(), jobs.NewTask("t", nil), jobs.WithHeader("traceparent", own))
	if err != nil {
		t.Fatal(err)
	}
	span := r.only(t)
	if got := stored(t, b, info.ID).Headers["traceparent"]; got != own {
		t.Errorf("the header became %q", got)
	}
	if span.SpanKind() != api.SpanKindClient || len(span.Links()) != 1 || span.Links()[0].SpanContext.SpanID().String() != "b7ad6b7169203331" {
		t.Errorf("the span is %v with links %v; want a client's, linked to the caller's context", span.SpanKind(), span.Links())
	}
	receipts, err := client.EnqueueMany(t.Context(), []*jobs.Task{jobs.NewTask("t", nil, jobs.WithHeader("traceparent", own)),
		jobs.NewTask("t", nil, jobs.WithHeader("traceparent", "nonsense"))})
	if err != nil {
		t.Fatal(err)
	}
	if got := stored(t, b, receipts[0].ID).Headers["traceparent"]; got != own {
		t.Errorf("in a batch the header became %q", got)
	}
	if got := stored(t, b, receipts[1].ID).Headers["traceparent"]; got != "nonsense" {
		t.Errorf("a header that is no context became %q", got)
	}
	var names []string
	for _, span := range r.spans.Ended()[1:] {
		names = append(names, span.Name())
	}
	if want := []string{"create default", "send default"}; !slices.Equal(names, want) {
		t.Errorf("spans of a batch of which one has a context: %q, want %q", names, want)
	}
}

func TestTracing_WithoutCreateSpansABatchIsOneSpan(t *testing.T) {
	t.Parallel()
	r := record(TracingConfig{NoCreateSpans: true})
	client, b := enqueueThrough(t, r.Tracing)
	receipts, err := client.EnqueueMany(t.Context(), []*jobs.Task{jobs.NewTask("t", nil), jobs.NewTask("t", nil, jobs.WithQueue("other"))})
	if err != nil {
		t.Fatal(err)
	}
	span := r.only(t)
	if span.Name() != "send" || span.SpanKind() != api.SpanKindProducer || len(span.Links()) != 0 {
		t.Errorf("a batch to two queues: %s, %v, %d links; want send, producer, 0", span.Name(), span.SpanKind(), len(span.Links()))
	}
	if got := stored(t, b, receipts[0].ID).Headers["traceparent"]; !strings.Contains(got, span.SpanContext().SpanID().String()) {
		t.Errorf("the jobs' context is %q, want that of the span", got)
	}
}

func TestTracing_RefusedTasksAreErrorsOfTheirSpansAndDuplicatesAreNot(t *testing.T) {
	t.Parallel()
	r := record(TracingConfig{})
	client, _ := enqueueThrough(t, r.Tracing)
	large := jobs.NewTask("t", make([]byte, 2<<20))
	for range 2 {
		_, _ = client.Enqueue(t.Context(), jobs.NewTask("t", nil), jobs.WithID("1"))
	}
	_, _ = client.Enqueue(t.Context(), large)
	_, _ = client.EnqueueMany(t.Context(), []*jobs.Task{jobs.NewTask("t", nil, jobs.WithID("1")), large})
	var got []string
	for _, span := range r.spans.Ended() {
		text := span.Name() + " " + span.Status().Code.String()
		for _, a := range span.Attributes() {
			if a.Key == "error.type" || a.Key == attrOutcome {
				text += " " + a.Value.String()
			}
		}
		got = append(got, text)
	}
	want := []string{"send default Unset", "send default Unset duplicate", "send default Error too_large",
		"create default Unset duplicate", "create default Error too_large", "send default Error too_large"}
	if !slices.Equal(got, want) {
		t.Errorf("spans\ngot  %q\nwant %q", got, want)
	}
}

func TestTracing_CallsToTheStoreThatFailAreSpansAndThoseThatGaveNothingAreNone(t *testing.T) {
	t.Parallel()
	r := record(TracingConfig{})
	hooks := r.Hooks()
	hooks.Claim(jobs.ClaimEvent{})
	hooks.Reclaim(jobs.ReclaimEvent{})
	if n := len(r.spans.Ended()); n != 0 {
		t.Fatalf("%d spans of claims that gave nothing", n)
	}
	list := make([]broker.Job, 1000)
	for i := range list {
		headers := map[string]string{"traceparent": fmt.Sprintf("00-0af7651916cd43dd8448eb211c80319c-%016x-01", i+1)}
		list[i] = broker.Job{Queue: fmt.Sprint(i % 2), Body: broker.Body{Headers: headers}}
	}
	hooks.Claim(jobs.ClaimEvent{Err: fmt.Errorf("%w: refused", broker.ErrUnavailable)})
	hooks.Reclaim(jobs.ReclaimEvent{Jobs: list})
	hooks.Settle(jobs.SettleEvent{Items: []broker.Settlement{{Job: &list[0], Outcome: broker.Complete(nil)}}, Err: context.DeadlineExceeded})
	var got []string
	for _, span := range r.spans.Ended() {
		got = append(got, fmt.Sprintf("%s, %v, %d links", span.Name(), span.Status().Code, len(span.Links())))
	}
	if want := []string{"receive, Error, 0 links", "receive, Unset, 128 links", "settle 0, Error, 1 links"}; !slices.Equal(got, want) {
		t.Errorf("spans\ngot  %q\nwant %q", got, want)
	}
}

// hangs is an exporter whose exports block until their context ends.
type hangs struct{ calls atomic.Int64 }

func (h *hangs) ExportSpans(ctx context.Context, _ []trace.ReadOnlySpan) error {
	h.calls.Add(1)
	<-ctx.Done()
	return ctx.Err()
}
func (h *hangs) Shutdown(context.Context) error { return nil }

func TestTracing_ACollectorOfSpansThatIsDownHoldsUpNoJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		down := &hangs{}
		provider := trace.NewTracerProvider(trace.WithBatcher(down, trace.WithMaxQueueSize(64), trace.WithMaxExportBatchSize(16),
			trace.WithExportTimeout(time.Minute)))
		tracing := NewTracing(TracingConfig{TracerProvider: provider})
		client, b := enqueueThrough(t, tracing)
		var runs atomic.Int64
		server, err := jobs.NewServer(b, jobs.Config{Middleware: []jobs.Middleware{tracing.Middleware()}, Hooks: tracing.Hooks(),
			Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
		if err != nil {
			t.Fatal(err)
		}
		if err := server.Start(context.Background(), jobs.HandlerFunc(func(context.Context, *jobs.Job) error {
			runs.Add(1)
			return nil
		})); err != nil {
			t.Fatal(err)
		}
		for range 500 {
			if _, err := client.Enqueue(t.Context(), jobs.NewTask("t", nil)); err != nil {
				t.Fatal(err)
			}
		}
		pass(time.Second)
		if n := runs.Load(); n != 500 || down.calls.Load() == 0 {
			t.Errorf("%d of 500 jobs ran in a second, with %d exports under way", n, down.calls.Load())
		}
		if err := server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = provider.Shutdown(ctx)
		pass(time.Hour)
	})
}
