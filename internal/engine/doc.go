// Package engine is the machinery of a server: the loops that claim jobs, run
// them in slots, settle their outcomes, renew the leases, reclaim the jobs of dead
// servers, prune, and drain. It does not decide what the end of a run means for
// the job: a Policy does.
//
// Where to look:
//
//	server.go     Options, Policy, Server, start and end; ready.go: readiness; hooks.go: what
//	              the server reports
//	run.go        a job under a lease; context.go: the context of its handler;
//	              keep.go: checkpoints, steps and progress
//	fetch.go      the loop that claims; claim.go: one claim, its size and its answer;
//	              weights.go: of which queues; prefetch.go: how much beyond the free slots
//	handle.go     from a claimed job to its outcome: accept, begin, leave, release
//	slots.go      which runs wait, and which may begin; types.go: limits of types;
//	              suspects.go: jobs that crashed, which run beside few others
//	settle.go     the loop that sends outcomes, and their answers; intx.go: jobs that
//	              a transaction of their handler completes
//	worker.go     the ID under which a server claims; heartbeat.go: the loop that
//	              registers and renews it; audit.go: leases whose answer was lost
//	upkeep.go     the loop that reclaims, prunes (prune.go) and reports handlers that
//	              do not return (stuck.go); elect.go: which server reclaims and prunes
//	watch.go      cancellations; drain.go: the end; history.go: the history of queues
//	inline.go     jobs run without loops, for tests of applications
//
// A Server has one lock. Methods that need it held end in Locked; all methods of
// the types that it guards (slots, stuckHandlers, fetcher, settler, worker, …) need
// it too.
package engine
