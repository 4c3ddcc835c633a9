package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/pprof"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed81422ce9/jobs/benchmarks/report"
	"github.com/seed81422ce9/jobs/benchmarks/system"
)

// task is what a child is to do.
type task struct {
	Role   string // produce, work
	System string
	Setup  system.Setup

	Jobs    int // to enqueue, or to be handled; 0: until told to stop
	Counter string
	Profile string        // a file for a CPU profile
	Timeout time.Duration // for all jobs to be handled

	// What is produced.
	Callers, Batch int
	Rate           float64 // jobs a second, one caller
	Depth          int     // keeps so many jobs in the queue
	RunAt          time.Time
	Delay          time.Duration // after the enqueue
	Queues         []string      // in turn
	Priorities     int           // in turn
	Unique         bool
	Keep           time.Duration

	// How it is handled.
	Early    bool // the worker runs before the measurement begins
	Preload  bool // this process enqueues the jobs first
	FailOnce bool
	Hold     time.Duration // how long a handler takes
	Span     time.Duration // work for so long
	Shares   bool          // count which queues the first 30 % come from
	Latency  bool
}

// singly, as the number of callers, has jobs enqueued one by one, from many
// callers, in systems that have no call for a batch.
const singly = -1

func play(ctx context.Context, t task, ready func(), stop <-chan struct{}) (metrics map[string]float64, err error) {
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
		inner := ready
		ready = func() {
			inner()
			err = pprof.StartCPUProfile(f)
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

func payload(n int, at time.Time) []byte {
	p := fmt.Appendf(make([]byte, 0, payloadSize), `{"n":"%012d","t":"%019d","pad":"`, n, at.UnixNano())
	for len(p) < payloadSize-2 {
		p = append(p, 'x')
	}
	return append(p, '"', '}')
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

type producer struct {
	task
	system system.System
}

func (p *producer) job(n int) system.Job {
	due := time.Now()
	j := system.Job{Unique: p.Unique, Keep: p.Keep, RunAt: p.RunAt}
	if p.Delay > 0 {
		// Spread over a second, so that each is due at its own instant.
		j.RunAt = due.Add(p.Delay + rand.N(time.Second)).Round(time.Millisecond)
	}
	if !j.RunAt.IsZero() {
		due = j.RunAt
	}
	if len(p.Queues) > 0 {
		j.Queue = p.Queues[n%len(p.Queues)]
	}
	if p.Priorities > 0 {
		j.Priority = n%p.Priorities + 1
	}
	j.Payload = payload(n, due)
	return j
}

func (p *producer) run(ctx context.Context, ready func(), stop <-chan struct{}) (map[string]float64, error) {
	ready()
	m := startMeter()
	var took []int64
	var err error
	switch {
	case p.Rate > 0:
		err = p.atRate(ctx)
	case p.Depth > 0:
		err = p.keepDepth(ctx, stop)
	case p.Callers > 0:
		took, err = p.each(ctx, p.Callers, 0, p.Jobs)
	default:
		err = p.inBatches(ctx)
	}
	if err != nil {
		return nil, err
	}
	metrics := map[string]float64{"wall": time.Since(m.at).Seconds()}
	metrics["cpu"], metrics["allocs"] = m.read()
	quantiles(metrics, took)
	return metrics, nil
}

// each enqueues the jobs from..to, one a call, from n callers, and tells how
// long each took.
func (p *producer) each(ctx context.Context, n, from, to int) ([]int64, error) {
	took := make([]int64, to-from)
	errs := make([]error, n)
	var next atomic.Int64
	var all sync.WaitGroup
	for c := range n {
		all.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(took) {
					return
				}
				j := p.job(from + i)
				began := time.Now()
				if errs[c] = p.system.Enqueue(ctx, &j); errs[c] != nil {
					return
				}
				took[i] = int64(time.Since(began))
			}
		})
	}
	all.Wait()
	return took, errors.Join(errs...)
}

func (p *producer) inBatches(ctx context.Context) error {
	for from := 0; from < p.Jobs; from += p.Batch {
		if err := p.batch(ctx, from, min(from+p.Batch, p.Jobs)); err != nil {
			return err
		}
	}
	return nil
}

// batch enqueues the jobs from..to at once or, for a preparation in a system
// that has no call for it, from concurrent callers.
func (p *producer) batch(ctx context.Context, from, to int) error {
	batch := make([]system.Job, to-from)
	for i := range batch {
		batch[i] = p.job(from + i)
	}
	err := p.system.EnqueueMany(ctx, batch)
	if errors.Is(err, system.ErrNoBatch) && p.Callers == singly {
		_, err = p.each(ctx, callers, from, to)
	}
	return err
}

// atRate enqueues at random intervals.
func (p *producer) atRate(ctx context.Context) error {
	next := time.Now()
	for n := range p.Jobs {
		time.Sleep(time.Until(next))
		j := p.job(n)
		if err := p.system.Enqueue(ctx, &j); err != nil {
			return err
		}
		mean := float64(time.Second) / p.Rate
		next = next.Add(time.Duration(mean * (0.5 + rand.Float64())))
	}
	return nil
}

// keepDepth enqueues as many jobs as were handled.
func (p *producer) keepDepth(ctx context.Context, stop <-chan struct{}) error {
	handled, err := openCounter(p.Counter)
	if err != nil {
		return err
	}
	for sent := 0; ; {
		select {
		case <-stop:
			return nil
		default:
		}
		n := min(int(handled.Load())-sent, p.Batch)
		if n < p.Batch/10 {
			time.Sleep(time.Millisecond)
			continue
		}
		if err := p.batch(ctx, sent, sent+n); err != nil {
			return err
		}
		sent += n
	}
}

