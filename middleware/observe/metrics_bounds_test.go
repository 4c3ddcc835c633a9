package observe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/exporters/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	client "github.com/prometheus/client_golang/prometheus"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

func TestMetricsBounds_LabelsAreBoundedAndIDsAreNone(t *testing.T) {
	t.Parallel()
	m := newMeasured(t, MetricsConfig{MaxTypes: 3, MaxQueues: 2, Keys: 2})
	for i := range 50 {
		m.enqueue(t, fmt.Sprintf("type-%d", i), jobs.WithQueue(fmt.Sprintf("queue-%d", i)), jobs.WithPartitionKey(fmt.Sprintf("key-%d", i)),
			jobs.WithID(fmt.Sprintf("id-%d", i)))
	}
	m.enqueue(t, "type-1", jobs.WithQueue("queue-1"))
	const want = `
jobs_enqueued_total{key=,priority=normal,queue=queue-1,type=type-1} 1
jobs_enqueued_total{key=key-0,priority=normal,queue=queue-0,type=type-0} 1
jobs_enqueued_total{key=key-1,priority=normal,queue=queue-1,type=type-1} 1
jobs_enqueued_total{key=other,priority=normal,queue=other,type=other} 47
jobs_enqueued_total{key=other,priority=normal,queue=other,type=type-2} 1
jobs_queue_depth{queue=other,state=pending} 48
jobs_queue_depth{queue=queue-0,state=pending} 1
jobs_queue_depth{queue=queue-1,state=pending} 2
`
	all := values(t, m.registry)
	got := lines(all, func(s string) bool {
		return strings.HasPrefix(s, "jobs_enqueued_total") || strings.HasPrefix(s, "jobs_queue_depth") && strings.Contains(s, "state=pending")
	})
	if got != want {
		t.Errorf("50 types, queues and tenants where 3, 2 and 2 have names:\n%s", difference(got, want))
	}
	for series := range all {
		if strings.Contains(series, "id-") {
			t.Errorf("%s has an ID as a label", series)
		}
	}
}

func TestMetricsBounds_CombinationsOfLabelsAreBounded(t *testing.T) {
	t.Parallel()
	r := newRegistry(50, 100, 10_000)
	for i := range 20_000 {
		b := broker.Body{Type: fmt.Sprint("type", i%200), Priority: broker.Priority(i%4 + 1), Key: fmt.Sprint("key", i)}
		queue := fmt.Sprint("queue", i%60)
		if s, again := r.of(queue, &b), r.of(queue, &b); s != again {
			t.Fatalf("job %d is counted in two places", i)
		}
	}
	n := 0
	r.each(func(*series) { n++ })
	if limit := maxSeries + 51*4; n < maxSeries || n > limit {
		t.Errorf("%d combinations, want from %d to %d", n, maxSeries, limit)
	}
	for i := range 1000 {
		r.class(fmt.Sprint("class", i))
	}
	if got := r.class("one more"); got != other {
		t.Errorf("after a thousand classes of errors the next is called %q", got)
	}
}

