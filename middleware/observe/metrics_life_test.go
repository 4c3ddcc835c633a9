package observe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/relay"

	"go.opentelemetry.io/otel/exporters/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/metric"

	client "github.com/prometheus/client_golang/prometheus"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

// faults is a store that fails on request.
type faults struct {
	broker.Broker
	renewLost, claimFails, queuesFail atomic.Bool
	queues                            atomic.Int64 // calls
}

// Limits are those of a store that serves other processes: leases are short.
func (f *faults) Limits() broker.Limits { return broker.Limits{} }

func (f *faults) Renew(ctx context.Context, req broker.RenewRequest) (broker.Renewed, error) {
	if !req.Register && f.renewLost.Swap(false) {
		return broker.Renewed{Lost: true}, nil
	}
	return f.Broker.Renew(ctx, req)
}

func (f *faults) Claim(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
	if f.claimFails.Swap(false) {
		return broker.Claimed{}, fmt.Errorf("%w: connection refused", broker.ErrUnavailable)
	}
	return f.Broker.Claim(ctx, req)
}

func (f *faults) Queues(ctx context.Context, req broker.QueuesRequest) (broker.QueuesReply, error) {
	f.queues.Add(1)
	if f.queuesFail.Load() {
		<-ctx.Done()
		return broker.QueuesReply{}, ctx.Err()
	}
	return f.Broker.Queues(ctx, req)
}

// measured is a store, its metrics, and the registry that Prometheus collects them from.
type measured struct {
	store    *faults
	metrics  *Metrics
	provider *sdk.MeterProvider
	registry *client.Registry
	client   *jobs.Client
}

func newMeasured(t *testing.T, cfg MetricsConfig, options ...sdk.Option) *measured {
	t.Helper()
	m := &measured{store: &faults{Broker: membroker.New()}, registry: client.NewRegistry()}
	exporter, err := prometheus.New(prometheus.WithRegisterer(m.registry), prometheus.WithoutScopeInfo(), prometheus.WithoutTargetInfo())
	if err != nil {
		t.Fatal(err)
	}
	m.provider = sdk.NewMeterProvider(append(options, sdk.WithReader(exporter))...)
	cfg.Broker, cfg.MeterProvider = m.store, m.provider
	if cfg.Schedules == nil {
		cfg.Schedules = missing(0)
	}
	if m.metrics, err = NewMetrics(cfg); err != nil {
		t.Fatal(err)
	}
	m.client = jobs.NewClient(m.metrics.Broker(), jobs.ClientConfig{Middleware: []jobs.EnqueueMiddleware{m.metrics.Enqueue()}})
	return m
}

// missing is a number of missing schedules, and of ticks that were too late.
type missing int

func (n missing) Missing() int { return int(n) }

func (n missing) Missed() map[string]int64 {
	if n == 0 {
		return nil
	}
	return map[string]int64{"too_late": int64(n)}
}

// enqueueReserved stores a job of the framework, due after a delay.
func (m *measured) enqueueReserved(t *testing.T, queue string, delay time.Duration) {
	t.Helper()
	receipts, err := m.store.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{{Queue: queue, ID: "s", Delay: delay,
		Body: broker.Body{Type: "schedule", Priority: broker.PriorityNormal}}}})
	if err != nil || receipts[0].Err != nil {
		t.Fatal(err, receipts)
	}
}

func (m *measured) enqueue(t *testing.T, typ string, options ...jobs.Option) {
	t.Helper()
	if _, err := m.client.Enqueue(t.Context(), jobs.NewTask(typ, nil), options...); err != nil {
		t.Fatal(err)
	}
}

