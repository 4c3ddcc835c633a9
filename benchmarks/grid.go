package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/benchmarks/report"
	"github.com/seed81422ce9/jobs/benchmarks/system"
)

// sizes are those of the fleets' measurements. The document has these defaults.
var sizes = struct{ jobs, full, handlers, lone, rate int }{2000, 1000, 10, 400, 40}

func sizeFlags() {
	flag.IntVar(&sizes.jobs, "fleet-jobs", sizes.jobs, "fleets: jobs in a drain")
	flag.IntVar(&sizes.full, "fleet-full", sizes.full, "fleets: in how many queues these are, at most")
	flag.IntVar(&sizes.handlers, "fleet-handlers", sizes.handlers, "fleets: handlers in each worker")
	flag.IntVar(&sizes.lone, "fleet-lone", sizes.lone, "fleets: jobs enqueued one by one; the first half makes connections ready")
	flag.IntVar(&sizes.rate, "fleet-rate", sizes.rate, "fleets: how many of these a second, so few that workers are idle in between")
}

// grid returns the measurements on a store with workers that each serve all queues.
func grid(store string) (list []*workload) {
	for _, workers := range []int{1, 10, 100, 1000} {
		for _, queues := range []int{1, 10, 100, 1000} {
			if workers == 1000 && (store == "postgres" || queues == 1000) {
				continue // Postgres has a process for each connection; on Redis, idle calls alone would take more than a core
			}
			names, weights := make([]string, queues), map[string]int{}
			for i := range names {
				names[i] = fmt.Sprintf("queue%d", i)
				weights[names[i]] = 1
			}
			w := &workload{name: report.GridName(workers, queues), store: store, jobs: sizes.jobs, queues: weights, workers: workers,
				deep: true, long: true, about: fmt.Sprintf("%d workers, each serves %d queues", workers, queues),
				skip: []string{"asynq-best", "river-best", "bare-redis", "bare-postgres"}, measure: fleet(names)}
			for _, k := range system.Kinds {
				// A worker of the peers polls each of its queues at least once a second.
				if !k.Ours && workers*queues > 10_000 || k.Name == "river" && workers*queues > 1000 {
					w.skip = append(w.skip, k.Name)
				}
			}
			list = append(list, w)
		}
	}
	return list
}

// fleet measures workers that are idle, that get single jobs, and that drain all queues.
func fleet(queues []string) func(*run) metrics {
	return func(r *run) metrics {
		span, m := r.span(5*time.Second), metrics{}
		quiet, _ := r.usage(span / 5)
		workers := r.spawn(task{Role: "work", Early: true, Latency: true, Jobs: sizes.lone})
		// Wait until they have registered and claimed from all queues.
		time.Sleep(2*time.Second + time.Duration(r.work.workers*len(queues))*100*time.Microsecond)
		cpu, calls := r.usage(span)
		m["idle: store ms/s"], m["idle: store calls/s"] = cpu-quiet, calls

		producer := r.spawn(task{Role: "produce", Jobs: sizes.lone, Rate: float64(sizes.rate), Queues: queues})
		r.check(workers.tell("begin"))
		r.check(producer.tell("begin"))
		time.Sleep(time.Duration(sizes.lone) * time.Second / time.Duration(2*sizes.rate))
		before, began := r.use(), time.Now()
		r.result(producer)
		time.Sleep(time.Second)
		after, took := r.use(), time.Since(began).Seconds()
		m["one job: store µs"] = ((after.CPU-before.CPU).Seconds()*1e6 - cpu*1e3*took) / float64(sizes.lone/2)
		got := r.result(workers)
		m["one job: p50 ms"], m["one job: p99 ms"] = got["p50 ms"], got["p99 ms"]

		r.empty()
		got = drain(task{Queues: queues[:min(sizes.full, len(queues))]}, task{})(r)
		m["drain: jobs/s"], m["drain: store µs/job"] = got["jobs/s"], got["store µs/job"]
		return m
	}
}

// workAll starts as many workers as the task asks for. The first uses this process's
// connection to the store; each other opens its own, as a process would.
func (w *worker) workAll(ctx context.Context) (end func() error, err error) {
	ends, closes := []func() error{}, []func() error{}
	end = func() error {
		var errs []error
		for _, f := range append(ends, closes...) {
			errs = append(errs, f())
		}
		return errors.Join(errs...)
	}
	for i := range max(w.Workers, 1) {
		s := w.system
		if i > 0 {
			if s, err = system.Open(ctx, w.System, w.Setup); err != nil {
				return nil, errors.Join(err, end())
			}
			closes = append(closes, s.Close)
		}
		stop, err := s.Work(ctx, w.handle)
		if err != nil {
			return nil, errors.Join(err, end())
		}
		ends = append(ends, stop)
	}
	return end, nil
}
