package report

import "fmt"

// Metric is a measured quantity.
type Metric struct {
	Name   string
	Higher bool // higher is better
}

// Metrics lists all metrics in the order of tables.
var Metrics = []Metric{
	{"jobs/s", true}, {"jobs/s, first tenth", true}, {"jobs/s, last tenth", true}, {"kept of the first tenth", true},
	{"claim mean ms", false}, {"claim p50 ms", false}, {"claim p99 ms", false},
	{"until all handled s", false}, {"until first redelivered s", false}, {"until all redelivered s", false},
	{"drain over slowest handler ms", false},
	{"p50 ms", false}, {"p99 ms", false}, {"max ms", false},
	{"store µs/job", false}, {"worker µs/job", false}, {"worker allocs/job", false}, {"producer µs/job", false},
	{"producer allocs/job", false},
	{"bytes/job", false}, {"WAL bytes/job", false},
	{"store ms/s over empty", false}, {"store calls/s", false}, {"worker ms/s", false},
	{"first 30 %: weight 6 %", true}, {"first 30 %: weight 3 %", true}, {"first 30 %: weight 1 %", true},
	{"handled twice", false},
	{"idle: store ms/s", false}, {"idle: store calls/s", false},
	{"one job: store µs", false}, {"one job: p50 ms", false}, {"one job: p99 ms", false},
	{"drain: jobs/s", true}, {"drain: store µs/job", false},
}

func higher(metric string) bool {
	for _, m := range Metrics {
		if m.Name == metric {
			return m.Higher
		}
	}
	return false
}

// target is what `jobs` must reach, and what it aims at: a value or, with a peer, the
// ratio to the peer's value. If lower is better, it is an upper bound.
type target struct {
	store, workload, metric string
	peer                    string // a system, or a workload of our own after "@"
	must, aim               float64
}

const (
	asynq, asynqBest = "asynq", "asynq-best"
	river, riverBest = "river", "river-best"
)

