package observe

import "slices"

// Metric describes one metric that Metrics reports. Dashboards and alerts depend
// on it.
type Metric struct {
	// Name is the name in Prometheus, as OpenTelemetry's exporter for it writes
	// it. For histograms Prometheus appends _bucket, _sum and _count.
	Name string
	// Instrument is the name in OpenTelemetry.
	Instrument string
	// Unit is the unit in OpenTelemetry: "s", or in braces what is counted, such
	// as "{job}".
	Unit string
	Kind MetricKind
	// Labels are in the order of the documentation. Metrics with the label type
	// also have the label key if MetricsConfig.Keys is set.
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

// MetricTable lists every metric that Metrics reports, in the order of the
// documentation. The caller may change the returned slice.
func MetricTable() []Metric { return slices.Clone(metricTable) }

// The labels of a job, alone and with one more.
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
	labelPattern  = "pattern"
	labelRule     = "rule"
)

var metricTable = []Metric{
	// What happened to jobs.
	{"jobs_enqueued_total", "jobs.enqueued", "{job}", Counter, ofJob, false,
		"Jobs from this process that the store accepted, without tasks that replaced another job."},
	{"jobs_duplicate_total", "jobs.duplicate", "{job}", Counter, ofWhere, false,
		"Duplicates. where=enqueue: a task was refused because its ID exists or its unique key is held. where=replace: a task " +
			"replaced the payload of the job that holds its unique key, and no job was added. where=run: the dedup middleware found " +
			"that the effect of a run had happened already."},
	{"jobs_refused_total", "jobs.refused", "{job}", Counter, ofReason, false,
		"Tasks of this process that were refused, duplicates excepted. reason is queue_full, too_large, invalid, unavailable " +
			"(nothing was stored), unknown (the answer was lost, the job may be stored) or other."},
	{"jobs_claimed_total", "jobs.claimed", "{job}", Counter, ofJob, false,
		"Jobs that this server has leased to run them."},
	{"jobs_processed_total", "jobs.processed", "{job}", Counter, ofJob, false,
		"Completed jobs: the handler returned nil, and the store accepted that."},
	{"jobs_failed_total", "jobs.failed", "{job}", Counter, ofClass, false,
		"Runs that failed and were charged to the job: errors of the handler, panics and timeouts. class is the class of the error."},
	{"jobs_retried_total", "jobs.retried", "{job}", Counter, ofJob, false,
		"Jobs that will run again after a failure."},
	{"jobs_dead_total", "jobs.dead", "{job}", Counter, ofReason, false,
		"Jobs moved to the dead-letter queue: reason is retries_spent, skip_retry, crashes_spent, expired, unknown_type or undecodable."},
	{"jobs_outcomes_total", "jobs.outcomes", "{job}", Counter, ofOutcome, false,
		"Leases that ended, by outcome: completed, retried, dead, expired (dead because its deadline passed), crashed (a server " +
			"died while it held the job, even if that made the job dead), cancelled, snoozed, released (not run, or given back in a " +
			"drain), lease_lost (the outcome came too late: another server has the job). Each lease that this server settled counts once."},
	{"jobs_reclaimed_total", "jobs.reclaimed", "{job}", Counter, ofJob, false,
		"Jobs that this server reclaimed from servers that died."},

	// Durations.
	{"jobs_wait_seconds", "jobs.wait", "s", Histogram, ofJob, false,
		"Time from the acceptance of a job without a delay to the start of its first run, by the store's clock."},
	{"jobs_lateness_seconds", "jobs.lateness", "s", Histogram, ofJob, false,
		"Time from the due time of a job with a delay or a time to the start of its first run, by the store's clock. Of a time the " +
			"client computes the delay, by its host's clock."},
	{"jobs_retry_wait_seconds", "jobs.retry.wait", "s", Histogram, ofJob, false,
		"Time from a failure to the start of the run that repeats it, by the store's clock: the backoff, and what came on top of " +
			"it. Snoozes, also the handler's own, and releases in between count as waiting, a crash or a redrive ends it. " +
			"It is reported when that run ends."},
	{"jobs_processing_latency_seconds", "jobs.processing.latency", "s", Histogram, ofJob, false,
		"Duration of handlers, whatever they returned."},
	{"jobs_attempts", "jobs.attempts", "{run}", Histogram, ofJob, false,
		"Runs that a job took until it was completed, or died of its errors. 1 is a job that never failed. Crashes and runs " +
			"without a charge do not count."},
	{"jobs_enqueue_duration_seconds", "jobs.enqueue.duration", "s", Histogram, []string{labelResult}, false,
		"Duration of calls of Enqueue and EnqueueMany, with their repetitions. result is ok if every task was accepted or a " +
			"duplicate, otherwise error."},
	{"jobs_claim_duration_seconds", "jobs.claim.duration", "s", Histogram, []string{labelWaited}, false,
		"Duration of claims. With waited=true the claim could wait for a job, and most of its duration is that wait."},
	{"jobs_settle_duration_seconds", "jobs.settle.duration", "s", Histogram, nil, false,
		"Duration of attempts to settle a batch of outcomes."},
	{"jobs_store_command_duration_seconds", "jobs.store.command.duration", "s", Histogram, []string{labelCommand}, false,
		"Duration of calls to the store, failed or not. command is the broker's method. Claims that could wait are left out."},
	{"jobs_store_errors_total", "jobs.store.errors", "{call}", Counter, []string{labelCommand, labelError}, false,
		"Failed calls to the store. error is unavailable (not applied), unknown (the answer was lost, the call may have been " +
			"applied) or refused. Calls that the caller gave up, and refusals of single jobs, do not count."},

	// This server.
	{"jobs_in_flight", "jobs.in_flight", "{job}", Gauge, ofJob, false,
		"Handlers that are running in this process."},
	{"jobs_slots", "jobs.slots", "{slot}", Gauge, nil, false,
		"Handlers that the servers of this process can run at once: the sum of their Concurrency."},
	{"jobs_worker_starts_total", "jobs.worker.starts", "{worker}", Counter, nil, false,
		"Workers registered with the store: one for each server that starts, and one more for each lost worker."},
	{"jobs_worker_stops_total", "jobs.worker.stops", "{worker}", Counter, []string{labelReason}, false,
		"Workers that ended. reason is drained, or lost: the store gave its jobs to others, or could not be reached for a whole " +
			"lease."},
	{"jobs_lease_margin_seconds", "jobs.lease.margin", "s", Gauge, nil, false,
		"Time until this server's leases run out; the shortest, if a process has several servers. It falls until the next renewal. " +
			"Below zero, others can reclaim the jobs."},
	{"jobs_stuck_handlers", "jobs.stuck.handlers", "{handler}", Gauge, nil, false,
		"Handlers of this process that have not returned for Config.StuckGrace after their context ended. Each takes a slot."},
	{"jobs_stuck_total", "jobs.stuck", "{handler}", Counter, ofJob, false,
		"Handlers that became stuck."},
	{"jobs_store_clock_offset_seconds", "jobs.store.clock.offset", "s", Gauge, nil, false,
		"How far the store's clock is ahead of this host's. It does no harm to jobs, which follow the store's clock."},

	{"jobs_schedules_missing", "jobs.schedules.missing", "{schedule}", Gauge, nil, false,
		"Schedules that this process defines (schedule.ExtensionConfig.Definitions) and the store does not have. Needs " +
			"MetricsConfig.Schedules."},
	{"jobs_schedules_missed_total", "jobs.schedules.missed", "{tick}", Counter, []string{labelReason}, false,
		"Ticks that did not become jobs when servers of this process ran their schedules, those of a pause excepted. reason is " +
			"too_late, too_many, overlapped, duplicate or refused: see schedule.Counts, which has them by schedule. Needs " +
			"MetricsConfig.Schedules."},
	// Limits of Config.TypeConcurrency.
	{"jobs_type_limit", "jobs.type.limit", "{job}", Gauge, []string{labelPattern}, false,
		"Jobs of the types of a pattern that the servers of this process run at once at most: the sum of Config.TypeConcurrency. The " +
			"metrics of types need Metrics.Server."},
	{"jobs_type_running", "jobs.type.running", "{job}", Gauge, []string{labelPattern}, false,
		"Handlers of these types that are running."},
	{"jobs_type_waiting", "jobs.type.waiting", "{job}", Gauge, []string{labelPattern}, false,
		"Jobs of these types that a server has leased, and that wait because the limit is reached. When a server holds as many of " +
			"them from one queue as it has slots, it claims no more from that queue."},
	// Relays of this process.
	{"jobs_relay_active", "jobs.relay.active", "{relay}", Gauge, []string{labelQueue}, false,
		"1 while this process moves the jobs of the queue to another store, 0 while its relay stands by. The sum over processes is 1, " +
			"or 0 when no relay does."},
	{"jobs_relayed_total", "jobs.relayed", "{job}", Counter, []string{labelQueue}, false,
		"Jobs that relays of this process have moved from the queue to another store."},
	{"jobs_relay_refused_total", "jobs.relay.refused", "{job}", Counter, []string{labelQueue, labelReason}, false,
		"Jobs that the target of a relay refused for good, and that are dead in the queue: reason is relay_id_taken, " +
			"relay_unique_key_held, relay_invalid, relay_claim_check or relay_unreadable."},
	{"jobs_relay_lag_seconds", "jobs.relay.lag", "s", Gauge, []string{labelQueue}, false,
		"Age, since its creation, of the oldest job that the relay of this process holds; for a delayed job this includes the delay. " +
			"Zero without one, and while the relay stands by."},

	// State that all servers see alike.
	{"jobs_queue_depth", "jobs.queue.depth", "{job}", Gauge, []string{labelQueue, labelState}, true,
		"Jobs in the queue, by state: pending, scheduled, active, retry, completed, dead, cancelled, waiting. " +
			"Suppressed dead jobs have the state suppressed. States without a job are zero."},
	{"jobs_queue_oldest_age_seconds", "jobs.queue.oldest.age", "s", Gauge, []string{labelQueue, labelState}, true,
		"Age of the oldest job. pending: since the earliest creation among the jobs that are next in their priority. " +
			"scheduled, retry: since the earliest due time that has passed. dead: since the earliest death. " +
			"Zero without such a job. Other states have no series."},
	{"jobs_queue_paused", "jobs.queue.paused", "{queue}", Gauge, []string{labelQueue}, true,
		"1 while the queue is paused, otherwise 0."},
	{"jobs_queue_limit", "jobs.queue.limit", "{limit}", Gauge, []string{labelQueue, labelRule}, true,
		"Limits that the queue's policy sets. rule is max_depth, max_active or max_bytes, or rate or retry_rate in jobs a second."},
	{"jobs_extension_depth", "jobs.extension.depth", "{job}", Gauge, []string{labelQueue, labelState}, true,
		"Jobs in the queues of the framework itself, whose names begin with @, by state. In @schedules each schedule is one job, " +
			"which never ends. Those queues are in no other metric of queues."},
	{"jobs_extension_overdue_seconds", "jobs.extension.overdue", "s", Gauge, []string{labelQueue}, true,
		"How long the job that is most overdue in such a queue has been due. Zero if none is, or if it is being claimed."},
}
