package system

import (
	"context"
	"log/slog"
	"time"

	"github.com/seed81422ce9/jobs/middleware/observe"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/middleware"
)

// samplers has a sampler for each workload whose worker has the standard chain.
var samplers = map[string]trace.Sampler{"W2chain": trace.NeverSample(), "W2sampled": trace.AlwaysSample()}

func newTracing(sampler trace.Sampler) *observe.Tracing {
	provider := trace.NewTracerProvider(trace.WithSampler(sampler), trace.WithSpanProcessor(dropped{}))
	return observe.NewTracing(observe.TracingConfig{TracerProvider: provider})
}

// dropped discards spans, since the cost of exporters is not ours.
type dropped struct{}

func (dropped) OnStart(context.Context, trace.ReadWriteSpan) {}
func (dropped) OnEnd(trace.ReadOnlySpan)                     {}
func (dropped) Shutdown(context.Context) error               { return nil }
func (dropped) ForceFlush(context.Context) error             { return nil }

// traced returns the settings of a client whose jobs continue its traces.
func traced(workload string) (cfg jobs.ClientConfig) {
	if sampler := samplers[workload]; sampler != nil {
		cfg.Middleware = []jobs.EnqueueMiddleware{newTracing(sampler).Enqueue()}
	}
	return cfg
}

// mountChain mounts the standard chain around handlers: metrics with a reader,
// traces, and a log that is discarded.
func mountChain(cfg *jobs.Config, b broker.Broker, sampler trace.Sampler) error {
	tracing := newTracing(sampler)
	metrics, err := observe.NewMetrics(observe.MetricsConfig{Broker: b,
		MeterProvider: metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))})
	if err != nil {
		return err
	}
	cfg.Middleware = []jobs.Middleware{
		tracing.Middleware(),
		metrics.Middleware(),
		observe.Logging(observe.LoggingConfig{Logger: slog.New(slog.DiscardHandler)}),
		middleware.Retry(middleware.RetryConfig{}),
		middleware.Timeout(middleware.TimeoutConfig{Soft: time.Minute}),
		middleware.Recovery(nil),
	}
	cfg.Hooks = jobs.JoinHooks(tracing.Hooks(), metrics.Hooks())
	return nil
}
