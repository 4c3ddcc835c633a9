package redisbroker

import "github.com/seed81422ce9/jobs/broker"

// kinds are all kinds of findings that this backend can report.
var kinds = broker.KnownFindings(jobFindings, workerFindings, queueFindings, settingFindings)

// FindingKinds lists every kind of finding that Examine can report, by code.
func FindingKinds() []broker.FindingKind { return kinds.List() }

const whenShorter = "examine again when fewer jobs wait"

// jobFindings is what can be wrong with a job and its entries.
var jobFindings = []broker.FindingKind{
	{Code: "entry-without-job",
		Means:  "an entry leads to a job that is not stored: counts are too high, and a job may have been lost before",
		Repair: "the entry is removed"},
	{Code: "job-without-entry",
		Means: "no list leads to the job: it never runs, or its record is never shown or removed",
		Repair: "a job that ended returns to the list of its state; one whose due time is lost is made dead, so that it " +
			"does not run early; others become pending",
		Advice: whenShorter},
	{Code: "key-entry-missing",
		Means:  "the job is not found by its partition key",
		Repair: "it is added to the index of keys"},
	{Code: "key-entry-without-job",
		Means:  "the index of partition keys leads to a job that is gone or has another key",
		Repair: "the entry is removed"},
	{Code: "record-never-lapses",
		Means:  "nothing ends the retention of a completed or cancelled job: its record stays for ever",
		Repair: "the record gets an end by the queue's policy"},
	{Code: "remembered-id-never-lapses",
		Means:  "a given ID is remembered for ever: new jobs with it are refused",
		Repair: "its removal is scheduled"},
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
	{Code: "dead-job-not-indexed",
		Means:  "a dead job is not in the index of dead jobs by type, reason and error: listings and decisions by these leave it out",
		Repair: "it is added"},
	{Code: "dead-index-entry-without-job", Warning: true,
		Means:  "the index of dead jobs by type, reason and error has a job that does not belong there: a page is shorter",
		Repair: "the entry is removed"},
	{Code: "body-in-wrong-bucket",
		Means:  "the job's body is stored where no call looks for it",
		Repair: "the body is moved to its bucket; if the bucket has it already, the other copy is removed"},
	{Code: "lapse-without-record", Warning: true,
		Means:  "the store will remove something that is gone already: it only takes space",
		Repair: "the entry is removed"},
	{Code: "void-mark-without-entry",
		Means:  "an entry is marked as void that is not in its list: a later job with that ID would be dropped, and counts are too low",
		Repair: "the mark is removed",
		Advice: whenShorter},
}

// workerFindings is what can be wrong with leases and workers.
var workerFindings = []broker.FindingKind{
	{Code: "lease-count-differs",
		Means:  "a worker's count of leases is wrong: it lists its jobs again and again, and they may not be reclaimed when it ends",
		Repair: "the leases are counted",
		Advice: "restart the workers one by one; the count ends with its worker"},
	{Code: "worker-leftover", Warning: true,
		Means:  "something is left of a worker that is gone: it only takes space",
		Repair: "it is removed"},
	{Code: "lease-without-job",
		Means:  "a lease belongs to a job that is not stored: the worker's count of leases is too high",
		Repair: "the lease is removed"},
	{Code: "lease-of-other-epoch",
		Means:  "a lease names another epoch than the job: its outcome is refused, and the job runs again when the worker ends",
		Repair: "the job gets the epoch of the lease"},
	{Code: "lease-malformed",
		Means:  "a lease cannot be read: reclaims may fail",
		Repair: "the lease is removed; the job becomes pending"},
	{Code: "worker-without-time",
		Means:  "a live worker has no end of its leases: if its process dies, no server reclaims its jobs",
		Repair: "its leases end in one minute, unless it renews them"},
}

// queueFindings is what can be wrong with whole queues and their keys.
var queueFindings = []broker.FindingKind{
	{Code: "key-count-differs",
		Means:  "the counts of a partition key differ from its jobs: its limits let too few run, or too many",
		Repair: "its jobs are counted"},
	{Code: "mark-never-lapses", Warning: true,
		Means:  "nothing removes a mark after its end: it only takes space",
		Repair: "its removal is scheduled"},
	{Code: "queue-not-listed",
		Means:  "a queue is not in the list of queues: operators do not see it",
		Repair: "it is listed"},
	{Code: "key-of-wrong-type",
		Means:  "a key of the queue has a wrong type: calls for the queue fail",
		Advice: "find out who wrote it; rename or delete that key, then examine again"},
	{Code: "key-expires",
		Means:  "the server will delete a key of the queue, with all jobs in it",
		Repair: "the expiry is removed"},
	{Code: "guard-missing",
		Means:  "the entry is missing that keeps a structure fast: counts are too low by one",
		Repair: "it is added"},
	{Code: "plain-flag-differs",
		Means:  "the queue's flag for fast enqueueing is wrong: its pause, its depth limit or its speed suffers",
		Repair: "the flag is corrected"},
	{Code: "rules-differ",
		Means:  "the limits that claims go by are not those of the policy",
		Repair: "they are read from the policy again"},
	{Code: "size-bound-exceeded", Warning: true,
		Means:  "a job is larger than the queue's record says: answers may become too large",
		Repair: "the record is corrected"},
	{Code: "wake-token-missing", Warning: true,
		Means:  "jobs can be claimed, but nothing wakes waiting workers: jobs start late",
		Repair: "waiting workers are woken"},
}

// settingFindings is what can be wrong with the Redis server.
var settingFindings = []broker.FindingKind{
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
	{Code: "cluster-slots-uncovered",
		Means:  "some queues have no server: calls for them fail",
		Advice: "run redis-cli --cluster fix"},
}
