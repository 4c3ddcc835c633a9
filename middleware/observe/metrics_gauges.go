package observe

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/seed81422ce9/jobs/broker"
)

// sharedTimeout bounds the call to the store that a collection makes. It is well
// below Prometheus' default scrape timeout of ten seconds.
const sharedTimeout = 2 * time.Second

// local is the state of this process's servers.
type local struct {
	offset atomic.Int64 // how far the store's clock is ahead, in nanoseconds
	timed  atomic.Bool  // offset is known
	stuck  atomic.Int64

	mu      sync.Mutex
	workers map[string]*liveWorker
}

// liveWorker is a worker between its start and its end.
type liveWorker struct {
	concurrency int
	margin      time.Duration // at the time at
	at          time.Time
}

func (l *local) init() { l.workers = make(map[string]*liveWorker) }

func (l *local) clockOffset() time.Duration { return time.Duration(l.offset.Load()) }

// observe reports the gauges of a collection: those of this process, and those of
// the store, for which it makes one call. If the store does not answer, its
// metrics are missing rather than outdated, and the failure is counted.
func (m *Metrics) observe(ctx context.Context, o metric.Observer) error {
	m.observeLocal(o)
	if m.broker == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, sharedTimeout)
	defer cancel()
	reply, err := m.broker.Queues(ctx, broker.QueuesRequest{Names: m.cfg.Queues})
	if err == nil {
		m.observeQueues(o, reply)
	}
	return nil
}

// observeExtension reports a queue of the framework. Its jobs run again and again, so their age means
// nothing; what matters is how long a job has been due.
func (m *Metrics) observeExtension(o metric.Observer, q *broker.QueueInfo, now time.Time) {
	queue := attribute.String(labelQueue, clean(q.Name))
	for _, state := range broker.States() {
		o.ObserveInt64(m.instruments.extensionDepth, q.Counts[state],
			metric.WithAttributes(queue, attribute.String(labelState, state.String())))
	}
	overdue := max(q.Age(broker.StateRetry, now), q.Age(broker.StateScheduled, now))
	o.ObserveFloat64(m.instruments.overdue, overdue.Seconds(), metric.WithAttributes(queue))
}

func (m *Metrics) observeLocal(o metric.Observer) {
	i, l := &m.instruments, &m.local
	m.series.each(func(s *series) { o.ObserveInt64(i.inFlight, s.running.Load(), s.observe...) })
	o.ObserveInt64(i.stuckNow, max(l.stuck.Load(), 0))
	if l.timed.Load() {
		o.ObserveFloat64(i.clockOffset, l.clockOffset().Seconds())
	}
	now := time.Now()
	slots := 0
	margin, any := time.Duration(0), false
	l.mu.Lock()
	for _, w := range l.workers {
		slots += w.concurrency
		if left := w.margin - now.Sub(w.at); !any || left < margin {
			margin, any = left, true
		}
	}
	l.mu.Unlock()
	o.ObserveInt64(i.slots, int64(slots))
	if m.cfg.Schedules != nil {
		o.ObserveInt64(i.missing, int64(m.cfg.Schedules.Missing()))
		for reason, n := range m.cfg.Schedules.Missed() {
			o.ObserveInt64(i.missed, n, metric.WithAttributes(attribute.String(labelReason, reason)))
		}
	}
	if any {
		o.ObserveFloat64(i.leaseMargin, margin.Seconds())
	}
	m.observeRelays(o)
	m.observeTypes(o)
}

// agedStates are those whose oldest job has an age.
var agedStates = []broker.State{broker.StatePending, broker.StateScheduled, broker.StateRetry, broker.StateDead}

// stateSuppressed is the state of suppressed dead jobs in the label of depths. The
// depth of dead jobs leaves them out, since they wait for no decision.
const stateSuppressed = "suppressed"

// shownQueue holds what is reported about one queue, or about all queues beyond the bound together.
type shownQueue struct {
	counts     map[broker.State]int64
	suppressed int64 // dead jobs that counts leaves out
	ages       map[broker.State]time.Duration
	paused     int64
	limits     map[string]float64 // by rule; for several queues the highest
}

func (m *Metrics) observeQueues(o metric.Observer, reply broker.QueuesReply) {
	shown := make(map[string]*shownQueue, len(reply.Queues))
	for i := range reply.Queues {
		q := &reply.Queues[i]
		if broker.Reserved(q.Name) {
			m.observeExtension(o, q, reply.Now)
			continue
		}
		label := m.series.queue(q.Name)
		s := shown[label]
		if s == nil {
			s = &shownQueue{counts: make(map[broker.State]int64), ages: make(map[broker.State]time.Duration),
				limits: make(map[string]float64)}
			shown[label] = s
		}
		for state := range q.Counts {
			s.counts[state] += q.Listed(state)
		}
		s.suppressed += q.Suppressed
		for _, state := range agedStates {
			s.ages[state] = max(s.ages[state], q.Age(state, reply.Now))
		}
		if q.Policy.Paused {
			s.paused = 1
		}
		for rule, limit := range limitsOf(q.Policy) {
			s.limits[rule] = max(s.limits[rule], limit)
		}
	}
	for label, s := range shown {
		queue := attribute.String(labelQueue, label)
		for _, state := range broker.States() {
			o.ObserveInt64(m.instruments.depth, s.counts[state], metric.WithAttributes(queue, attribute.String(labelState, state.String())))
		}
		o.ObserveInt64(m.instruments.depth, s.suppressed, metric.WithAttributes(queue, attribute.String(labelState, stateSuppressed)))
		for _, state := range agedStates {
			o.ObserveFloat64(m.instruments.oldestAge, s.ages[state].Seconds(),
				metric.WithAttributes(queue, attribute.String(labelState, state.String())))
		}
		o.ObserveInt64(m.instruments.paused, s.paused, metric.WithAttributes(queue))
		for rule, limit := range s.limits {
			o.ObserveFloat64(m.instruments.limit, limit, metric.WithAttributes(queue, attribute.String(labelRule, rule)))
		}
	}
}

// limitsOf returns the limits that a policy sets, by rule.
func limitsOf(p broker.Policy) map[string]float64 {
	limits := make(map[string]float64)
	for rule, limit := range map[string]float64{"max_depth": float64(p.MaxDepth), "max_active": float64(p.MaxActive),
		"max_bytes": float64(p.MaxBytes), "rate": perSecond(p.Rate), "retry_rate": perSecond(p.RetryRate)} {
		if limit > 0 {
			limits[rule] = limit
		}
	}
	return limits
}

func perSecond(r broker.Rate) float64 {
	if r.Jobs == 0 {
		return 0
	}
	return float64(r.Jobs) / r.Per.Seconds()
}
