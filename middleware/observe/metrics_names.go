package observe

import "slices"

// Metric describes one metric that Metrics gives: a contract that dashboards
// and alerts are written against.
type Metric struct {
	// Name is the name in Prometheus, as its exporter of OpenTelemetry makes
	// it. A histogram appears there with _bucket, _sum and _count behind it.
	Name string
	// Instrument is the name in OpenTelemetry.
	Instrument string
	// Unit is the unit in OpenTelemetry: "s", or a thing that is counted in
	// braces.
	Unit string
	Kind MetricKind
	// Labels are in their order in the documentation. Those metrics that have
	// the label type also have the label key when MetricsConfig.Keys asks for it.
	Labels []string
	// Shared says that each server reports the same fact about the store, so
	// that a query takes the maximum over servers and never the sum.
	Shared bool
	// Help says what is measured.
	Help string
}

// MetricKind is the kind of a metric in Prometheus.
type MetricKind string

// The kinds of metrics.
const (
	Counter   MetricKind = "counter"
	Gauge     MetricKind = "gauge"
	Histogram MetricKind = "histogram"
)

// MetricTable lists every metric that Metrics gives, in the order of the
// documentation. The caller may change the copy.
func MetricTable() []Metric { return slices.Clone(metricTable) }

// Labels of a job, and those with one more.
var (
	ofJob     = []string{labelQueue, labelType, labelPriority}
	ofOutcome = append(slices.Clip(ofJob), labelOutcome)
	ofReason  = append(slices.Clip(ofJob), labelReason)
	ofClass   = append(slices.Clip(ofJob), labelClass)
	ofWhere   = append(slices.Clip(ofJob), labelWhere)
)

// Names of labels.
const (
	labelQueue    = "queue"
	labelType     = "type"
	labelPriority = "priority"
	labelKey      = "key"
	labelState    = "state"
	labelOutcome  = "outcome"
	labelReason   = "reason"
	labelClass    = "class"
	labelWhere    = "where"
	labelWaited   = "waited"
	labelCommand  = "command"
	labelError    = "error"
	labelResult   = "result"
)