func TestMetrics_LabelsThatAreIdleForDaysMakeRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(2, 2, 2)
		label := func(name string) string {
			s := r.of(name, &broker.Body{Type: name, Key: name, Priority: broker.PriorityNormal})
			return fmt.Sprint(s.attributes[2].Value.AsString(), " ", s.attributes[3].Value.AsString(), " ", s.attributes[0].Value.AsString())
		}
		want := func(name, labels string) {
			t.Helper()
			if got := label(name); got != labels {
				t.Errorf("a job of %s is counted under %q, want %q", name, got, labels)
			}
		}
		for i := range maxClasses {
			r.class(fmt.Sprint("class", i))
		}
		want("a", "a a a")
		want("b", "b b b")
		want("c", "other other other")
		time.Sleep(labelIdle - 1)
		want("c", "other other other")
		time.Sleep(1)
		want("c", "other other other") // both were used on the first day
		if got := r.class("one more"); got != other {
			t.Errorf("on the first day one class more is called %q", got)
		}
		s := r.of("a", &broker.Body{Type: "a", Key: "a", Priority: broker.PriorityNormal})
		r.of("b", &broker.Body{Type: "b", Key: "b", Priority: broker.PriorityUrgent}) // the same labels in another series
		time.Sleep(labelIdle)
		want("c", "other other other")
		s.running.Add(1) // for two days
		for range 2 {
			time.Sleep(labelIdle)
			want("c", "c c c")
		}
		want("a", "a a a")
		want("b", "other other other")
		if r.of("a", &broker.Body{Type: "a", Key: "a", Priority: broker.PriorityNormal}) != s {
			t.Error("a series in which a handler runs was replaced")
		}
		if got := r.class("one more"); got != "one more" {
			t.Errorf("one class more is called %q although the others were idle for days", got)
		}
		if n := r.queue("d"); n != other {
			t.Errorf("a third queue is called %q", n)
		}
	})
}

func TestMetricsBounds_TheStoreIsAskedOnceForEachCollectionOfEachReader(t *testing.T) {
	t.Parallel()
	second := sdk.NewManualReader()
	m := newMeasured(t, MetricsConfig{}, sdk.WithReader(second))
	for i := range 20 {
		m.enqueue(t, "t", jobs.WithQueue(fmt.Sprint("queue", i)))
	}
	for range 3 {
		values(t, m.registry)
	}
	if n := m.store.queues.Load(); n != 3 {
		t.Errorf("3 scrapes of 20 queues asked the store %d times", n)
	}
	var data metricdata.ResourceMetrics
	if err := second.Collect(t.Context(), &data); err != nil {
		t.Fatal(err)
	}
	if n := m.store.queues.Load(); n != 4 {
		t.Errorf("a collection of the other reader: %d calls in all, want 4", n)
	}
	total := func(name string) (sum int64) {
		for _, metric := range data.ScopeMetrics[0].Metrics {
			var points []metricdata.DataPoint[int64]
			switch series := metric.Data.(type) {
			case metricdata.Sum[int64]:
				points = series.DataPoints
			case metricdata.Gauge[int64]:
				points = series.DataPoints
			}
			for _, p := range points {
				if metric.Name == name {
					sum += p.Value
				}
			}
		}
		return sum
	}
	if e, d := total("jobs.enqueued"), total("jobs.queue.depth"); e != 20 || d != 20 {
		t.Errorf("the second reader sees %d enqueued and %d in the queues, want 20 each", e, d)
	}
}

// downExporter is a collector that takes connections and never answers.
type downExporter struct{ sdk.Exporter }

func (downExporter) Temporality(sdk.InstrumentKind) metricdata.Temporality {
	return metricdata.CumulativeTemporality
}
func (downExporter) Aggregation(k sdk.InstrumentKind) sdk.Aggregation {
	return sdk.DefaultAggregationSelector(k)
}
func (downExporter) Export(ctx context.Context, _ *metricdata.ResourceMetrics) error {
	<-ctx.Done()
	return ctx.Err()
}
func (downExporter) ForceFlush(context.Context) error { return errors.New("down") }
func (downExporter) Shutdown(context.Context) error   { return errors.New("down") }

func TestMetricsBounds_ACollectorThatIsDownHoldsUpNeitherJobsNorTheOtherReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		down := sdk.NewPeriodicReader(downExporter{}, sdk.WithInterval(time.Second), sdk.WithTimeout(time.Minute))
		m := newMeasured(t, MetricsConfig{}, sdk.WithReader(down))
		var runs atomic.Int64
		stop := m.serve(t, jobs.Config{Concurrency: 2}, jobs.HandlerFunc(func(context.Context, *jobs.Job) error {
			runs.Add(1)
			return nil
		}))
		pass(10 * time.Second) // an export hangs
		for range 100 {
			m.enqueue(t, "t")
		}
		pass(time.Second)
		if n := runs.Load(); n != 100 {
			t.Errorf("%d of 100 jobs ran in a second", n)
		}
		if n := values(t, m.registry)["jobs_processed_total{priority=normal,queue=default,type=t}"]; n != 100 {
			t.Errorf("the other reader shows %v processed jobs, want 100", n)
		}
		stop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = m.provider.Shutdown(ctx)
		pass(2 * time.Minute)
	})
}

