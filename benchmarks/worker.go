package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed81422ce9/jobs/benchmarks/system"
)

// worker handles jobs.
type worker struct {
	task
	system system.System

	started counter
	ahead   sync.Mutex
	handled atomic.Int64
	twice   atomic.Int64
	seen    []atomic.Bool
	lag     []int64
	shares  [3]atomic.Int64
	first   atomic.Int64 // when the first handler began, Unix nanoseconds
	last    atomic.Int64 // when the last handler ended
	done    chan struct{}
}

func (w *worker) run(ctx context.Context, ready func(), stop <-chan struct{}) (_ metrics, err error) {
	w.seen, w.lag = make([]atomic.Bool, w.Jobs), make([]int64, w.Jobs)
	if w.Counter != "" {
		if w.started, err = openCounter(w.Counter); err != nil {
			return nil, err
		}
	}
	own := producer{task: w.task, system: w.system}
	if w.Preload {
		own.Jobs = max(w.Jobs, w.Depth)
		if err := own.inBatches(ctx); err != nil {
			return nil, err
		}
	}
	var end func() error
	if w.Early {
		if end, err = w.workAll(ctx); err != nil {
			return nil, err
		}
	}
	ready()
	m := startMeter()
	if !w.Early {
		if end, err = w.workAll(ctx); err != nil {
			return nil, err
		}
	}
	if w.Depth > 0 {
		full, failed := make(chan struct{}), make(chan error, 1)
		go func() { failed <- own.keepDepth(ctx, full) }()
		defer func() {
			close(full)
			err = errors.Join(err, <-failed)
		}()
	}
	got := metrics{}
	switch {
	case w.Span > 0:
		w.watch(got, m.at)
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
	got["overtime"] = max(float64(time.Now().UnixNano()-max(w.last.Load(), asked.UnixNano()))/1e6, 0)
	got["wall"], got["handled"], got["handled twice"] = wall.Seconds(), float64(w.handled.Load()), float64(w.twice.Load())
	got["first"], got["last"] = float64(w.first.Load())/1e9, float64(w.last.Load())/1e9
	got["cpu"], got["allocs"] = m.read()
	if w.Latency {
		quantiles(got, "", w.lag)
	}
	if t, ok := w.system.(system.ClaimTimer); ok {
		quantiles(got, "claim ", t.ClaimsTook())
	}
	if n := w.shares[0].Load() + w.shares[1].Load() + w.shares[2].Load(); n > 0 {
		for q, weight := range []string{"6", "3", "1"} {
			got["first 30 %: weight "+weight+" %"] = 100 * float64(w.shares[q].Load()) / float64(n)
		}
	}
	left, err := w.system.Left(ctx)
	if err == nil && left > 0 && w.Jobs > 0 && !w.Beside {
		err = fmt.Errorf("%d jobs are left in the store after all were handled", left)
	}
	return got, err
}

// kept is the result of jobs that keep one.
var kept = []byte(`{"ok":true}`)

func (w *worker) handle(ctx context.Context, p []byte, failures int) ([]byte, error) {
	n, at := parsePayload(p)
	if w.Beside && at == 0 {
		return nil, nil
	}
	if w.FailOnce && failures == 0 {
		return nil, system.ErrFail
	}
	now := time.Now().UnixNano()
	w.first.CompareAndSwap(0, now)
	if w.started.Int64 != nil {
		w.started.Add(1)
		w.keepDepth(ctx)
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

// mostMissing is how many jobs a queue of constant depth may lack. Without that limit
// a worker that is faster than the producer would empty the queue.
const mostMissing = 2000

// keepDepth delays a handler while too many jobs are missing.
func (w *worker) keepDepth(ctx context.Context) {
	if !w.Replaced || w.started.Load() <= mostMissing {
		return
	}
	w.ahead.Lock()
	defer w.ahead.Unlock()
	for w.started.Load() > mostMissing && ctx.Err() == nil {
		time.Sleep(500 * time.Microsecond)
	}
}

// watch waits for the span and records the throughput of all of it, and of its first
// and last tenth.
func (w *worker) watch(got metrics, began time.Time) {
	var counts [11]float64
	for i := range counts {
		time.Sleep(time.Until(began.Add(w.Span * time.Duration(i) / 10)))
		counts[i] = float64(w.handled.Load())
	}
	tenth := w.Span.Seconds() / 10
	got["jobs/s"] = counts[10] / w.Span.Seconds()
	got["jobs/s, first tenth"], got["jobs/s, last tenth"] = counts[1]/tenth, (counts[10]-counts[9])/tenth
	if counts[1] > 0 {
		got["kept of the first tenth"] = (counts[10] - counts[9]) / counts[1]
	}
}
