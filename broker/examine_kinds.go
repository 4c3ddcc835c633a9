package broker

import (
	"maps"
	"slices"
	"strings"
)

// FindingKind says what a code of a Finding means, and what becomes of it.
type FindingKind struct {
	Code    string
	Warning bool   // nothing is lost or wrong yet; other findings are errors
	Means   string // for those who use the queue
	Repair  string // what a repair does; empty when there is none
	Advice  string // what to do where there is no repair, or it was left
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

// What can be wrong with a job and with its places.
var jobFindings = []FindingKind{
	{Code: "job-without-place", Means: "the job is stored, but nothing leads to it: it never runs, or its record is never shown or removed",
		Repair: "it becomes pending again, behind the others; a finished one goes back to the list of its state; one whose due time is lost goes to the dead-letter queue, so that it does not run early",
		Advice: whenShorter},
	{Code: "job-in-two-places", Means: "the job stands in more than one place, or twice in line: it may run twice, and counts are too high",
		Repair: "the place that its head and its lease name stays, the others are removed", Advice: whenShorter},
	{Code: "entry-without-job", Means: "an entry leads to a job that is not stored: counts are too high; no job is lost by it now, but one may have been",
		Repair: "the entry is removed"},
	{Code: "entry-of-other-epoch", Means: "an entry names another epoch or priority than the job has: it would be leased so that its outcome is refused, again and again",
		Repair: "the entry is rewritten for the job as it is, at the same time or turn; it is removed when the job has another place", Advice: whenShorter},
	{Code: "entry-malformed", Means: "an entry is nothing that any version wrote: claims of the queue may fail at it",
		Repair: "the entry is removed; if it stood for a job, that job is then found without a place"},
	{Code: "head-without-job", Means: "counts and errors of a job that is not stored: a new job with the same ID would begin with them",
		Repair: "they are removed"},
	{Code: "head-differs", Means: "the job stands in the list of a state that its head does not name: it cannot be redriven, removed or pruned as what it is shown as",
		Repair: "the head is made to name the state of the list that it stands in"},
	{Code: "body-in-wrong-bucket", Means: "the job is stored where no call looks for it",
		Repair: "it is moved to its bucket; if that has the same job already, the stray copy is removed"},
	{Code: "state-unknown", Means: "the job's row has a state that no version wrote: it never runs",
		Repair: "the state becomes what the rest of the row says: active with a worker, retry with a due time, otherwise pending"},
	{Code: "state-differs", Means: "the job's row has a worker or a due time that does not go with its state: it may stay for ever",
		Repair: "what does not go with the state is removed; an active job without a worker becomes pending again; one that waits without a due time goes to the dead-letter queue"},
	{Code: "lane-unknown", Means: "the job's row stands in a line that claims do not look at: it never runs", Repair: "it goes to the line of normal priority"},
	{Code: "record-never-lapses", Means: "nothing ends the retention of a completed or cancelled job: its record stays for ever",
		Repair: "it is given the end that its queue's policy says now"},
	{Code: "lapse-without-record", Warning: true, Means: "the store remembers to remove something that is gone already: it takes room, no more", Repair: "the entry is removed"},
	{Code: "void-mark-without-entry", Means: "an entry is noted as void that does not stand in line: a later job under the same ID would be dropped from the line, and counts are too low",
		Repair: "the note is removed", Advice: whenShorter},
	{Code: "count-differs", Means: "a count is not the number of jobs: depth limits, retention by count, lists and alerts go by a wrong number",
		Repair: "the count is made to be the number of jobs", Advice: "examine again; if it comes back beside no other finding, please report it as a bug"},
	{Code: "counts-not-compared", Warning: true, Means: "there were too many jobs to count them in one step", Advice: "compare the counts when fewer jobs are stored"},
}

// What can be wrong with unique keys, tenant keys and remembered IDs.
var nameFindings = []FindingKind{
	{Code: "key-entry-missing", Means: "the job is not found by its key", Repair: "it is added to the index of keys"},
	{Code: "key-entry-without-job", Means: "a key's index leads to a job that is gone or has another key", Repair: "the entry is removed"},
	{Code: "unique-key-of-missing-job", Means: "a unique key is held by a job that is gone: new jobs with that key are refused as duplicates",
		Repair: "the key is freed"},
	{Code: "unique-key-of-ended-job", Means: "a unique key is held by a job that no longer has a right to it: new jobs with that key are refused as duplicates",
		Repair: "the key is freed"},
	{Code: "unique-key-not-held", Means: "a job does not hold its unique key: a duplicate of it may be accepted, or was",
		Repair: "it takes the key again, if nobody holds it", Advice: "two jobs have the same key; cancel or delete one of them"},
	{Code: "unique-window-never-lapses", Warning: true, Means: "nothing removes a lapsed window of a unique key: it takes room, no more",
		Repair: "its removal is noted"},
	{Code: "remembered-id-never-lapses", Means: "nothing ends the memory of a given ID", Repair: "its end is noted"},
	{Code: "mark-never-lapses", Warning: true, Means: "nothing removes a mark after its time: it takes room, no more", Repair: "its end is noted"},
	{Code: "mark-fence-behind", Means: "the next holder of a mark could be given a fencing number that an earlier one had: writes of a late holder would be accepted",
		Repair: "the counter is set behind the highest number in use"},
}

// What can be wrong with leases and workers.
var workerFindings = []FindingKind{
	{Code: "lease-without-job", Means: "a lease is of a job that is not stored: the worker's count of jobs is too high", Repair: "the lease is removed"},
	{Code: "lease-of-unknown-worker", Means: "a job is leased to a worker that the store does not know: nobody would ever take it over",
		Repair: "the worker counts as ended, so that a live one takes the job over"},
	{Code: "lease-of-other-epoch", Means: "a lease names another epoch than the job has: its outcome is refused, and it runs again when the worker ends",
		Repair: "the job takes the epoch of the lease"},
	{Code: "lease-malformed", Means: "a lease is nothing that any version wrote: taking jobs over may fail at it",
		Repair: "the lease is removed; the job becomes pending again"},
	{Code: "lease-count-differs", Means: "the count of a worker's leases is wrong: it lists its jobs over and over, and they may not be taken over when it ends",
		Repair: "the leases are counted", Advice: "restart the workers one by one: a worker that ends takes its count with it"},
	{Code: "cancel-without-lease", Means: "a job that is not active, or another worker's, is asked to cancel: heartbeats may fail at it", Repair: "the request is removed, or given to the worker that has the job"},
	{Code: "worker-without-time", Means: "a worker is alive without an end of its leases: if its process dies, nobody takes its jobs over",
		Repair: "its leases get one minute, unless it renews them"},
	{Code: "worker-alive-and-ended", Means: "a worker is alive although its ID was ended for good: it could still claim", Repair: "it is ended; its process starts anew under another ID"},
	{Code: "worker-leftover", Warning: true, Means: "something is left of a worker that is gone: it takes room, no more", Repair: "it is removed"},
	{Code: "worker-not-reclaimed", Warning: true, Means: "a worker ran out and nobody has taken its jobs over: they wait until a server that serves the queue is running",
		Advice: "start a server for this queue"},
	{Code: "queue-not-served", Warning: true, Means: "jobs are pending and no live worker serves the queue: none of them runs",
		Advice: "start a server for this queue, or pause or remove the queue"},
}

// What can be wrong with queues as a whole, their keys and tables.
var queueFindings = []FindingKind{
	{Code: "queue-record-missing", Means: "jobs are stored for a queue that has no record: none is claimed, and most calls for it are refused",
		Repair: "the record is made again with default policies; a row's queue gets a name that begins with recovered-"},
	{Code: "queue-not-listed", Means: "a queue is missing in the list of queues: operators do not see it", Repair: "it is listed"},
	{Code: "layout-newer", Means: "a newer release has laid this queue out in another way: this program must not touch it", Advice: "use the newer release"},
	{Code: "key-of-wrong-type", Means: "a key of the queue holds something else: calls for the queue fail", Advice: "find out who wrote it; rename or delete that key, then examine again"},
	{Code: "key-expires", Means: "a key of the queue will be deleted by the server when its time is over, with all jobs in it", Repair: "the expiry is removed"},
	{Code: "guard-missing", Means: "an entry is missing that keeps a structure fast, and that counts allow for: counts are too low by one", Repair: "it is added"},
	{Code: "shortcut-flag-differs", Means: "the queue's record says wrongly whether it has limits: a pause, a depth limit or its speed is affected", Repair: "it is set right"},
	{Code: "size-bound-exceeded", Warning: true, Means: "a job is larger than the queue's record says: answers may grow too large", Repair: "the record is set right"},
	{Code: "wake-token-missing", Warning: true, Means: "something can be claimed, and nothing wakes workers that wait: jobs start late", Repair: "waiting workers are woken"},
	{Code: "turns-behind", Means: "new jobs would be given turns that are in use: order is not kept", Repair: "the sequence is set behind the last turn"},
	{Code: "verdicts-of-unknown-worker", Warning: true, Means: "verdicts are kept for a worker that is gone: they take room, no more", Repair: "they are removed"},
	{Code: "row-without-queue", Warning: true, Means: "a key, an ID or a worker is kept for a queue that is gone: it takes room, no more", Repair: "it is removed"},
	{Code: "prune-behind", Warning: true, Means: "what has lapsed an hour ago is still there: nobody prunes, and the store grows", Advice: "start a server for this queue: its upkeep prunes"},
	{Code: "deltas-unfolded", Warning: true, Means: "changes of counts pile up: looking at queues becomes slow", Repair: "they are folded", Advice: "start a server: its upkeep folds them"},
	{Code: "history-partition-missing", Means: "records of a day have no partition: settling jobs with such a retention fails", Repair: "the day is taken off the list"},
	{Code: "history-partition-unlisted", Means: "a partition of records is on no list: it is never dropped", Repair: "its day is listed"},
	{Code: "history-days-behind", Warning: true, Means: "nobody makes the partitions of the days to come, or drops those that are over", Advice: "start a server: its upkeep does it"},
}

// What can be wrong with the server that is the store.
var settingFindings = []FindingKind{
	{Code: "server-evicts-jobs", Means: "the server deletes keys, and all jobs in them, when its memory is full", Advice: "set maxmemory-policy to noeviction"},
	{Code: "server-not-persistent", Warning: true, Means: "the server keeps nothing on disk: all jobs are lost when it restarts", Advice: "set appendonly to yes"},
	{Code: "server-persistence-fails", Means: "the server's last attempt to write to disk failed: it loses jobs when it restarts, or refuses writes", Advice: "see the server's log; look for a full disk"},
	{Code: "server-nearly-full", Warning: true, Means: "the server has used most of the memory it may use: soon it refuses new jobs", Advice: "raise maxmemory, purge what is kept, or limit the depth of queues"},
	{Code: "server-too-old", Means: "the server is older than this program supports", Advice: "update the server"},
	{Code: "server-read-only", Means: "this server is a replica: nothing can be written to it", Advice: "connect to the master, by Sentinel or Cluster"},
	{Code: "cluster-slots-uncovered", Means: "some queues have no server: calls for them fail", Advice: "redis-cli --cluster fix"},
	{Code: "clocks-differ", Warning: true, Means: "the clocks of the store and of this machine differ: due times are the store's", Advice: "run a time daemon on both"},
	{Code: "index-missing", Means: "an index is missing: claims or listings read whole tables", Advice: "create it as the migrations do, with CREATE INDEX CONCURRENTLY"},
	{Code: "index-invalid", Means: "an index is broken and not used: claims or listings read whole tables", Advice: "REINDEX INDEX CONCURRENTLY"},
	{Code: "table-missing", Means: "a table is missing: calls fail", Advice: "restore the schema from a backup"},
	{Code: "table-unlogged", Means: "a table is empty after a crash of the server: its jobs are lost", Advice: "ALTER TABLE … SET LOGGED"},
	{Code: "schema-not-current", Means: "the schema is of another release than this program", Advice: "run jobs migrate with the newest release that is in use, and update the others"},
	{Code: "autovacuum-off", Warning: true, Means: "dead rows pile up and every call becomes slower", Advice: "switch autovacuum on, for the server and for the table"},
	{Code: "table-bloated", Warning: true, Means: "most of a table is dead rows: calls are slow", Advice: "find out what keeps autovacuum from removing them, then VACUUM"},
	{Code: "snapshot-held", Warning: true, Means: "a transaction, prepared transaction or replication slot keeps dead rows from being removed: calls become slower by the minute", Advice: "end it"},
	{Code: "commits-not-durable", Means: "what the server has committed is lost when it crashes", Advice: "switch fsync, full_page_writes and synchronous_commit on"},
}
