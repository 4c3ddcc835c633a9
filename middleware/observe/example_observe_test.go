package observe_test

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/seed81422ce9/jobs/middleware/observe"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
)

// A worker that is measured and traced, with its metrics at /metrics. This program
// has no trace provider; its jobs still carry the traces of programs that have one.
func ExampleNewMetrics() {
	b := membroker.New() // or any other store
	defer b.Close()

	// begin exporter
	exporter, err := prometheus.New()
	if err != nil {
		log.Fatal(err)
	}
	otel.SetMeterProvider(metric.NewMeterProvider(metric.WithReader(exporter)))
	http.Handle("/metrics", promhttp.Handler())
	// end exporter

	// begin mount
	tracing := observe.NewTracing(observe.TracingConfig{})
	metrics, err := observe.NewMetrics(observe.MetricsConfig{Broker: b})
	if err != nil {
		log.Fatal(err)
	}
	defer metrics.Close()
	client := jobs.NewClient(metrics.Broker(), jobs.ClientConfig{
		Middleware: []jobs.EnqueueMiddleware{tracing.Enqueue(), metrics.Enqueue()},
	})
	server, err := jobs.NewServer(metrics.Broker(), jobs.Config{
		Middleware: []jobs.Middleware{tracing.Middleware(), metrics.Middleware()},
		Hooks:      jobs.JoinHooks(tracing.Hooks(), metrics.Hooks()),
	})
	// end mount
	if err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	done := make(chan struct{})
	_ = server.Start(ctx, jobs.HandlerFunc(func(context.Context, *jobs.Job) error { close(done); return nil }))
	_, _ = client.Enqueue(ctx, jobs.NewTask("email:welcome", nil))
	<-done
	_ = server.Shutdown(ctx)

	web := httptest.NewServer(http.DefaultServeMux)
	defer web.Close()
	reply, err := http.Get(web.URL + "/metrics")
	if err != nil {
		log.Fatal(err)
	}
	defer reply.Body.Close()
	for lines := bufio.NewScanner(reply.Body); lines.Scan(); {
		if name, labels, ok := strings.Cut(lines.Text(), "{"); ok && name == "jobs_processed_total" {
			fmt.Println(name, labels[strings.LastIndex(labels, "}")+1:])
		}
	}
	// Output: jobs_processed_total  1
}