// quantiles adds those of nanoseconds, in milliseconds.
func quantiles(metrics map[string]float64, ns []int64) {
	if len(ns) == 0 {
		return
	}
	slices.Sort(ns)
	ms := make([]float64, len(ns))
	for i, v := range ns {
		ms[i] = float64(v) / 1e6
	}
	metrics["p50 ms"], metrics["p99 ms"], metrics["max ms"] = report.Quantile(ms, 0.5), report.Quantile(ms, 0.99), ms[len(ms)-1]
}

type worker struct {
	task
	system system.System

	started counter
	handled atomic.Int64
	twice   atomic.Int64
	seen    []atomic.Bool
	lag     []int64
	shares  [3]atomic.Int64
	first   atomic.Int64 // when the first handler began, Unix nanoseconds
	last    atomic.Int64 // when the last handler ended
	done    chan struct{}
}

func (w *worker) run(ctx context.Context, ready func(), stop <-chan struct{}) (_ map[string]float64, err error) {
	w.seen, w.lag = make([]atomic.Bool, w.Jobs), make([]int64, w.Jobs)
	if w.Counter != "" {
		if w.started, err = openCounter(w.Counter); err != nil {
			return nil, err
		}
	}
	if w.Preload {
		p := producer{task: w.task, system: w.system}
		if err := p.inBatches(ctx); err != nil {
			return nil, err
		}
	}
	var end func() error
	if w.Early {
		if end, err = w.system.Work(ctx, w.handle); err != nil {
			return nil, err
		}
	}
	ready()
	m := startMeter()
	if !w.Early {
		if end, err = w.system.Work(ctx, w.handle); err != nil {
			return nil, err
		}
	}
	metrics := map[string]float64{}
	switch {
	case w.Span > 0:
		w.watch(metrics, m.at)
	case w.Jobs > 0:
		select {
		case <-w.done:
		case <-stop:
			return nil, errors.New("stopped before all jobs were handled")
		case <-time.After(w.Timeout):
			return nil, fmt.Errorf("%d of %d jobs were handled within %v", w.handled.Load(), w.Jobs, w.Timeout)
		}
	default:
		<-stop
	}
	wall, asked := time.Unix(0, w.last.Load()).Sub(m.at), time.Now()
	if err := end(); err != nil {
		return nil, err
	}
	metrics["overtime"] = max(float64(time.Now().UnixNano()-max(w.last.Load(), asked.UnixNano()))/1e6, 0)
	metrics["wall"], metrics["handled"], metrics["handled twice"] = wall.Seconds(), float64(w.handled.Load()), float64(w.twice.Load())
	metrics["first"], metrics["last"] = float64(w.first.Load())/1e9, float64(w.last.Load())/1e9
	metrics["cpu"], metrics["allocs"] = m.read()
	if w.Latency {
		quantiles(metrics, w.lag)
	}
	if n := w.shares[0].Load() + w.shares[1].Load() + w.shares[2].Load(); n > 0 {
		for q, weight := range []string{"6", "3", "1"} {
			metrics["first 30 %: weight "+weight+" %"] = 100 * float64(w.shares[q].Load()) / float64(n)
		}
	}
	left, err := w.system.Left(ctx)
	if err == nil && left > 0 && w.Jobs > 0 {
		err = fmt.Errorf("%d jobs are left in the store after all were handled", left)
	}
	return metrics, err
}

var kept = []byte(`{"ok":"` + strconv.Itoa(1e9) + `"}`)

func (w *worker) handle(ctx context.Context, p []byte, failures int) ([]byte, error) {
	n, at := parsePayload(p)
	if w.FailOnce && failures == 0 {
		return nil, system.ErrFail
	}
	now := time.Now().UnixNano()
	w.first.CompareAndSwap(0, now)
	if w.started.Int64 != nil {
		w.started.Add(1)
	}
	if w.Hold > 0 {
		t := time.NewTimer(w.Hold)
		select {
		case <-t.C:
		case <-ctx.Done():
		}
		t.Stop()
		w.last.Store(time.Now().UnixNano())
	}
	if n < len(w.seen) {
		if w.seen[n].Swap(true) {
			w.twice.Add(1)
			return nil, nil
		}
		w.lag[n] = now - at
	}
	handled := int(w.handled.Add(1))
	if w.Shares && handled*10 <= w.Jobs*3 {
		w.shares[n%3].Add(1)
	}
	if handled == w.Jobs {
		w.last.Store(time.Now().UnixNano())
		close(w.done)
	}
	if w.Keep > 0 {
		return kept, nil
	}
	return nil, nil
}

// watch waits for the span and notes the speed, also of its first and last tenth.
func (w *worker) watch(metrics map[string]float64, began time.Time) {
	var counts [11]float64
	for i := range counts {
		time.Sleep(time.Until(began.Add(w.Span * time.Duration(i) / 10)))
		counts[i] = float64(w.handled.Load())
	}
	tenth := w.Span.Seconds() / 10
	metrics["jobs/s"] = counts[10] / w.Span.Seconds()
	metrics["jobs/s, first tenth"], metrics["jobs/s, last tenth"] = counts[1]/tenth, (counts[10]-counts[9])/tenth
	if counts[1] > 0 {
		metrics["kept of the first tenth"] = (counts[10] - counts[9]) / counts[1]
	}
}
