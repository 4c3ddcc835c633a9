package main

import (
	"context"
	"fmt"
	"os"
	"runtime/pprof"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/benchmarks/report"
	"github.com/seed81422ce9/jobs/benchmarks/system"
)

// task says what a child does.
type task struct {
	Role   string // prepare, produce, work
	System string
	Setup  system.Setup

	Jobs    int // to enqueue or to handle; 0: until told to stop
	Counter string
	Profile string        // a file for a CPU profile
	Timeout time.Duration // for handling all jobs

	// For producers.
	Callers, Batch int           // callers of single jobs, or jobs in a batch
	Rate           float64       // jobs a second, one caller
	Depth          int           // number of jobs to keep in the queue
	RunAt          time.Time     // for a worker, when the measurement begins
	Delay          time.Duration // after the enqueue
	Queues         []string      // in turn
	Priorities     int           // in turn
	Unique         bool
	Key            string // prefix of the jobs' keys; Keys of them are used in turn
	Keys           int
	Untimed        bool // a worker with Beside does not count these jobs
	Keep           time.Duration

	// For workers.
	Workers  int  // number of workers in this process, each with its own connection to the store; 0: one
	Early    bool // the worker runs before the measurement begins
	Preload  bool // this process enqueues the jobs first
	FailOnce bool
	Hold     time.Duration // how long a handler takes
	Span     time.Duration // how long to work
	Shares   bool          // count which queues the first 30 % come from
	Replaced bool          // each handled job is replaced; the counter has the number of missing ones
	Latency  bool
	Beside   bool // the queue has other jobs, which do not count
}

// singly, as the number of callers, makes many callers enqueue jobs one by one in
// systems that have no call for a batch.
const singly = -1

func play(ctx context.Context, t task, ready func(), stop <-chan struct{}) (metrics, error) {
	s, err := system.Open(ctx, t.System, t.Setup)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if t.Profile != "" {
		f, err := os.Create(t.Profile)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		begin := ready
		ready = func() {
			begin()
			if err := pprof.StartCPUProfile(f); err != nil {
				fmt.Fprintln(os.Stderr, "no profile:", err)
			}
		}
		defer pprof.StopCPUProfile()
	}
	switch t.Role {
	case "prepare":
		ready()
		return nil, s.Prepare(ctx)
	case "produce":
		return (&producer{task: t, system: s}).run(ctx, ready, stop)
	case "work":
		return (&worker{task: t, system: s, done: make(chan struct{})}).run(ctx, ready, stop)
	}
	return nil, fmt.Errorf("no role %q", t.Role)
}

// payloadSize is the length of all payloads: JSON with a number, a time and padding.
const payloadSize = 200

var template = fmt.Appendf(nil, `{"n":"%012d","t":"%019d","pad":"%0*d"}`, 0, 0, payloadSize-55, 0)

// payload returns the payload of job n. It is cheap, since its cost counts as the
// producer's.
func payload(n int, at time.Time) []byte {
	p := slices.Clone(template)
	write := func(end int, v int64) {
		for ; v > 0; v /= 10 {
			p[end], end = byte('0'+v%10), end-1
		}
	}
	const numberEnd, timeEnd = 17, 43
	write(numberEnd, int64(n))
	write(timeEnd, at.UnixNano())
	return p
}

// parsePayload reads number and time, even if a store has reformatted the JSON.
func parsePayload(p []byte) (n int, at int64) {
	number := func() (v int64) {
		for len(p) > 0 && (p[0] < '0' || p[0] > '9') {
			p = p[1:]
		}
		for len(p) > 0 && p[0] >= '0' && p[0] <= '9' {
			v, p = v*10+int64(p[0]-'0'), p[1:]
		}
		return v
	}
	return int(number()), number()
}

// quantiles adds the quantiles and the mean of ns to m, in milliseconds.
func quantiles(m metrics, of string, ns []int64) {
	if len(ns) == 0 {
		return
	}
	slices.Sort(ns)
	ms, sum := make([]float64, len(ns)), 0.0
	for i, v := range ns {
		ms[i] = float64(v) / 1e6
		sum += ms[i]
	}
	m[of+"mean ms"] = sum / float64(len(ms))
	m[of+"p50 ms"], m[of+"p99 ms"], m[of+"max ms"] = report.Quantile(ms, 0.5), report.Quantile(ms, 0.99), ms[len(ms)-1]
}
