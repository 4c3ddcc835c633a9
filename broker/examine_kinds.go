package broker

import (
	"maps"
	"slices"
	"strings"
)

// FindingKind says what a code of a Finding means, and what to do about it.
type FindingKind struct {
	Code    string
	Warning bool   // nothing is wrong yet; other findings are errors
	Means   string // what it means for users of the queue
	Repair  string // what a repair does; empty when there is none
	Advice  string // what to do if there is no repair, or it was not made
}

// FindingKinds lists every kind of finding, by code.
func FindingKinds() []FindingKind {
	return slices.SortedFunc(maps.Values(findingKinds), func(a, b FindingKind) int { return strings.Compare(a.Code, b.Code) })
}

var findingKinds = byCode(jobFindings, nameFindings, workerFindings, queueFindings, settingFindings)

func byCode(lists ...[]FindingKind) map[string]FindingKind {
	all := make(map[string]FindingKind)
	for _, list := range lists {
		for _, k := range list {
			if _, twice := all[k.Code]; twice {
				panic("broker: finding " + k.Code + " is described twice") // a mistake in this package
			}
			all[k.Code] = k
		}
	}
	return all
}

const whenShorter = "examine again when fewer jobs wait"

// What can be wrong with a job and its entries.
var jobFindings = []FindingKind{
	{Code: "job-without-place",
		Means: "no list leads to the job: it never runs, or its record is never shown or removed",
		Repair: "a job that ended returns to the list of its state; one whose due time is lost is made dead, so that it " +
			"does not run early; others become pending",
		Advice: whenShorter},
	{Code: "job-in-two-places",
		Means:  "the job is in two lists, or twice in one: it may run twice, and counts are too high",
		Repair: "the entry that its head and its lease name stays; the others are removed",
		Advice: whenShorter},
	{Code: "entry-without-job",
		Means:  "an entry leads to a job that is not stored: counts are too high, and a job may have been lost before",
		Repair: "the entry is removed"},
	{Code: "entry-of-other-epoch",
		Means:  "an entry names another epoch or priority than the job: the job would be leased again and again, and its outcomes refused",
		Repair: "the entry is rewritten for the job, at the same time or position; it is removed if the job has another entry",
		Advice: whenShorter},
	{Code: "entry-malformed",
		Means:  "an entry cannot be read: claims of the queue may fail",
		Repair: "the entry is removed; if a job then has no entry, that is found next"},
	{Code: "head-without-job",
		Means:  "counters and errors of a job are stored without the job: a new job with the same ID would start with them",
		Repair: "they are removed"},
	{Code: "head-differs",
		Means:  "the job is in the list of a state that its head does not name: it cannot be redriven, deleted or pruned as shown",
		Repair: "the head gets the state of the list"},
	{Code: "body-in-wrong-bucket",
		Means:  "the job's body is stored where no call looks for it",
		Repair: "the body is moved to its bucket; if the bucket has it already, the other copy is removed"},
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
	{Code: "record-never-lapses",
		Means:  "nothing ends the retention of a completed or cancelled job: its record stays for ever",
		Repair: "the record gets an end by the queue's policy"},
	{Code: "lapse-without-record", Warning: true,
		Means:  "the store will remove something that is gone already: it takes room, no more",
		Repair: "the entry is removed"},
	{Code: "void-mark-without-entry",
		Means:  "an entry is marked as void that is not in its list: a later job with that ID would be dropped, and counts are too low",
		Repair: "the mark is removed",
		Advice: whenShorter},
	{Code: "count-differs",
		Means:  "a count is not the number of jobs: depth limits, retention by count, lists and alerts use a wrong number",
		Repair: "the count is set to the number of jobs",
		Advice: "examine again; if this comes back alone, please report it as a bug"},
	{Code: "counts-not-compared", Warning: true,
		Means:  "there were too many jobs to count them in one step",
		Advice: "examine again when fewer jobs are stored"},
}