var targets = []target{
	{"redis", "W1seq", "jobs/s", asynq, 1.0, 1.3},
	{"redis", "W1par", "jobs/s", asynq, 3, 3.5},
	{"redis", "W2", "jobs/s", asynq, 12, 24},
	{"redis", "W2", "jobs/s", asynqBest, 6, 12},
	{"redis", "W3", "jobs/s", asynq, 10, 18},
	{"redis", "W3", "jobs/s", asynqBest, 5.5, 10},
	{"redis", "W4", "p50 ms", "", 0.7, 0.35},
	{"redis", "W4", "p99 ms", "", 2, 1},
	{"redis", "W5", "bytes/job", asynq, 0.50, 0.43},
	{"redis", "W5later", "bytes/job", asynq, 0.60, 0.53},
	{"redis", "W6", "until all handled s", asynq, 1.0 / 12, 1.0 / 23},
	{"redis", "W6", "until all handled s", asynqBest, 1.0 / 6, 1.0 / 12},
	{"redis", "W7", "jobs/s", asynq, 14, 24},
	{"redis", "W7", "jobs/s", asynqBest, 6, 11},
	{"redis", "W8", "jobs/s", asynq, 15, 30},
	{"redis", "W8", "jobs/s", asynqBest, 5, 10},
	{"redis", "W2", "store µs/job", asynq, 1.0 / 8, 1.0 / 16},
	{"redis", "W3", "store µs/job", asynq, 1.0 / 8, 1.0 / 16},
	{"redis", "W2", "worker µs/job", "", 10, 6},
	{"redis", "idle", "store ms/s over empty", "", 0.5, 0.2},
	{"postgres", "W1seq", "jobs/s", riverBest, 1.6, 1.8},
	{"postgres", "W1par", "jobs/s", riverBest, 10, 13},
	{"postgres", "W1batch", "jobs/s", river, 3, 3.8},
	{"postgres", "W1batch", "jobs/s", riverBest, 2, 2.6},
	{"postgres", "W2", "jobs/s", riverBest, 2.2, 3},
	{"postgres", "W3", "jobs/s", riverBest, 7, 10},
	{"postgres", "W4", "p50 ms", "", 1.6, 1.3},
	{"postgres", "W4", "p99 ms", "", 5, 3},
	{"postgres", "W5", "bytes/job", riverBest, 0.75, 0.65},
	{"postgres", "W5", "WAL bytes/job", riverBest, 0.45, 0.33},
	{"postgres", "W6", "until all handled s", riverBest, 1 / 2.5, 1.0 / 3},
	{"postgres", "W8", "jobs/s", riverBest, 2.2, 2.6},
	{"postgres", "W9old", "kept of the first tenth", "", 0.8, 0.9},
	{"postgres", "W9done", "jobs/s", "@W9none", 0.95, 1},
	{"postgres", "W2", "store µs/job", riverBest, 0.4, 0.3},
	{"postgres", "W3", "store µs/job", riverBest, 0.15, 0.1},
	{"redis", "limits", "jobs/s", "@W2", 1 / 1.3, 1},
	{"redis", "key", "jobs/s", "@W2", 1 / 1.6, 1},
	{"redis", "keys100", "jobs/s", "@W2", 1 / 1.6, 1},
	{"redis", "keys100k", "jobs/s", "@W2", 1 / 1.6, 1},
	{"redis", "keylimits", "jobs/s", "@keys100k", 0.75, 1},
	{"redis", "blocked", "store ms/s over empty", "@idle", 2, 1},
	{"postgres", "limits", "jobs/s", "@W2", 1 / 1.3, 1},
	{"postgres", "key", "jobs/s", "@W2", 1 / 1.6, 1},
	{"postgres", "keys100", "jobs/s", "@W2", 1 / 1.6, 1},
	{"postgres", "keys100k", "jobs/s", "@W2", 1 / 1.6, 1},
	{"postgres", "keylimits", "jobs/s", "@keys100k", 0.75, 1},
	{"postgres", "blocked", "store ms/s over empty", "@idle", 2, 1},
	{"file", "W1batch", "jobs/s", "", 20_000, 40_000},
	{"file", "W2", "jobs/s", "", 20_000, 40_000},
	{"memory", "W2", "jobs/s", "", 400_000, 400_000},
	{"memory", "W2", "worker µs/job", "", 3, 3},
	{"memory", "W2", "worker allocs/job", "", 8, 8},
	{"memory", "W2chain", "worker µs/job", "", 7, 4}, // 3 of W2, and 4 for the chain
	{"memory", "W2sampled", "worker µs/job", "", 7, 4},
	{"redis", "W9done", "jobs/s", "@W9none", 0.95, 1},
	{"memory", "depth1M", "jobs/s", "@depth10k", 0.9, 1},
	{"memory", "depth1M", "claim p50 ms", "@depth10k", 1.1, 1},
	{"memory", "depth1M", "claim mean ms", "@depth10k", 1.1, 1},
	{"redis", "depth1M", "jobs/s", "@depth10k", 0.9, 1},
	{"redis", "depth1M", "claim p50 ms", "@depth10k", 1.1, 1},
	{"redis", "depth1M", "claim mean ms", "@depth10k", 1.1, 1},
	{"postgres", "depth1M", "jobs/s", "@depth10k", 0.9, 1},
	{"postgres", "depth1M", "claim p50 ms", "@depth10k", 1.1, 1},
	{"postgres", "depth1M", "claim mean ms", "@depth10k", 1.1, 1},
	{"redis", "crash", "until all redelivered s", "", 16, 16},
	{"postgres", "crash", "until all redelivered s", "", 16, 16},
	{"redis", "shutdown", "drain over slowest handler ms", "", 100, 50},
	{"postgres", "shutdown", "drain over slowest handler ms", "", 100, 50},
}

// ours and bare return the names of our system and of the prototype on a store.
func ours(store string) string { return "jobs-" + store }
func bare(store string) string { return "bare-" + store }

// sample returns the sample of a system that t judges; false if it was not measured.
func (t target) sample(r *Results, system string) (Sample, bool) {
	own, _ := r.Values(t.workload, t.store, system, t.metric)
	var values []float64
	switch {
	case t.peer == "":
		for _, v := range own {
			values = append(values, v)
		}
	case t.peer[0] == '@':
		// Values of different runs are not comparable: hours or machines are between them.
		if base, _ := r.Values(t.peer[1:], t.store, system, t.metric); r.run(t.workload, t.store) == r.run(t.peer[1:], t.store) {
			values = Ratios(own, base)
		}
	default:
		theirs, _ := r.Values(t.workload, t.store, t.peer, t.metric)
		values = Ratios(own, theirs)
	}
	if len(values) == 0 {
		return Sample{}, false
	}
	return Of(values), true
}

// share returns how much of the limit v reaches, in percent.
func (t target) share(v, limit float64) string {
	if !higher(t.metric) {
		v, limit = limit, v
	}
	if limit == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", 100*v/limit)
}

// verdict compares a median with the target.
func (t target) verdict(v float64) string {
	reached := func(bound float64) bool {
		if higher(t.metric) {
			return v >= bound
		}
		return v <= bound
	}
	switch {
	case reached(t.aim):
		return "aim reached"
	case reached(t.must):
		return "reached"
	}
	return "**missed**"
}
