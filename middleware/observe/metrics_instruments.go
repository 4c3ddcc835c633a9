package observe

import (
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// instruments holds the instruments of metricTable, which has their names, units
// and descriptions.
type instruments struct {
	enqueued, duplicate, refused, claimed, processed, failures, retried, dead, outcomes, reclaimed metric.Int64Counter
	starts, stops, stuck, storeErrors                                                              metric.Int64Counter

	wait, lateness, retryWait, run, enqueue, claim, settle, command metric.Float64Histogram
	attempts                                                        metric.Int64Histogram

	relayed, relayRefused, missed       metric.Int64ObservableCounter
	inFlight, slots, stuckNow, relaying metric.Int64ObservableUpDownCounter
	depth, paused                       metric.Int64ObservableGauge
	limit                               metric.Float64ObservableGauge
	extensionDepth, missing             metric.Int64ObservableGauge
	leaseMargin, clockOffset, oldestAge metric.Float64ObservableGauge
	overdue                             metric.Float64ObservableGauge
	relayLag                            metric.Float64ObservableGauge
	typeMax, typeRunning, typeWaiting   metric.Int64ObservableUpDownCounter

	ok, failed       []metric.RecordOption // for enqueue
	waited, unwaited []metric.RecordOption // for claim
	drained, lost    []metric.AddOption    // for stops
}

// Buckets. jobSeconds are for waits and runs of jobs, which may take hours;
// storeSeconds are for calls to a store.
var (
	jobSeconds   = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200}
	storeSeconds = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	runCounts    = []float64{1, 2, 3, 4, 6, 8, 12, 16, 26, 50}
)

func (i *instruments) init(meter metric.Meter) error {
	d := declarer{meter: meter}
	i.enqueued, i.duplicate, i.refused = d.counter("jobs.enqueued"), d.counter("jobs.duplicate"), d.counter("jobs.refused")
	i.claimed, i.reclaimed = d.counter("jobs.claimed"), d.counter("jobs.reclaimed")
	i.processed, i.failures, i.retried, i.dead = d.counter("jobs.processed"), d.counter("jobs.failed"),
		d.counter("jobs.retried"), d.counter("jobs.dead")
	i.outcomes = d.counter("jobs.outcomes")
	i.starts, i.stops = d.counter("jobs.worker.starts"), d.counter("jobs.worker.stops")
	i.stuck, i.storeErrors = d.counter("jobs.stuck"), d.counter("jobs.store.errors")

	i.wait, i.lateness = d.seconds("jobs.wait", jobSeconds), d.seconds("jobs.lateness", jobSeconds)
	i.retryWait = d.seconds("jobs.retry.wait", jobSeconds)
	i.run = d.seconds("jobs.processing.latency", jobSeconds)
	i.enqueue = d.seconds("jobs.enqueue.duration", storeSeconds)
	i.claim, i.settle = d.seconds("jobs.claim.duration", storeSeconds), d.seconds("jobs.settle.duration", storeSeconds)
	i.command = d.seconds("jobs.store.command.duration", storeSeconds)
	i.attempts = d.counts("jobs.attempts", runCounts)

	i.inFlight, i.slots, i.stuckNow = d.upDown("jobs.in_flight"), d.upDown("jobs.slots"), d.upDown("jobs.stuck.handlers")
	i.depth, i.paused = d.gauge("jobs.queue.depth"), d.gauge("jobs.queue.paused")
	i.limit = d.gaugeFloat("jobs.queue.limit")
	i.leaseMargin, i.clockOffset = d.gaugeFloat("jobs.lease.margin"), d.gaugeFloat("jobs.store.clock.offset")
	i.oldestAge = d.gaugeFloat("jobs.queue.oldest.age")
	i.extensionDepth, i.overdue = d.gauge("jobs.extension.depth"), d.gaugeFloat("jobs.extension.overdue")
	i.missing, i.missed = d.gauge("jobs.schedules.missing"), d.observedCounter("jobs.schedules.missed")
	i.relayed, i.relayRefused = d.observedCounter("jobs.relayed"), d.observedCounter("jobs.relay.refused")
	i.relaying, i.relayLag = d.upDown("jobs.relay.active"), d.gaugeFloat("jobs.relay.lag")

	i.typeMax, i.typeRunning, i.typeWaiting = d.upDown("jobs.type.limit"), d.upDown("jobs.type.running"), d.upDown("jobs.type.waiting")

	i.ok, i.failed = recorded(labelResult, "ok"), recorded(labelResult, "error")
	i.waited, i.unwaited = recorded(labelWaited, "true"), recorded(labelWaited, "false")
	i.drained, i.lost = added(labelReason, "drained"), added(labelReason, "lost")
	return d.err
}

