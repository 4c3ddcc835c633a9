package pgbroker

import "github.com/seed81422ce9/jobs/broker"

// kinds are all kinds of findings that this backend can report.
var kinds = broker.KnownFindings(jobFindings, queueFindings, settingFindings)

// FindingKinds lists every kind of finding that Examine can report, by code.
func FindingKinds() []broker.FindingKind { return kinds.List() }

// jobFindings is what can be wrong with a job and its entries.
var jobFindings = []broker.FindingKind{
	{Code: "state-unknown",
		Means:  "the job's row has an unknown state: it never runs",
		Repair: "the state follows from the rest of the row: active with a worker, retry with a due time, otherwise pending"},
	{Code: "state-differs",
		Means: "the job's row has a worker or a due time that does not fit its state: it may stay for ever",
		Repair: "what does not fit is removed; an active job without a worker becomes pending; a scheduled or retry job " +
			"without a due time is made dead"},
	{Code: "lane-unknown",
		Means:  "the job's row has a lane that claims do not look at: it never runs",
		Repair: "the job gets normal priority"},
	{Code: "counts-not-compared", Warning: true,
		Means:  "there were too many jobs to count them in one step",
		Advice: "examine again when fewer jobs are stored"},
}

// queueFindings is what can be wrong with whole queues, their keys and tables.
var queueFindings = []broker.FindingKind{
	{Code: "turns-behind",
		Means:  "new jobs would get positions that are in use: their order is lost",
		Repair: "the sequence is set above the last position"},
	{Code: "verdicts-of-unknown-worker", Warning: true,
		Means:  "the verdicts of a worker that is gone are still stored: they only take space",
		Repair: "they are removed"},
	{Code: "row-without-queue", Warning: true,
		Means:  "a key, an ID or a worker of a queue that is gone is still stored: it only takes space",
		Repair: "it is removed"},
	{Code: "deltas-unfolded", Warning: true,
		Means:  "changes of counts pile up: queries of queues become slow",
		Repair: "they are folded",
		Advice: "start a server; it folds them"},
	{Code: "history-partition-missing",
		Means:  "the partition for the records of a day is missing: settles of jobs with such a retention fail",
		Repair: "the day is removed from the list"},
	{Code: "history-partition-unlisted",
		Means:  "a partition of records is not listed: it is never dropped",
		Repair: "its day is listed"},
	{Code: "history-days-behind", Warning: true,
		Means:  "no server makes the partitions of the coming days, or drops old ones",
		Advice: "start a server; it does this"},
}

// settingFindings is what can be wrong with the PostgreSQL server.
var settingFindings = []broker.FindingKind{
	{Code: "index-missing",
		Means:  "an index is missing: claims or listings read whole tables",
		Advice: "create it as the migrations do, with CREATE INDEX CONCURRENTLY"},
	{Code: "index-invalid",
		Means:  "an index is broken and not used: claims or listings read whole tables",
		Advice: "run REINDEX INDEX CONCURRENTLY"},
	{Code: "table-missing",
		Means:  "a table is missing: calls fail",
		Advice: "restore the schema from a backup"},
	{Code: "table-unlogged",
		Means:  "a crash of the server empties a table: its jobs are lost",
		Advice: "run ALTER TABLE … SET LOGGED"},
	{Code: "schema-not-current",
		Means:  "the schema is of another release than this program",
		Advice: "run jobsctl migrate with the newest release in use, and update the other programs"},
	{Code: "autovacuum-off", Warning: true,
		Means:  "dead rows pile up, and every call becomes slower",
		Advice: "switch autovacuum on, for the server and for the table"},
	{Code: "table-bloated", Warning: true,
		Means:  "most of a table is dead rows: calls are slow",
		Advice: "find out what keeps autovacuum from removing them, then run VACUUM"},
	{Code: "snapshot-held", Warning: true,
		Means:  "a transaction, prepared transaction or replication slot keeps dead rows from being removed: calls become slower",
		Advice: "end the transaction, or drop the slot"},
	{Code: "commits-not-durable",
		Means:  "a crash of the server loses what it has committed",
		Advice: "switch fsync, full_page_writes and synchronous_commit on"},
}
