package main

import (
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

const (
	manyKeys    = 100_000
	blockedKeys = 50_000
	smallJobs   = 1000
	smallRate   = 200 // a second
)

// Limits that hold no job back, to measure the cost of checking them.
var (
	queueLimits = &broker.PolicyRequest{Queue: "default", MaxActive: new(int64(1_000_000)),
		Rate: &broker.Rate{Jobs: 1_000_000, Per: time.Second, Burst: 1_000_000}}
	keyLimits = &broker.PolicyRequest{Queue: "default", KeyMaxActive: new(int64(1000)),
		KeyRate: &broker.Rate{Jobs: 1_000_000, Per: time.Second, Burst: 1_000_000}}
	oneADay = &broker.PolicyRequest{Queue: "default", KeyRate: &broker.Rate{Jobs: 1, Per: 24 * time.Hour}}
)

// flow measures limits of queues and keys, and the turns of keys, on a store. The free
// versions of the peers have neither.
func flow(store string) []*workload {
	list := []*workload{
		{name: "limits", jobs: 100_000, about: "drain, W2 with a limit of active jobs and a rate that hold nothing back",
			policy: queueLimits, measure: drain(task{}, task{})},
		{name: "key", jobs: 100_000, about: "drain, all jobs have one key", measure: drain(task{Keys: 1}, task{})},
		{name: "keys100", jobs: 100_000, about: "drain, jobs of 100 keys in turn", measure: drain(task{Keys: 100}, task{})},
		{name: "keys100k", jobs: manyKeys, about: "drain, each job has a key of its own", measure: drain(task{Keys: manyKeys}, task{})},
		{name: "keylimits", jobs: manyKeys, about: "the same, with a limit of active jobs and a rate for each key that hold nothing back",
			policy: keyLimits, measure: drain(task{Keys: manyKeys}, task{})},
		{name: "fair", jobs: smallJobs, about: "from before the enqueue to the handler, jobs of 1,000 keys at 200 a second, " +
			"beside a million jobs of another key that are being drained", measure: fair},
		{name: "blocked", jobs: 2 * blockedKeys, long: true,
			about: "a worker without work, beside 50,000 keys that have a job each and are at their limits", policy: oneADay, measure: blocked},
	}
	for _, w := range list {
		w.store, w.peerless, w.skip = store, true, []string{"bare-" + store}
	}
	return list
}

// fair measures jobs of small keys beside a key with very many jobs.
func fair(r *run) metrics {
	r.fill(task{Key: "big", Keys: 1, Untimed: true}, scaled(1_000_000, r.scale))
	return arrive(task{Rate: smallRate, Key: "small", Keys: smallJobs, Beside: true})(r)
}

// blocked runs one job of each key, which is all that its rate allows in a day.
func blocked(r *run) metrics {
	r.fill(task{Keys: r.jobs / 2}, r.jobs)
	r.play(task{Role: "work", Jobs: r.jobs / 2, Beside: true})
	// Once, a worker reads what enqueues have reported of keys that are at their limits meanwhile.
	first := r.spawn(task{Role: "work", Early: true, Span: r.span(15 * time.Second)})
	r.check(first.tell("begin"))
	r.result(first)
	return idle(r)
}