// observed lists the instruments that the callback of a collection reports.
func (i *instruments) observed(cfg *MetricsConfig) []metric.Observable {
	all := []metric.Observable{i.inFlight, i.slots, i.stuckNow, i.leaseMargin, i.clockOffset,
		i.relaying, i.relayed, i.relayRefused, i.relayLag, i.typeMax, i.typeRunning, i.typeWaiting}
	if cfg.Broker != nil {
		all = append(all, i.depth, i.oldestAge, i.paused, i.limit, i.extensionDepth, i.overdue)
	}
	if cfg.Schedules != nil {
		all = append(all, i.missing, i.missed)
	}
	return all
}

func recorded(label, value string) []metric.RecordOption {
	return []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(attribute.String(label, value)))}
}

func added(pairs ...string) []metric.AddOption {
	var all []attribute.KeyValue
	for n := 0; n < len(pairs); n += 2 {
		all = append(all, attribute.String(pairs[n], pairs[n+1]))
	}
	return []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(all...))}
}

// declarer creates the instruments of the table; err is the first error.
type declarer struct {
	meter metric.Meter
	err   error
}

func (d *declarer) find(instrument string, kind MetricKind) Metric {
	for _, m := range metricTable {
		if m.Instrument == instrument && m.Kind == kind {
			return m
		}
	}
	d.fail(fmt.Errorf("the table has no %s %s", kind, instrument))
	return Metric{}
}

func (d *declarer) fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

func (d *declarer) counter(name string) metric.Int64Counter {
	m := d.find(name, Counter)
	made, err := d.meter.Int64Counter(m.Instrument, metric.WithUnit(m.Unit), metric.WithDescription(m.Help))
	d.fail(err)
	return made
}

func (d *declarer) observedCounter(name string) metric.Int64ObservableCounter {
	m := d.find(name, Counter)
	made, err := d.meter.Int64ObservableCounter(m.Instrument, metric.WithUnit(m.Unit), metric.WithDescription(m.Help))
	d.fail(err)
	return made
}

func (d *declarer) seconds(name string, buckets []float64) metric.Float64Histogram {
	m := d.find(name, Histogram)
	made, err := d.meter.Float64Histogram(m.Instrument, metric.WithUnit(m.Unit), metric.WithDescription(m.Help),
		metric.WithExplicitBucketBoundaries(buckets...))
	d.fail(err)
	return made
}

func (d *declarer) counts(name string, buckets []float64) metric.Int64Histogram {
	m := d.find(name, Histogram)
	made, err := d.meter.Int64Histogram(m.Instrument, metric.WithUnit(m.Unit), metric.WithDescription(m.Help),
		metric.WithExplicitBucketBoundaries(buckets...))
	d.fail(err)
	return made
}

// upDown creates a gauge whose values add up over servers.
func (d *declarer) upDown(name string) metric.Int64ObservableUpDownCounter {
	m := d.find(name, Gauge)
	made, err := d.meter.Int64ObservableUpDownCounter(m.Instrument, metric.WithUnit(m.Unit), metric.WithDescription(m.Help))
	d.fail(err)
	return made
}

func (d *declarer) gauge(name string) metric.Int64ObservableGauge {
	m := d.find(name, Gauge)
	made, err := d.meter.Int64ObservableGauge(m.Instrument, metric.WithUnit(m.Unit), metric.WithDescription(m.Help))
	d.fail(err)
	return made
}

func (d *declarer) gaugeFloat(name string) metric.Float64ObservableGauge {
	m := d.find(name, Gauge)
	made, err := d.meter.Float64ObservableGauge(m.Instrument, metric.WithUnit(m.Unit), metric.WithDescription(m.Help))
	d.fail(err)
	return made
}
