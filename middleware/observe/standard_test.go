package observe_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/internal/chaintest"

	"github.com/seed81422ce9/jobs/middleware/observe"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/middleware"
)

func ExampleNewStandard() {
	b, logger := membroker.New(), chaintest.PlainLogger() // or any other store, and any logger
	defer b.Close()
	ctx := context.Background()

	// begin standard
	std, err := observe.NewStandard(observe.StandardConfig{Broker: b, Logging: observe.LoggingConfig{Logger: logger}})
	if err != nil {
		log.Fatal(err)
	}
	defer std.Close() // ends what measures the store
	client := jobs.NewClient(std.Broker(), jobs.ClientConfig{Middleware: std.Enqueue()})
	server, err := jobs.NewServer(std.Broker(), jobs.Config{Middleware: std.Middleware(), Hooks: std.Hooks()})
	// end standard
	if err != nil {
		log.Fatal(err)
	}

	info, err := client.Enqueue(ctx, jobs.NewTask("email:welcome", nil, jobs.WithRetention(time.Hour)))
	if err != nil {
		log.Fatal(err)
	}
	server.Start(context.Background(), jobs.HandlerFunc(func(context.Context, *jobs.Job) error { return nil }))
	job, err := client.Wait(ctx, info.Queue, info.ID)
	server.Shutdown(ctx)
	fmt.Println(job.State, err)
	// Output:
	// level=INFO type=email:welcome outcome=completed
	// completed <nil>
}

func TestStandard_TheBrokerMayBeThatOfTheMetrics(t *testing.T) {
	t.Parallel()
	b := membroker.New()
	defer b.Close()
	std, err := observe.NewStandard(observe.StandardConfig{Metrics: observe.MetricsConfig{Broker: b}})
	if err != nil {
		t.Fatal(err)
	}
	defer std.Close()
	if _, err := jobs.NewServer(std.Broker(), jobs.Config{}); err != nil {
		t.Errorf("the broker was dropped: %v", err)
	}
}

// Each part of the standard chain reports a job that fails, is too slow, and
// panics before it succeeds.
func TestStandard_TheStandardChainTracesMeasuresLogsAndBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membroker.New()
		defer b.Close()
		spans, reader := tracetest.NewInMemoryExporter(), metric.NewManualReader()
		var lines bytes.Buffer
		std, err := observe.NewStandard(observe.StandardConfig{
			Broker:  b,
			Tracing: observe.TracingConfig{TracerProvider: trace.NewTracerProvider(trace.WithSyncer(spans))},
			Metrics: observe.MetricsConfig{MeterProvider: metric.NewMeterProvider(metric.WithReader(reader))},
			Logging: observe.LoggingConfig{Logger: slog.New(slog.NewTextHandler(&lines, nil))},
			Timeout: middleware.TimeoutConfig{Soft: time.Second},
		})
		if err != nil {
			t.Fatal(err)
		}
		client := jobs.NewClient(std.Broker(), jobs.ClientConfig{Middleware: std.Enqueue()})
		server, err := jobs.NewServer(std.Broker(), jobs.Config{Middleware: std.Middleware(), Hooks: std.Hooks(),
			RetryPolicy: jobs.Constant(time.Minute), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Enqueue(t.Context(), jobs.NewTask("odd", nil)); err != nil {
			t.Fatal(err)
		}
		runs, bound := 0, time.Duration(0)
		server.Start(context.Background(), jobs.HandlerFunc(func(ctx context.Context, job *jobs.Job) error {
			switch runs++; runs {
			case 1:
				return errors.New("no answer")
			case 2:
				began := time.Now()
				<-ctx.Done()
				bound = time.Since(began)
				return context.Cause(ctx)
			case 3:
				panic("a bug")
			}
			std.Metrics().OnDuplicate(ctx, job)
			return nil
		}))
		time.Sleep(time.Hour)
		if err := server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}

		for _, want := range []string{"no answer", "class=timeout", "class=panic", "outcome=completed"} {
			if n := strings.Count(lines.String(), want); n != 1 {
				t.Errorf("the log has %q %d times, want once:\n%s", want, n, &lines)
			}
		}
		if bound != time.Second {
			t.Errorf("the handler was bounded after %v, want 1s", bound)
		}
		if n := len(std.Middleware()); n != 6 {
			t.Errorf("the chain has %d parts, want tracing, metrics, logging, retry, timeout and recovery", n)
		}
		processed := 0
		for _, span := range spans.GetSpans() {
			if strings.HasPrefix(span.Name, "process ") {
				processed++
			}
		}
		if processed != 4 {
			t.Errorf("%d spans of runs, want 4", processed)
		}
		var collected metricdata.ResourceMetrics
		if err := reader.Collect(t.Context(), &collected); err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprint(collected)
		for _, name := range []string{"jobs.processed", "jobs.enqueued", "jobs.queue.depth", "jobs.duplicate"} {
			if !strings.Contains(text, name) && !strings.Contains(text, strings.ReplaceAll(name, ".", "_")) {
				t.Errorf("%s was not measured", name)
			}
		}
		if err := std.Close(); err != nil {
			t.Error(err)
		}
	})
}
