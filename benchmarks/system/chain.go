package system

import (
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/middleware"
)

// chainWorkload is the workload whose worker has the standard chain.
const chainWorkload = "W2chain"

// mountChain puts the standard chain around handlers: metrics that a reader
// collects, traces of which none is sampled, a log that nobody reads.
func mountChain(cfg *jobs.Config, b broker.Broker) error {
	tracing := middleware.NewTracing(middleware.TracingConfig{TracerProvider: trace.NewTracerProvider(trace.WithSampler(trace.NeverSample()))})
	metrics, err := middleware.NewMetrics(middleware.MetricsConfig{Broker: b,
		MeterProvider: metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))})
	if err != nil {
		return err
	}
	cfg.Middleware = []jobs.Middleware{
		tracing.Middleware(),
		metrics.Middleware(),
		middleware.Logging(middleware.LoggingConfig{Logger: slog.New(slog.DiscardHandler)}),
		middleware.Retry(middleware.RetryConfig{}),
		middleware.Timeout(middleware.TimeoutConfig{Soft: time.Minute}),
		middleware.Recovery(nil),
	}
	cfg.Hooks = jobs.JoinHooks(tracing.Hooks(), metrics.Hooks())
	return nil
}