// What can be wrong with unique keys, tenant keys and remembered IDs.
var nameFindings = []FindingKind{
	{Code: "key-entry-missing",
		Means:  "the job is not found by its tenant key",
		Repair: "it is added to the index of keys"},
	{Code: "key-entry-without-job",
		Means:  "the index of tenant keys leads to a job that is gone or has another key",
		Repair: "the entry is removed"},
	{Code: "unique-key-of-missing-job",
		Means:  "a job that is gone holds a unique key: new jobs with that key are refused as duplicates",
		Repair: "the key is freed"},
	{Code: "unique-key-of-ended-job",
		Means:  "a job holds a unique key that it should have freed: new jobs with that key are refused as duplicates",
		Repair: "the key is freed"},
	{Code: "unique-key-not-held",
		Means:  "a job does not hold its unique key: a duplicate of it may be accepted, or was",
		Repair: "the job takes the key again, if no other job holds it",
		Advice: "two jobs have the same key; cancel or delete one of them"},
	{Code: "unique-window-never-lapses", Warning: true,
		Means:  "nothing removes the window of a unique key after its end: it takes room, no more",
		Repair: "its removal is scheduled"},
	{Code: "remembered-id-never-lapses",
		Means:  "a given ID is remembered for ever: new jobs with it are refused",
		Repair: "its removal is scheduled"},
	{Code: "mark-never-lapses", Warning: true,
		Means:  "nothing removes a mark after its end: it takes room, no more",
		Repair: "its removal is scheduled"},
	{Code: "mark-fence-behind",
		Means:  "the next owner of a mark could get a fence that an earlier one had: late writes would be accepted",
		Repair: "the counter is set above the highest fence in use"},
}

// What can be wrong with leases and workers.
var workerFindings = []FindingKind{
	{Code: "lease-without-job",
		Means:  "a lease is of a job that is not stored: the worker's count of leases is too high",
		Repair: "the lease is removed"},
	{Code: "lease-of-unknown-worker",
		Means:  "a job is leased to a worker that the store does not know: no server would reclaim it",
		Repair: "the worker counts as ended, so that a server reclaims the job"},
	{Code: "lease-of-other-epoch",
		Means:  "a lease names another epoch than the job: its outcome is refused, and the job runs again when the worker ends",
		Repair: "the job gets the epoch of the lease"},
	{Code: "lease-malformed",
		Means:  "a lease cannot be read: reclaims may fail",
		Repair: "the lease is removed; the job becomes pending"},
	{Code: "lease-count-differs",
		Means:  "a worker's count of leases is wrong: it lists its jobs again and again, and they may not be reclaimed when it ends",
		Repair: "the leases are counted",
		Advice: "restart the workers one by one; the count ends with its worker"},
	{Code: "cancel-without-lease",
		Means:  "a cancellation is requested for a job that is not active, or from a wrong worker: heartbeats may fail",
		Repair: "the request is removed, or moved to the worker that holds the job"},
	{Code: "worker-without-time",
		Means:  "a live worker has no end of its leases: if its process dies, no server reclaims its jobs",
		Repair: "its leases end in one minute, unless it renews them"},
	{Code: "worker-alive-and-ended",
		Means:  "a worker is alive although its ID has ended: it could still claim",
		Repair: "the worker is ended; its process registers again under another ID"},
	{Code: "worker-leftover", Warning: true,
		Means:  "something is left of a worker that is gone: it takes room, no more",
		Repair: "it is removed"},
	{Code: "worker-not-reclaimed", Warning: true,
		Means:  "a worker's leases ran out and no server has reclaimed its jobs: they wait",
		Advice: "start a server for this queue"},
	{Code: "queue-not-served", Warning: true,
		Means:  "jobs are pending, and no live worker serves the queue: none of them runs",
		Advice: "start a server for this queue, or pause or remove the queue"},
}

