package observe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

// scope names this package to OpenTelemetry.
const scope = "github.com/seed81422ce9/jobs/middleware"

// MetricsConfig configures Metrics. The zero value works, but leaves out what only a broker knows.
type MetricsConfig struct {
	// Broker is the store. Each collection asks it once for the depths and ages
	// of its queues, whatever the number of jobs. Nil leaves out the metrics
	// marked as shared in MetricTable, and those of commands.
	Broker broker.Broker

	// MeterProvider takes the measurements. Nil means the global one,
	// otel.GetMeterProvider().
	MeterProvider metric.MeterProvider

	// Queues names the queues whose depths and ages are reported. Nil means all
	// that the store has. The queues of the framework itself (broker.Reserved) have their own metrics.
	// If you set Queues, name these queues too, such as schedule.Queue.
	Queues []string

	// Schedules, if set, is the schedule.Schedules whose extension the servers of
	// this process have. It reports how many schedules are missing, and how many
	// ticks were missed.
	Schedules interface {
		Missing() int
		Missed() map[string]int64 // by reason
	}

	// Keys is how many values the label key may have, which is the tenant or
	// partition key of a job; the keys of further tenants are called "other".
	// Zero means that there is no such label. Each value multiplies the number
	// of series. Values that were not used for a day or two make room for others;
	// what was counted under them is still reported.
	Keys int

	// Messaging adds the metrics of OpenTelemetry's conventions for messaging
	// systems, v1.43, for tools that know these: messaging.client.sent.messages,
	// messaging.client.consumed.messages, messaging.client.operation.duration and
	// messaging.process.duration. Their names follow the conventions, which are not
	// stable yet; they are not in MetricTable.
	Messaging bool

	// MaxTypes and MaxQueues bound the values of these labels in the same way.
	// Zero means 100 and 50.
	MaxTypes, MaxQueues int
}

const (
	defaultMaxTypes  = 100
	defaultMaxQueues = 50
)

// Metrics measures what happens to jobs, under the names of MetricTable. A process
// needs one for each store, however many clients and servers it has. It is safe
// for concurrent use. Mount all of its parts: each measures something that the
// others do not.
type Metrics struct {
	cfg         MetricsConfig
	series      *registry
	instruments instruments
	messaging   *messaging          // nil unless MetricsConfig.Messaging is set
	commands    map[string]*command // by method
	local       local
	relays      relays
	servers     servers
	gauges      metric.Registration
	broker      broker.Broker
}

// NewMetrics creates the instruments. An error either names the field of cfg that
// is outside its limits, or comes from the meter provider.
func NewMetrics(cfg MetricsConfig) (*Metrics, error) {
	for _, field := range []struct {
		name  string
		value *int
		zero  int
	}{{"Keys", &cfg.Keys, 0}, {"MaxTypes", &cfg.MaxTypes, defaultMaxTypes}, {"MaxQueues", &cfg.MaxQueues, defaultMaxQueues}} {
		if *field.value < 0 {
			return nil, broker.Invalid(field.name, "is %d; it must not be negative", *field.value)
		}
		if *field.value == 0 {
			*field.value = field.zero
		}
	}
	if cfg.MeterProvider == nil {
		cfg.MeterProvider = otel.GetMeterProvider()
	}
	m := &Metrics{cfg: cfg, series: newRegistry(cfg.MaxQueues, cfg.MaxTypes, cfg.Keys)}
	m.local.init()
	meter := cfg.MeterProvider.Meter(scope)
	if err := m.instruments.init(meter); err != nil {
		return nil, fmt.Errorf("middleware: metrics: %w", err)
	}
	if cfg.Messaging {
		var err error
		if m.messaging, err = newMessaging(meter, m.series.queue); err != nil {
			return nil, fmt.Errorf("middleware: metrics: %w", err)
		}
	}
	if cfg.Broker != nil {
		m.commands = newCommands()
		m.broker = broker.Wrap(cfg.Broker, m.measure)
	}
	var err error
	if m.gauges, err = meter.RegisterCallback(m.observe, m.instruments.observed(&cfg)...); err != nil {
		return nil, fmt.Errorf("middleware: metrics: %w", err)
	}
	return m, nil
}

// Close ends the collection of gauges. Call it before the broker is closed.
func (m *Metrics) Close() error { return m.gauges.Unregister() }

// Broker returns MetricsConfig.Broker with its calls measured; give it to clients
// and servers. It returns nil if none is configured.
func (m *Metrics) Broker() broker.Broker { return m.broker }

