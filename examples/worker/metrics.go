package main

import (
	"context"
	"errors"
	"net/http"

	"github.com/seed81422ce9/jobs/middleware/observe"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/seed81422ce9/jobs/broker"
)

// measured is what counts and times the worker's jobs, and shows it to
// Prometheus, with what the Go runtime and the system say of the process.
type measured struct {
	*observe.Metrics
	provider *metric.MeterProvider
	handler  http.Handler // of /metrics
}

func measure(b broker.Broker) (*measured, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo())
	if err != nil {
		return nil, err
	}
	m := &measured{provider: metric.NewMeterProvider(metric.WithReader(reader)),
		handler: promhttp.HandlerFor(registry, promhttp.HandlerOpts{})}
	m.Metrics, err = observe.NewMetrics(observe.MetricsConfig{Broker: b, MeterProvider: m.provider})
	return m, err
}

// Close ends the measuring; the broker may be closed then.
func (m *measured) Close() error {
	return errors.Join(m.Metrics.Close(), m.provider.Shutdown(context.Background()))
}