// What can be wrong with queues as a whole, their keys and tables.
var queueFindings = []FindingKind{
	{Code: "queue-record-missing",
		Means:  "jobs are stored for a queue without a record: none is claimed, and most calls for it are refused",
		Repair: "the record is made again with the default policy; a queue without a name gets one that begins with recovered-"},
	{Code: "queue-not-listed",
		Means:  "a queue is not in the list of queues: operators do not see it",
		Repair: "it is listed"},
	{Code: "layout-newer",
		Means:  "a newer release stored this queue: this program must not change it",
		Advice: "use the newer release"},
	{Code: "key-of-wrong-type",
		Means:  "a key of the queue has a wrong type: calls for the queue fail",
		Advice: "find out who wrote it; rename or delete that key, then examine again"},
	{Code: "key-expires",
		Means:  "the server will delete a key of the queue, with all jobs in it",
		Repair: "the expiry is removed"},
	{Code: "guard-missing",
		Means:  "the entry is missing that keeps a structure fast: counts are too low by one",
		Repair: "it is added"},
	{Code: "shortcut-flag-differs",
		Means:  "the queue's flag for fast enqueueing is wrong: its pause, its depth limit or its speed suffers",
		Repair: "the flag is corrected"},
	{Code: "size-bound-exceeded", Warning: true,
		Means:  "a job is larger than the queue's record says: answers may become too large",
		Repair: "the record is corrected"},
	{Code: "wake-token-missing", Warning: true,
		Means:  "jobs can be claimed, but nothing wakes waiting workers: jobs start late",
		Repair: "waiting workers are woken"},
	{Code: "turns-behind",
		Means:  "new jobs would get positions that are in use: their order is lost",
		Repair: "the sequence is set above the last position"},
	{Code: "verdicts-of-unknown-worker", Warning: true,
		Means:  "verdicts of a worker are kept that is gone: they take room, no more",
		Repair: "they are removed"},
	{Code: "row-without-queue", Warning: true,
		Means:  "a key, an ID or a worker is kept of a queue that is gone: it takes room, no more",
		Repair: "it is removed"},
	{Code: "prune-behind", Warning: true,
		Means:  "something that should have been removed an hour ago is still there: nobody prunes, and the store grows",
		Advice: "start a server for this queue; it prunes"},
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
		Means:  "nobody makes the partitions of the coming days, or drops old ones",
		Advice: "start a server; it does this"},
}

// What can be wrong with the server that is the store.
var settingFindings = []FindingKind{
	{Code: "server-evicts-jobs",
		Means:  "the server deletes keys, with all jobs in them, when its memory is full",
		Advice: "set maxmemory-policy to noeviction"},
	{Code: "server-not-persistent", Warning: true,
		Means:  "the server keeps nothing on disk: a restart loses all jobs",
		Advice: "set appendonly to yes"},
	{Code: "server-persistence-fails",
		Means:  "the server's last attempt to write to disk failed: it loses jobs when it restarts, or refuses writes",
		Advice: "look at the server's log and for a full disk"},
	{Code: "server-nearly-full", Warning: true,
		Means:  "the server has used most of its memory: soon it refuses new jobs",
		Advice: "raise maxmemory, purge records, or limit the depth of queues"},
	{Code: "server-too-old",
		Means:  "this program does not support a server this old",
		Advice: "update the server"},
	{Code: "server-read-only",
		Means:  "this server is a replica: nobody can write to it",
		Advice: "connect to the master, by Sentinel or Cluster"},
	{Code: "cluster-slots-uncovered",
		Means:  "some queues have no server: calls for them fail",
		Advice: "run redis-cli --cluster fix"},
	{Code: "clocks-differ", Warning: true,
		Means:  "the clocks of the store and of this machine differ: due times follow the store's",
		Advice: "run a time daemon on both"},
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
		Advice: "run jobs migrate with the newest release in use, and update the other programs"},
	{Code: "autovacuum-off", Warning: true,
		Means:  "dead rows pile up, and every call becomes slower",
		Advice: "switch autovacuum on, for the server and for the table"},
	{Code: "table-bloated", Warning: true,
		Means:  "most of a table is dead rows: calls are slow",
		Advice: "find out what keeps autovacuum from removing them, then run VACUUM"},
	{Code: "snapshot-held", Warning: true,
		Means:  "a transaction, prepared transaction or replication slot keeps dead rows from being removed: calls become slower",
		Advice: "end it"},
	{Code: "commits-not-durable",
		Means:  "a crash of the server loses what it has committed",
		Advice: "switch fsync, full_page_writes and synchronous_commit on"},
}