// serve starts a measured server. It runs until the test ends or the returned
// function is called.
func (m *measured) serve(t *testing.T, cfg jobs.Config, h jobs.Handler) (stop func()) {
	t.Helper()
	cfg.Middleware = append([]jobs.Middleware{m.metrics.Middleware()}, cfg.Middleware...)
	cfg.Hooks = m.metrics.Hooks()
	cfg.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	server, err := jobs.NewServer(m.metrics.Broker(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(context.Background(), h); err != nil {
		t.Fatal(err)
	}
	m.metrics.Server(server)
	return func() { _ = server.Shutdown(context.Background()) }
}

func pass(d time.Duration) {
	time.Sleep(d) // virtual
	synctest.Wait()
}

// lifeHandler does what the type of a task says.
func lifeHandler(gate chan struct{}) jobs.Handler {
	return jobs.HandlerFunc(func(ctx context.Context, job *jobs.Job) error {
		switch job.Type() {
		case "slow":
			time.Sleep(2 * time.Second) // virtual
		case "fails-once":
			if job.Attempt() == 0 {
				return errors.New("no")
			}
		case "panics":
			panic("at the disco")
		case "gives-up":
			return fmt.Errorf("%w: never", jobs.SkipRetry)
		case "snoozes":
			if job.Delivery() == 0 {
				return jobs.Snooze(time.Second)
			}
		case "cancels":
			return jobs.Cancel(nil)
		case "stuck":
			<-gate
		case "unknown":
			return jobs.ErrUnknownType
		}
		return nil
	})
}

// aLife makes everything that is measured happen at least once.
func aLife(t *testing.T, m *measured) (finish func()) {
	t.Helper()
	abandon(t, m.store, "orphan")
	for _, typ := range []string{"ok", "slow", "fails-once", "snoozes", "cancels", "gives-up"} {
		m.enqueue(t, typ)
	}
	m.enqueue(t, "ok", jobs.WithPriority(jobs.PriorityUrgent), jobs.WithPartitionKey("acme"))
	m.enqueue(t, "panics", jobs.WithMaxRetries(1))
	m.enqueue(t, "later", jobs.WithDelay(time.Minute))
	m.enqueue(t, "at", jobs.WithRunAt(time.Now().Add(time.Minute)))
	m.enqueue(t, "stuck", jobs.WithTimeout(time.Second))
	m.enqueue(t, "ok", jobs.WithDeadline(time.Now().Add(time.Hour)))
	m.enqueue(t, "waits", jobs.WithQueue("unserved"))
	if err := inspect.New(m.store).Pause(t.Context(), "unserved"); err != nil {
		t.Fatal(err)
	}
	if _, err := m.store.Policy(t.Context(), broker.PolicyRequest{Queue: "unserved", MaxDepth: new(int64(7))}); err != nil {
		t.Fatal(err)
	}
	m.enqueueReserved(t, "@schedules", time.Minute)
	m.enqueue(t, "ok", jobs.WithUniqueKey("k"))
	if _, err := m.client.Enqueue(t.Context(), jobs.NewTask("ok", nil), jobs.WithUniqueKey("k")); !errors.Is(err, jobs.ErrDuplicate) {
		t.Fatal("a duplicate was not refused:", err)
	}
	if _, err := m.client.Enqueue(t.Context(), jobs.NewTask("ok", make([]byte, 2<<20))); !errors.Is(err, jobs.ErrTooLarge) {
		t.Fatal("a large task was not refused:", err)
	}
	m.metrics.OnDuplicate(t.Context(), jobs.NewJob(&broker.Job{Queue: "default",
		Body: broker.Body{Type: "ok", Priority: jobs.PriorityNormal}}))

	unrelay := aRelay(t, m)
	gate := make(chan struct{})
	cfg := jobs.Config{RetryPolicy: jobs.Constant(time.Second), Concurrency: 20, TypeConcurrency: map[string]int{"limited": 1}}
	stop := m.serve(t, cfg, lifeHandler(gate))
	pass(30 * time.Second)
	m.store.claimFails.Store(true)
	m.store.renewLost.Store(true)
	pass(2 * time.Minute)
	return func() {
		close(gate)
		pass(3 * time.Second)
		stop()
		unrelay()
	}
}

// aRelay relays a job between two stores; the target refuses another one.
func aRelay(t *testing.T, m *measured) (stop func()) {
	t.Helper()
	from, to := membroker.New(), membroker.New()
	put := func(b broker.Broker, ids ...string) {
		t.Helper()
		for _, id := range ids {
			receipts, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{{Queue: "outbox", ID: id,
				Body: broker.Body{Type: "x", Priority: jobs.PriorityNormal}}}})
			if err != nil || receipts[0].Err != nil {
				t.Fatal(receipts, err)
			}
		}
	}
	put(to, "taken")
	put(from, "free", "taken")
	r, err := relay.New(relay.Config{From: from, FromQueue: "outbox", To: to, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	m.metrics.Relay(r)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// abandon leaves a job under the lease of a worker that died.
func abandon(t *testing.T, b broker.Broker, typ string) {
	t.Helper()
	ctx := t.Context()
	_, err := b.Enqueue(ctx, broker.EnqueueRequest{Jobs: []broker.NewJob{{Queue: "default", ID: "orphan",
		Body: broker.Body{Type: typ, Priority: broker.PriorityUrgent, MaxRetries: 3}}}})
	if err == nil {
		_, err = b.Renew(ctx, broker.RenewRequest{Worker: "dead", Queues: []string{"default"}, Lease: time.Second, Register: true})
	}
	var claimed broker.Claimed
	if err == nil {
		claimed, err = b.Claim(ctx, broker.ClaimRequest{Worker: "dead", Queues: []broker.Share{{Queue: "default", Max: 1}}, Max: 1})
	}
	if err != nil || len(claimed.Jobs) != 1 || claimed.Jobs[0].Type != typ {
		t.Fatalf("a job to abandon: %+v, %v", claimed.Jobs, err)
	}
}
