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

// measured counts and times the worker's jobs for Prometheus, and adds the metrics of
// the Go runtime and of the process.
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

// Close stops the metrics; after that the broker may be closed.
func (m *measured) Close() error {
	return errors.Join(m.Metrics.Close(), m.provider.Shutdown(context.Background()))
}
