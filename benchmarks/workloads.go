package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/benchmarks/system"
	"github.com/seed81422ce9/jobs/broker"
)

// workload describes one measurement.
type workload struct {
	name, about string
	store       string
	jobs        int
	queues      map[string]int
	policy      *broker.PolicyRequest // set before each round
	workers     int                   // in the worker's process, if more than one
	peerless    bool                  // only for our systems
	settled     bool                  // leaves out peers with defaults, which would take hours
	long        bool                  // takes minutes, so has fewer rounds
	deep        bool                  // only on request
	skip        []string
	once        func(*run) // prepares all rounds; without it each begins empty
	measure     func(*run) metrics
}

const (
	handlers = 100
	callers  = 64
	// slowJobs bounds the jobs for the one system that handles at most 1000 a
	// second on any machine.
	slowJobs   = 5_000
	slowSystem = "river"
)

func (w *workload) size(k system.Kind, scale float64) int {
	n := w.jobs
	if k.Name == slowSystem && w.name != "W1batch" && w.name != "W5" {
		n = min(n, slowJobs)
	}
	return scaled(n, scale)
}

// systems returns the names of the systems that take part.
func (w *workload) systems(only func(string) bool) (names []string) {
	for _, k := range system.Kinds {
		switch {
		case k.Store != w.store || !only(k.Name):
		case k.Only != "" && k.Only != w.name:
		case w.peerless && !k.Ours:
		case w.settled && !k.Ours && !k.Best && !k.Bare:
		case slices.Contains(w.skip, k.Name):
		default:
			names = append(names, k.Name)
		}
	}
	return names
}

var weights = map[string]int{"heavy": 6, "light": 1, "middle": 3}

// inTurn has the queues in the order in which producers fill them, by weight.
var inTurn = []string{"heavy", "middle", "light"}