// Middleware measures runs. Use it on the mux, outside of middleware that retries,
// skips or limits runs.
func (m *Metrics) Middleware() jobs.Middleware {
	return func(next jobs.Handler) jobs.Handler {
		return jobs.HandlerFunc(func(ctx context.Context, job *jobs.Job) (err error) {
			record := job.Record()
			s := m.series.of(record.Queue, &record.Body)
			started := time.Now()
			s.running.Add(1)
			m.begun(ctx, s, record, started)
			returned := false
			defer func() { // also after a panic
				s.running.Add(-1)
				took := time.Since(started)
				m.instruments.run.Record(ctx, took.Seconds(), s.record...)
				outcome := jobs.EndedRetried
				if returned {
					outcome = jobs.EndingOf(ctx, job, err).Outcome
				}
				if !stillWaits(outcome) {
					m.retried(ctx, s, record, started)
				}
				m.messaging.ran(ctx, record.Queue, took, isFailure(outcome))
			}()
			err = next.ProcessJob(ctx, job)
			returned = true
			return err
		})
	}
}

// stillWaits reports whether a run with this outcome leaves the job waiting for its retry: it was
// snoozed, by inner middleware or by the handler, or the server ended the run. A job does not
// store which of its snoozes came after its last failure, so the handler's own cannot count as a run.
func stillWaits(outcome string) bool {
	return outcome == jobs.EndedSnoozed || outcome == jobs.EndedReleased
}

// isFailure reports whether a run with this outcome failed. A snooze or a cancel is not a failure.
func isFailure(outcome string) bool {
	switch outcome {
	case jobs.EndedRetried, jobs.EndedDead, jobs.EndedExpired, jobs.EndedReleased:
		return true
	}
	return false
}

// retried measures how long a job waited for a run after a failure. The caller leaves out
// runs after which the job still waits for that, so that each failure counts once.
func (m *Metrics) retried(ctx context.Context, s *series, j *broker.Job, started time.Time) {
	if last := j.Errors.Last(); j.Failures > 0 && last.Attempt == j.Failures-1 { // the last entry is a failure, not a crash
		waited := started.Add(m.local.clockOffset()).Sub(last.At)
		m.instruments.retryWait.Record(ctx, max(waited, 0).Seconds(), s.record...)
	}
}

// begun measures how long a job waited for its first run, since it was due. Both ends of
// the wait are by the store's clock.
func (m *Metrics) begun(ctx context.Context, s *series, j *broker.Job, now time.Time) {
	if j.Epoch != 0 { // not the first run
		return
	}
	instrument := m.instruments.wait
	if j.DueAfter > 0 {
		instrument = m.instruments.lateness
	}
	waited := now.Add(m.local.clockOffset()).Sub(j.CreatedAt) - j.DueAfter
	instrument.Record(ctx, max(waited, 0).Seconds(), s.record...)
}

// Enqueue measures enqueueing. Mount it outside of middleware that refuses jobs.
func (m *Metrics) Enqueue() jobs.EnqueueMiddleware {
	return func(next jobs.EnqueueFunc) jobs.EnqueueFunc {
		return func(ctx context.Context, batch []*jobs.Outgoing) {
			began := time.Now()
			next(ctx, batch)
			took := time.Since(began)
			m.messaging.enqueued(ctx, batch, took)
			result := &m.instruments.ok
			for _, o := range batch {
				s := m.series.of(o.Queue, &o.Body)
				switch {
				case o.Err == nil && o.Info.Replaced: // no job was added
					m.instruments.duplicate.Add(ctx, 1, s.with(labelWhere, "replace")...)
				case o.Err == nil:
					m.instruments.enqueued.Add(ctx, 1, s.add...)
				case errors.Is(o.Err, jobs.ErrDuplicate):
					m.instruments.duplicate.Add(ctx, 1, s.with(labelWhere, "enqueue")...)
				default:
					result = &m.instruments.failed
					m.instruments.refused.Add(ctx, 1, s.with(labelReason, refusal(o.Err))...)
				}
			}
			m.instruments.enqueue.Record(ctx, took.Seconds(), *result...)
		}
	}
}

// refusal returns the value of the label reason for a job that was not accepted.
func refusal(err error) string {
	for _, c := range []struct {
		is   error
		name string
	}{
		{jobs.ErrOutcomeUnknown, "unknown"},
		{jobs.ErrQueueFull, "queue_full"},
		{jobs.ErrTooLarge, "too_large"},
		{jobs.ErrInvalid, "invalid"},
		{jobs.ErrUnavailable, "unavailable"},
	} {
		if errors.Is(err, c.is) {
			return c.name
		}
	}
	return other
}

// OnDuplicate counts a delivery whose effect had happened already. Set
// DedupConfig.OnDuplicate to it.
func (m *Metrics) OnDuplicate(ctx context.Context, job *jobs.Job) {
	record := job.Record()
	m.instruments.duplicate.Add(ctx, 1, m.series.of(record.Queue, &record.Body).with(labelWhere, "run")...)
}