func TestMetricsBounds_AStoreThatIsAwayLeavesTheOtherMetricsAndIsCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMeasured(t, MetricsConfig{})
		m.enqueue(t, "t")
		m.store.queuesFail.Store(true)
		began := time.Now()
		values(t, m.registry)
		if took := time.Since(began); took != sharedTimeout {
			t.Errorf("a scrape took %v, want %v", took, sharedTimeout)
		}
		got := values(t, m.registry)
		if n := got["jobs_enqueued_total{priority=normal,queue=default,type=t}"]; n != 1 {
			t.Errorf("%v enqueued jobs are shown, want 1", n)
		}
		if n := got["jobs_store_errors_total{command=queues,error=unknown}"]; n != 2 {
			t.Errorf("%v failures of the call are counted, want 2", n)
		}
		for series := range got {
			if strings.HasPrefix(series, "jobs_queue_") {
				t.Errorf("%s is shown although nobody knows", series)
			}
		}
		m.store.queuesFail.Store(false)
		if err := m.metrics.Close(); err != nil {
			t.Error(err)
		}
		calls := m.store.queues.Load()
		values(t, m.registry)
		if n := m.store.queues.Load(); n != calls {
			t.Error("the store is asked after Close")
		}
	})
}

func TestMetricsBounds_MetricsWithoutABrokerMeasureTheRest(t *testing.T) {
	t.Parallel()
	m, err := NewMetrics(MetricsConfig{})
	if err != nil || m.Broker() != nil {
		t.Fatalf("the zero configuration gives %v, %v", m.Broker(), err)
	}
	job := jobs.NewJob(&broker.Job{Queue: "q", Body: broker.Body{Type: "t"}})
	if err := m.Middleware()(jobs.HandlerFunc(func(context.Context, *jobs.Job) error { return nil })).ProcessJob(t.Context(),
		job); err != nil {
		t.Error(err)
	}
	if _, err := NewMetrics(MetricsConfig{Keys: -1}); !errors.Is(err, jobs.ErrInvalid) || !strings.Contains(err.Error(), "Keys") {
		t.Errorf("a negative number of keys: %v", err)
	}
}

func TestMetricsBounds_MeasuringNeverMakesAJobRefused(t *testing.T) {
	t.Parallel()
	m := newMeasured(t, MetricsConfig{})
	many := make(map[string]string)
	for i := range broker.MaxHeaders {
		many[fmt.Sprint(i)] = "x"
	}
	m.enqueue(t, "many", jobs.WithHeaders(many), jobs.WithDelay(time.Hour))
	m.enqueue(t, "large", jobs.WithHeader("x", strings.Repeat("x", broker.MaxHeaderBytes-1)), jobs.WithDelay(time.Hour))
}

func TestMetricsBounds_AHandlerThatPanicsIsMeasured(t *testing.T) {
	t.Parallel()
	m := newMeasured(t, MetricsConfig{})
	h := m.metrics.Middleware()(jobs.HandlerFunc(func(context.Context, *jobs.Job) error {
		if n := values(t, m.registry)["jobs_in_flight{priority=normal,queue=q,type=t}"]; n != 1 {
			t.Errorf("%v handlers are in flight while one runs", n)
		}
		panic("no")
	}))
	func() {
		defer func() { _ = recover() }()
		_ = h.ProcessJob(t.Context(), jobs.NewJob(&broker.Job{Queue: "q", Body: broker.Body{Type: "t"}}))
	}()
	got := values(t, m.registry)
	if n := got["jobs_in_flight{priority=normal,queue=q,type=t}"]; n != 0 {
		t.Errorf("%v handlers are in flight after it", n)
	}
	if n := got["jobs_processing_latency_seconds{priority=normal,queue=q,type=t}"]; n != 1 {
		t.Errorf("%v runs were measured", n)
	}
}