// workloads returns all workloads in the order in which they run.
func workloads() []*workload {
	list := []*workload{
		{name: "W1seq", store: "redis", jobs: 40_000, about: "enqueue, one caller", measure: enqueue(task{Callers: 1})},
		{name: "W1par", store: "redis", jobs: 100_000, about: "enqueue, 64 callers", measure: enqueue(task{Callers: callers})},
		{name: "W1unique", store: "redis", jobs: 100_000, about: "enqueue with unique keys, 64 callers", skip: []string{"bare-redis"},
			measure: enqueue(task{Callers: callers, Unique: true})},
		{name: "W1batch", store: "redis", jobs: 100_000, about: "enqueue in batches of 100", skip: []string{"asynq", "asynq-best"},
			measure: enqueue(task{Batch: 100})},
		{name: "W2", store: "redis", jobs: 100_000, about: "drain", measure: drain(task{}, task{})},
		{name: "W2unique", store: "redis", jobs: 100_000, about: "drain, jobs with unique keys", skip: []string{"bare-redis"},
			measure: drain(task{Unique: true}, task{})},
		{name: "W2prio", store: "redis", jobs: 100_000, about: "drain, jobs of four priorities", peerless: true,
			measure: drain(task{Priorities: 4}, task{})},
		{name: "W2keep", store: "redis", jobs: 100_000, about: "drain, records and results kept for a day", skip: []string{"bare-redis"},
			measure: drain(keep, keep)},
		{name: "W2chain", store: "redis", jobs: 100_000, about: chainAbout, peerless: true, skip: []string{"bare-redis"},
			measure: drain(task{}, task{})},
		{name: "W3", store: "redis", jobs: 100_000, about: "64 callers enqueue while a worker handles", measure: both},
		{name: "W4", store: "redis", jobs: 1000, about: "from before the enqueue to the handler, idle worker, 150 jobs/s",
			measure: arrive(task{Rate: 150})},
		{name: "due", store: "redis", jobs: 1000, about: "from the due time to the handler, 150 jobs/s, due 1 to 2 s later",
			measure: arrive(task{Rate: 150, Delay: time.Second})},
		{name: "W5", store: "redis", jobs: 100_000, about: "memory of a pending job", measure: size(0)},
		{name: "W5later", store: "redis", jobs: 100_000, about: "memory of a scheduled job", measure: size(time.Hour)},
		{name: "W6", store: "redis", jobs: 50_000, about: "jobs due at the same instant; times from that instant", measure: burst},
		{name: "W7", store: "redis", jobs: 60_000, about: "drain of three queues with weights 6, 3, 1", queues: weights,
			skip: []string{"bare-redis"}, measure: drain(task{Queues: inTurn}, task{Shares: true})},
		{name: "W8", store: "redis", jobs: 20_000, about: "every job fails once, shortest backoff", measure: drain(task{}, task{FailOnce: true})},
		{name: "W9none", store: "redis", jobs: 50_000, about: "drain, beside no finished jobs", settled: true, measure: drain(task{}, task{})},
		{name: "W9done", store: "redis", jobs: 50_000, about: "drain, beside a million finished jobs", settled: true,
			skip: []string{"bare-redis"}, once: finished, measure: drain(task{}, task{})},

		{name: "W1seq", store: "postgres", jobs: 5000, about: "enqueue, one caller", measure: enqueue(task{Callers: 1})},
		{name: "W1par", store: "postgres", jobs: 50_000, about: "enqueue, 64 callers", measure: enqueue(task{Callers: callers})},
		{name: "W1unique", store: "postgres", jobs: 50_000, about: "enqueue with unique keys, 64 callers", skip: []string{"bare-postgres"},
			measure: enqueue(task{Callers: callers, Unique: true})},
		{name: "W1batch", store: "postgres", jobs: 100_000, about: "enqueue in batches of 1000", measure: enqueue(task{Batch: 1000})},
		{name: "W2", store: "postgres", jobs: 100_000, about: "drain", measure: drain(task{}, task{})},
		{name: "W2unique", store: "postgres", jobs: 100_000, about: "drain, jobs with unique keys", skip: []string{"bare-postgres"},
			settled: true, measure: drain(task{Unique: true}, task{})},
		{name: "W2prio", store: "postgres", jobs: 100_000, about: "drain, jobs of four priorities", skip: []string{"bare-postgres"},
			settled: true, measure: drain(task{Priorities: 4}, task{})},
		{name: "W2keep", store: "postgres", jobs: 100_000, about: "drain, records and results kept for a day", skip: []string{"bare-postgres"},
			settled: true, measure: drain(keep, keep)},
		{name: "W2chain", store: "postgres", jobs: 100_000, about: chainAbout, peerless: true, skip: []string{"bare-postgres"},
			measure: drain(task{}, task{})},
		{name: "W3", store: "postgres", jobs: 50_000, about: "64 callers enqueue while a worker handles", measure: both},
		{name: "W4", store: "postgres", jobs: 1000, about: "from before the enqueue to the handler, idle worker, 100 jobs/s",
			measure: arrive(task{Rate: 100})},
		{name: "due", store: "postgres", jobs: 1000, about: "from the due time to the handler, 100 jobs/s, due 1 to 2 s later",
			measure: arrive(task{Rate: 100, Delay: time.Second})},
		{name: "W5", store: "postgres", jobs: 100_000, about: "size of a pending job, log of its life", settled: true, measure: size(0)},
		{name: "W6", store: "postgres", jobs: 20_000, about: "jobs due at the same instant; times from that instant", measure: burst},
		{name: "W8", store: "postgres", jobs: 10_000, about: "every job fails once, shortest backoff",
			measure: drain(task{}, task{FailOnce: true})},
		{name: "W9none", store: "postgres", jobs: 50_000, about: "drain, beside no finished jobs", skip: []string{"river"},
			measure: drain(task{}, task{})},
		{name: "W9done", store: "postgres", jobs: 50_000, about: "drain, beside a million finished jobs", settled: true, once: finished,
			measure: drain(task{}, task{})},
		{name: "W9old", store: "postgres", about: "two minutes of churn at depth 5000 under an old snapshot", skip: []string{"bare-postgres"},
			settled: true, once: oldSnapshot, measure: churn(oldDepth, 2*time.Minute)},

		{name: "W1seq", store: "file", jobs: 5000, about: "enqueue, one caller", measure: enqueue(task{Callers: 1})},
		{name: "W1par", store: "file", jobs: 100_000, about: "enqueue, 64 callers", measure: enqueue(task{Callers: callers})},
		{name: "W1batch", store: "file", jobs: 100_000, about: "enqueue in batches of 1000", measure: enqueue(task{Batch: 1000})},
		{name: "W2", store: "file", jobs: 100_000, about: "drain", measure: drainOwn},

		{name: "W1par", store: "memory", jobs: 500_000, about: "enqueue, 64 callers", measure: enqueue(task{Callers: callers})},
		{name: "W1batch", store: "memory", jobs: 500_000, about: "enqueue in batches of 1000", measure: enqueue(task{Batch: 1000})},
		{name: "W2", store: "memory", jobs: 500_000, about: "drain", measure: drainOwn},
		{name: "W2chain", store: "memory", jobs: 500_000, about: chainAbout, measure: drainOwn},
		{name: "W2sampled", store: "memory", jobs: 500_000, about: "the same, every job sampled; its spans are dropped as they end",
			measure: drainOwn},
		{name: "depth10k", store: "memory", about: "churn at a constant depth of 10000 pending jobs", measure: churnOwn(10_000, 10*time.Second)},
		{name: "depth1M", store: "memory", about: "churn at a constant depth of 1000000 pending jobs",
			measure: churnOwn(1_000_000, 10*time.Second)},
	}
	for _, store := range []string{"redis", "postgres"} {
		for _, d := range []struct {
			name  string
			depth int
		}{{"depth10k", 10_000}, {"depth1M", 1_000_000}, {"depth5M", 5_000_000}} {
			list = append(list, &workload{name: d.name, store: store, settled: true, long: d.depth > 1_000_000, deep: d.depth > 1_000_000,
				about: fmt.Sprintf("churn at a constant depth of %d pending jobs", d.depth), once: deep(d.depth),
				measure: churn(d.depth, 10*time.Second)})
		}
		list = append(list,
			&workload{name: "age", store: store, jobs: 50_000, peerless: true, skip: []string{"bare-" + store},
				about: "64 callers enqueue while a worker handles; from before the enqueue to the handler", measure: aged},
			&workload{name: "idle", store: store, long: true, about: "a worker without work", measure: idle},
			&workload{name: "background", store: store, jobs: 100_000, long: true, peerless: true, skip: []string{"bare-" + store},
				about:   "a worker with 100 running handlers beside scheduled jobs: leases, looks for dead workers and for due jobs",
				measure: background},
			&workload{name: "shutdown", store: store, jobs: 1000, skip: []string{"bare-" + store},
				about: "stop of a worker with 100 running handlers of 300 ms", measure: shutdown},
			// River takes an hour by default. It can take a second only if no job may run longer than that.
			&workload{name: "crash", store: store, jobs: handlers, long: true, skip: []string{"bare-" + store, "river", "river-best"},
				about: "SIGKILL of a worker with 100 running handlers, beside another worker; times from the kill", measure: crash})
		list = append(list, flow(store)...)
		list = append(list, grid(store)...)
	}
	return list
}

const chainAbout = "drain through tracing (no job sampled), metrics, logging, retry, timeout and recovery"

// oldDepth is the depth of the churn under an old snapshot.
const oldDepth = 5000

var (
	keep = task{Keep: 24 * time.Hour}
	// both takes the time of the worker, which begins first.
	both = roles(nil, task{Role: "work"}, task{Role: "produce", Callers: callers})
	// aged is both with the age of jobs when their handlers begin.
	aged = roles(nil, task{Role: "work", Latency: true}, task{Role: "produce", Callers: callers})
	// drainOwn is for a store in the worker's process.
	drainOwn = roles(nil, task{Role: "work", Preload: true, Batch: 1000})
)
