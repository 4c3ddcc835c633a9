// Package engine is the machinery of a server: the loops that claim jobs, run
// them in slots, settle their outcomes, renew the leases, take over the jobs of
// dead servers, prune, and drain. What a run means for its job is not decided
// here: a Policy says so.
//
// Where to look:
//
//	server.go     Options, Policy, start and end, readiness
//	run.go        a job under a lease; context.go: the context of its handler
//	fetch.go      the loop that claims; claim.go: one claim and its answer
//	claimsize.go  how much a claim asks for; weights.go: of which queues;
//	              prefetch.go: how much beyond the free slots
//	slots.go      where handlers run; types.go: jobs that wait for room of their type;
//	              suspects.go: jobs that run beside few others
//	settle.go     the loop that sends outcomes; settled.go: their answers; intx.go:
//	              jobs that a transaction of their handler completes
//	worker.go     the ID under which a server claims; heartbeat.go: the loop that
//	              registers and renews it; audit.go: leases that an answer did not tell of
//	upkeep.go     the loop that reclaims, prunes (prune.go) and looks for handlers that
//	              do not return (stuck.go); marks.go: which jobs had begun when a server died
//	watch.go      cancellations; drain.go: the end
//	inline.go     jobs run without loops, for tests of applications
//
// A Server has one lock. Methods that need it held end in Locked; methods of the
// types that it guards (slots, fetcher, settler, worker, …) need it too.
package engine
