//go:build !race

package observe

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	api "go.opentelemetry.io/otel/trace"

	"github.com/seed81422ce9/jobs/broker"
)

// alone makes the calls to OpenTelemetry's SDK for an observed job, with everything
// prepared that can be.
type alone struct {
	tracer  api.Tracer
	spans   [4]*spanKind // send, process, receive, settle
	ofSend  []attribute.KeyValue
	ofRun   []attribute.KeyValue
	ofBatch attribute.KeyValue
	ofLink  []attribute.KeyValue

	instruments *instruments // nil: no metrics
	series      *series
	ending      *series
	headers     []api.SpanContext // in the headers of a batch
}

func newAlone(b *testing.B, withSpans, withMetrics bool) *alone {
	b.Helper()
	a := &alone{headers: make([]api.SpanContext, 0, overheadBatch)}
	if withSpans {
		a.tracer = trace.NewTracerProvider(trace.WithSpanProcessor(drop{})).Tracer("alone")
	}
	for i, op := range []operation{opSend, opProcess, opReceive, opSettle} {
		a.spans[i] = newSpanKind(op, "default")
	}
	body := broker.Body{Type: "email:welcome", Priority: broker.PriorityNormal}
	a.ofSend = describeJob("01J0000000000000000000000", &body)
	a.ofRun = append(a.ofSend[:2:2], semconv.MessagingClientID("w1"), attrOutcome.String("completed"))
	a.ofBatch = semconv.MessagingBatchMessageCount(overheadBatch)
	a.ofLink = []attribute.KeyValue{a.ofSend[0], attrOutcome.String("completed")}
	if withMetrics {
		a.instruments = &instruments{}
		if err := a.instruments.init(sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())).Meter("alone")); err != nil {
			b.Fatal(err)
		}
		labels := newRegistry(1, 1, 0).of("default", &body).attributes
		a.series, a.ending = newSeries(labels...), newSeries(append(labels, attribute.String(labelOutcome, "completed"))...)
	}
	return a
}

// start begins a span, if there is a tracer.
func (a *alone) start(ctx context.Context, kind int) (context.Context, api.Span) {
	if a.tracer == nil {
		return ctx, api.SpanFromContext(ctx)
	}
	return a.tracer.Start(ctx, a.spans[kind].name, a.spans[kind].options...)
}

// enqueue and run make the calls for one job.
func (a *alone) enqueue(ctx context.Context) {
	ctx, span := a.start(ctx, 0)
	span.SetAttributes(a.ofSend...)
	if i := a.instruments; i != nil {
		i.enqueued.Add(ctx, 1, a.series.add...)
		i.enqueue.Record(ctx, 0.001, i.ok...)
	}
	span.End()
	a.headers = append(a.headers, span.SpanContext())
}

func (a *alone) run(ctx context.Context, creation api.SpanContext) {
	if a.tracer != nil {
		ctx = api.ContextWithRemoteSpanContext(ctx, creation)
	}
	ctx, span := a.start(ctx, 1)
	span.AddLink(api.Link{SpanContext: creation})
	if i := a.instruments; i != nil {
		i.wait.Record(ctx, 0.001, a.series.record...)
		i.run.Record(ctx, 0.001, a.series.record...)
	}
	span.SetAttributes(a.ofRun...)
	span.End()
}

// store makes the calls for a claim or a settle of the batch.
func (a *alone) store(ctx context.Context, kind, attributes int) {
	_, span := a.start(ctx, kind)
	span.SetAttributes(a.ofBatch)
	for _, creation := range a.headers {
		span.AddLink(api.Link{SpanContext: creation, Attributes: a.ofLink[:attributes]})
	}
	span.End()
}

func (a *alone) pass(ctx context.Context) {
	a.headers = a.headers[:0]
	for range overheadBatch {
		a.enqueue(ctx)
	}
	a.store(ctx, 2, 1)
	for _, creation := range a.headers {
		a.run(ctx, creation)
	}
	a.store(ctx, 3, 2)
	if i := a.instruments; i != nil {
		i.claim.Record(ctx, 0.001, i.unwaited...)
		i.claimed.Add(ctx, overheadBatch, a.series.add...)
		i.settle.Record(ctx, 0.001)
		i.outcomes.Add(ctx, overheadBatch, a.ending.add...)
		i.processed.Add(ctx, overheadBatch, a.series.add...)
		for range overheadBatch {
			i.attempts.Record(ctx, 1, a.series.record...)
		}
	}
}

// BenchmarkAlone measures the share of OpenTelemetry's SDK in BenchmarkObserve: the
// same spans and measurements, without this package.
func BenchmarkAlone(b *testing.B) {
	for _, c := range []struct {
		name           string
		spans, metrics bool
	}{{"Metrics", false, true}, {"TracingSampled", true, false}, {"SampledAndMetrics", true, true}} {
		b.Run(c.name, func(b *testing.B) {
			a := newAlone(b, c.spans, c.metrics)
			b.ReportAllocs()
			for n := 0; n < b.N; n += overheadBatch { // an iteration is a job
				a.pass(b.Context())
			}
		})
	}
	// The two spans of each job, without those of the batch.
	b.Run("TwoSpans", func(b *testing.B) {
		a := newAlone(b, true, false)
		b.ReportAllocs()
		for range b.N {
			a.headers = a.headers[:0]
			a.enqueue(b.Context())
			a.run(b.Context(), a.headers[0])
		}
	})
}