func TestMetricsBounds_ServersOfOneStoreReportTheSameDepths(t *testing.T) {
	t.Parallel()
	first := newMeasured(t, MetricsConfig{})
	for range 7 {
		first.enqueue(t, "t")
	}
	registry := client.NewRegistry()
	exporter, err := prometheus.New(prometheus.WithRegisterer(registry), prometheus.WithoutScopeInfo())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewMetrics(MetricsConfig{Broker: first.store, MeterProvider: sdk.NewMeterProvider(sdk.WithReader(exporter))}); err != nil {
		t.Fatal(err)
	}
	const depth = "jobs_queue_depth{queue=default,state=pending}"
	if a, b := values(t, first.registry)[depth], values(t, registry)[depth]; a != 7 || b != 7 {
		t.Errorf("of 7 jobs one server reports %v and the other %v; the maximum over them is to be the truth", a, b)
	}
}

func TestMetrics_SuppressedDeadJobsAreToldApart(t *testing.T) {
	t.Parallel()
	m := newMeasured(t, MetricsConfig{})
	dead := broker.Restored{State: broker.StateDead, Head: broker.Head{Reason: broker.ReasonRetries}}
	out := dead
	out.Head.Suppressed = true
	req := broker.EnqueueRequest{}
	for i, past := range []broker.Restored{dead, out, out} {
		req.Jobs = append(req.Jobs, broker.NewJob{Queue: "mail", ID: fmt.Sprint(i), Body: broker.Body{Type: "t", Priority: broker.PriorityNormal},
			Restore: &past})
	}
	if receipts, err := m.store.Enqueue(t.Context(), req); err != nil || receipts[2].Err != nil {
		t.Fatal(err, receipts)
	}
	all := values(t, m.registry)
	listed, suppressed := all["jobs_queue_depth{queue=mail,state=dead}"], all["jobs_queue_depth{queue=mail,state=suppressed}"]
	if listed != 1 || suppressed != 2 {
		t.Errorf("of 3 dead jobs, 2 of them suppressed, %v are told as dead and %v as suppressed; want 1 and 2", listed, suppressed)
	}
}

func TestMetrics_LimitsAreThoseThatThePolicySets(t *testing.T) {
	t.Parallel()
	limited := broker.Policy{MaxActive: 5, Rate: broker.Rate{Jobs: 30, Per: time.Minute}}
	if got := limitsOf(limited); len(got) != 2 || got["max_active"] != 5 || got["rate"] != 0.5 {
		t.Errorf("the limits of %+v are %v", limited, got)
	}
}

func TestMetricsBounds_RunsOfSampledTracesLeaveExemplars(t *testing.T) {
	t.Parallel()
	m := newMeasured(t, MetricsConfig{})
	tracing := record(TracingConfig{})
	h := jobs.Chain(tracing.Middleware(), m.metrics.Middleware())(jobs.HandlerFunc(func(context.Context, *jobs.Job) error { return nil }))
	if err := h.ProcessJob(t.Context(), jobs.NewJob(&broker.Job{Queue: "q", Body: broker.Body{Type: "t"}})); err != nil {
		t.Fatal(err)
	}
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	want := tracing.only(t).SpanContext().TraceID().String()
	for _, family := range families {
		if family.GetName() != "jobs_processing_latency_seconds" {
			continue
		}
		for _, bucket := range family.Metric[0].Histogram.Bucket {
			for _, label := range bucket.GetExemplar().GetLabel() {
				if label.GetName() == "trace_id" && label.GetValue() == want {
					return
				}
			}
		}
	}
	t.Errorf("no bucket of the run's time has an exemplar of trace %s", want)
}