var metricTable = []Metric{
	// What became of jobs.
	{"jobs_enqueued_total", "jobs.enqueued", "{job}", Counter, ofJob, false,
		"Jobs that the store has accepted from this process."},
	{"jobs_duplicate_total", "jobs.duplicate", "{job}", Counter, ofWhere, false,
		"Duplicates found: where=enqueue for a task that was refused because its ID exists or its unique key is held, where=run for a run whose effect the dedup middleware found to be there already."},
	{"jobs_refused_total", "jobs.refused", "{job}", Counter, ofReason, false,
		"Tasks of this process that were not accepted for another reason than being a duplicate: reason is queue_full, too_large, invalid, unavailable (nothing was stored), unknown (the answer was lost, the job may be stored) or other."},
	{"jobs_claimed_total", "jobs.claimed", "{job}", Counter, ofJob, false,
		"Jobs that this server has leased in order to run them."},
	{"jobs_processed_total", "jobs.processed", "{job}", Counter, ofJob, false,
		"Jobs done: the handler returned nil and the store has accepted that."},
	{"jobs_failed_total", "jobs.failed", "{job}", Counter, ofClass, false,
		"Runs that ended with an error of the handler, panics and timeouts included, and that were charged to the job as a failure. class is the class of the error."},
	{"jobs_retried_total", "jobs.retried", "{job}", Counter, ofJob, false,
		"Jobs put off for another run after a failure."},
	{"jobs_dead_total", "jobs.dead", "{job}", Counter, ofReason, false,
		"Jobs moved to the dead-letter queue: reason is retries_spent, skip_retry, crashes_spent, expired, unknown_type or undecodable."},
	{"jobs_outcomes_total", "jobs.outcomes", "{job}", Counter, ofOutcome, false,
		"Leases that ended, by outcome: completed, retried, dead, expired (dead because its deadline passed), crashed (a server died holding it; also when that made it dead), cancelled, snoozed, released (given back unrun or in a drain), lease_lost (the outcome came too late: somebody else has the job). Each lease that this server settled counts once."},
	{"jobs_reclaimed_total", "jobs.reclaimed", "{job}", Counter, ofJob, false,
		"Jobs that this server took over from servers that died."},

	// How long it took.
	{"jobs_wait_seconds", "jobs.wait", "s", Histogram, ofJob, false,
		"Time from the acceptance of a job that was due at once to the start of its first run, by the store's clock."},
	{"jobs_lateness_seconds", "jobs.lateness", "s", Histogram, ofJob, false,
		"Time from the due time of a job enqueued with a delay or a time to the start of its first run, by the store's clock. Needs Metrics.Enqueue in the producer; without it such a job counts as waiting from its acceptance."},
	{"jobs_processing_latency_seconds", "jobs.processing.latency", "s", Histogram, ofJob, false,
		"Time that the handler took, whatever it returned."},
	{"jobs_attempts", "jobs.attempts", "{run}", Histogram, ofJob, false,
		"Runs that a job had taken when it was completed or died of its errors, crashes and runs that cost no retry left out: 1 for a job that never failed."},
	{"jobs_enqueue_duration_seconds", "jobs.enqueue.duration", "s", Histogram, []string{labelResult}, false,
		"Time that a call of Enqueue or EnqueueMany took, with its retries: result is ok when every task was accepted or a duplicate, otherwise error."},
	{"jobs_claim_duration_seconds", "jobs.claim.duration", "s", Histogram, []string{labelWaited}, false,
		"Time that a claim took. With waited=true it was to wait for a job, and most of the time is that wait."},
	{"jobs_settle_duration_seconds", "jobs.settle.duration", "s", Histogram, nil, false,
		"Time that an attempt to settle a batch of outcomes took."},
	{"jobs_store_command_duration_seconds", "jobs.store.command.duration", "s", Histogram, []string{labelCommand}, false,
		"Time that a call to the store took, failed or not, as the broker's method names it; claims that were to wait are left out."},
	{"jobs_store_errors_total", "jobs.store.errors", "{call}", Counter, []string{labelCommand, labelError}, false,
		"Calls to the store that failed: error is unavailable (certainly not applied), unknown (the answer was lost, it may have been applied) or refused. What a caller gave up is not counted, nor are answers about single jobs."},

	// This server.
	{"jobs_in_flight", "jobs.in_flight", "{job}", Gauge, ofJob, false,
		"Handlers that run in this process now."},
	{"jobs_slots", "jobs.slots", "{slot}", Gauge, nil, false,
		"How many handlers the servers of this process may run at once: the sum of their Concurrency."},
	{"jobs_worker_starts_total", "jobs.worker.starts", "{worker}", Counter, nil, false,
		"Workers registered with the store: one for each server that starts, and one more for each worker that was lost."},
	{"jobs_worker_stops_total", "jobs.worker.stops", "{worker}", Counter, []string{labelReason}, false,
		"Workers that ended: reason is drained, or lost when the store gave their jobs to others or could not be reached for a whole lease."},
	{"jobs_lease_margin_seconds", "jobs.lease.margin", "s", Gauge, nil, false,
		"Time left now until this server's leases run out; the least, where a process has several servers. It falls until the next renewal, and below zero others take the jobs."},
	{"jobs_stuck_handlers", "jobs.stuck.handlers", "{handler}", Gauge, nil, false,
		"Handlers of this process that go on although their context ended longer ago than Config.StuckGrace. Each holds a slot."},
	{"jobs_stuck_total", "jobs.stuck", "{handler}", Counter, ofJob, false,
		"Handlers that were found to be stuck."},
	{"jobs_store_clock_offset_seconds", "jobs.store.clock.offset", "s", Gauge, nil, false,
		"How far the store's clock is ahead of this host's. Harmless to the jobs: the store's clock rules."},

	// State that all servers see alike.
	{"jobs_queue_depth", "jobs.queue.depth", "{job}", Gauge, []string{labelQueue, labelState}, true,
		"Jobs in the queue, by state: pending, scheduled, active, retry, completed, dead, cancelled, waiting. Dead jobs that are suppressed are told apart, as suppressed. States that a queue has no job in are zero."},
	{"jobs_queue_oldest_age_seconds", "jobs.queue.oldest.age", "s", Gauge, []string{labelQueue, labelState}, true,
		"Age of the oldest job: for pending since the earliest creation of the jobs that are next in turn, each in its priority, for scheduled and retry since the earliest due time that has passed, for dead since the earliest death. Zero where there is none. Other states have no such series."},
	{"jobs_queue_paused", "jobs.queue.paused", "{queue}", Gauge, []string{labelQueue}, true,
		"1 while the queue is paused, otherwise 0."},
}
