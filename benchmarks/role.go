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

// task is what a child is to do.
type task struct {
	Role   string // prepare, produce, work
	System string
	Setup  system.Setup

	Jobs    int // to enqueue, or to be handled; 0: until told to stop
	Counter string
	Profile string        // a file for a CPU profile
	Timeout time.Duration // for all jobs to be handled

	// What is produced.
	Callers, Batch int           // callers of single jobs, or jobs in a batch
	Rate           float64       // jobs a second, one caller
	Depth          int           // keeps so many jobs in the queue
	RunAt          time.Time     // also tells a worker when the measurement begins
	Delay          time.Duration // after the enqueue
	Queues         []string      // in turn
	Priorities     int           // in turn
	Unique         bool
	Key            string // the beginning of the jobs' keys, and how many there are, in turn
	Keys           int
	Untimed        bool // they do not count where others wait beside
	Keep           time.Duration

	// How it is handled.
	Workers  int  // that work in this process, each with a connection to the store of its own; 0: one
	Early    bool // the worker runs before the measurement begins
	Preload  bool // this process enqueues the jobs first
	FailOnce bool
	Hold     time.Duration // how long a handler takes
	Span     time.Duration // work for so long
	Shares   bool          // count which queues the first 30 % come from
	Replaced bool          // each job that is handled is replaced, and the counter tells how many are missing
	Latency  bool
	Beside   bool // other jobs are in the queue, which do not count
}

// singly, as the number of callers, has jobs enqueued one by one, from many
// callers, in systems that have no call for a batch.
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

// payload is made without much ado: its cost counts as the producer's.
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

// parsePayload reads number and time, also after a store has written the JSON
// in its own way.
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

// quantiles adds those of nanoseconds and their mean, in milliseconds.
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
