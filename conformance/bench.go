package conformance

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Bench puts the same load on every backend, so that benchstat can compare them.
// Jobs have 200 bytes, come in batches and one by one, and use the store's clock.
func Bench(b *testing.B, newStore func(TB) *Store) {
	for _, batch := range []int{1, 100} {
		b.Run(fmt.Sprintf("Enqueue/batch=%d", batch), func(b *testing.B) { newBench(b, newStore).enqueue(batch) })
	}
	for _, workers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("ClaimAndSettle/workers=%d", workers), func(b *testing.B) { newBench(b, newStore).drain(workers) })
	}
	b.Run("Due/jobs=10000", func(b *testing.B) { newBench(b, newStore).due(10_000) })
	b.Run("Unique/contenders=8", func(b *testing.B) { newBench(b, newStore).unique(8) })
}

type bench struct {
	b    *testing.B
	ctx  context.Context
	open func() broker.Broker
	ids  atomic.Int64
	jobs atomic.Int64 // that the measured calls handled
}

const benchQueue = "bench"

func newBench(b *testing.B, newStore func(TB) *Store) *bench {
	store := newStore(b)
	b.ReportAllocs()
	return &bench{b: b, ctx: b.Context(), open: func() broker.Broker {
		handle := store.Open(b)
		b.Cleanup(func() { handle.Close() })
		return handle
	}}
}

var benchPayload = random(200)

// make returns n jobs with new IDs.
func (b *bench) make(n int) []broker.NewJob {
	jobs := make([]broker.NewJob, n)
	for i := range jobs {
		jobs[i] = broker.NewJob{Queue: benchQueue, ID: fmt.Sprintf("%020d", b.ids.Add(1)),
			Body: broker.Body{Type: "bench", Payload: benchPayload, Priority: broker.PriorityNormal}}
	}
	return jobs
}

func (b *bench) put(to broker.Broker, now time.Time, jobs []broker.NewJob) {
	receipts, err := to.Enqueue(b.ctx, broker.EnqueueRequest{Now: now, Jobs: jobs})
	for _, r := range receipts {
		if err == nil {
			err = r.Err
		}
	}
	if err != nil {
		b.b.Fatalf("Enqueue: %v", err)
	}
}

// report reports the jobs per second of the measured calls.
func (b *bench) report() {
	b.b.ReportMetric(float64(b.jobs.Load())/b.b.Elapsed().Seconds(), "jobs/s")
}

func (b *bench) enqueue(batch int) {
	to := b.open()
	for b.b.Loop() {
		b.put(to, time.Time{}, b.make(batch))
		b.jobs.Add(int64(batch))
	}
	b.report()
}

// drain measures workers that claim up to ten jobs at a time and settle them with
// the next claim, as servers do.
func (b *bench) drain(workers int) {
	const depth = 5000
	filler, handles := b.open(), []broker.Broker{b.open(), b.open()}
	var benchers []*bencher
	for i := range workers {
		w := &bencher{bench: b, b: handles[i%len(handles)], id: fmt.Sprint("w", i)}
		w.register(time.Time{})
		benchers = append(benchers, w)
	}
	for b.b.Loop() {
		b.b.StopTimer()
		for range depth / 500 {
			b.put(filler, time.Time{}, b.make(500))
		}
		var left atomic.Int64
		left.Store(depth)
		b.b.StartTimer()
		var wg sync.WaitGroup
		for _, w := range benchers {
			wg.Go(func() {
				for left.Load() > 0 && !b.b.Failed() {
					left.Add(-int64(w.turn(time.Time{}, 10)))
				}
				w.turn(time.Time{}, 0)
			})
		}
		wg.Wait()
		b.jobs.Add(depth)
	}
	b.report()
}

// due measures one worker that claims n jobs that fall due at one instant.
func (b *bench) due(n int) {
	to := b.open()
	w := &bencher{bench: b, b: to, id: "w"}
	now := starts[0]
	w.register(now)
	for b.b.Loop() {
		b.b.StopTimer()
		for range n / 1000 {
			jobs := b.make(1000)
			for i := range jobs {
				jobs[i].Delay = time.Second
			}
			b.put(to, now, jobs)
		}
		now = now.Add(time.Second)
		b.b.StartTimer()
		for left := n; left > 0 && !b.b.Failed(); {
			left -= w.turn(now, broker.MaxClaim)
		}
		w.turn(now, 0)
		b.jobs.Add(int64(n))
	}
	b.report()
}

// unique measures enqueues with one unique key, of which all but the first are refused.
func (b *bench) unique(contenders int) {
	handles := []broker.Broker{b.open(), b.open()}
	const each = 50
	for b.b.Loop() {
		var wg sync.WaitGroup
		for i := range contenders {
			wg.Go(func() {
				for range each {
					jobs := b.make(1)
					jobs[0].Body.Unique.Key = "contended"
					if _, err := handles[i%len(handles)].Enqueue(b.ctx, broker.EnqueueRequest{Jobs: jobs}); err != nil {
						b.b.Errorf("Enqueue: %v", err)
						return
					}
				}
			})
		}
		wg.Wait()
		b.jobs.Add(int64(contenders * each))
	}
	b.report()
}

// bencher is a worker of a benchmark.
type bencher struct {
	*bench
	b      broker.Broker
	id     string
	number int64
	held   []broker.Job
	items  []broker.Settlement
}

func (w *bencher) register(now time.Time) {
	_, err := w.b.Renew(w.ctx, broker.RenewRequest{Now: now, Worker: w.id, Queues: []string{benchQueue}, Lease: time.Hour, Register: true})
	if err != nil {
		w.bench.b.Fatalf("Renew: %v", err)
	}
}

// turn settles the jobs of the last call, claims up to n more, and returns their
// number.
func (w *bencher) turn(now time.Time, n int) int {
	req := broker.ClaimRequest{Now: now, Worker: w.id, Max: n, Queues: []broker.Share{{Queue: benchQueue, Max: n}}}
	w.items = w.items[:0]
	for i := range w.held {
		w.items = append(w.items, broker.Settlement{Job: &w.held[i], Outcome: broker.Complete(nil)})
	}
	if len(w.items) > 0 {
		w.number++
		req.Settle = broker.SettleRequest{Now: now, Worker: w.id, Number: w.number, Items: w.items}
	}
	got, err := w.b.Claim(w.ctx, req)
	if err == nil {
		err = got.SettleErr
	}
	for _, v := range got.Verdicts {
		if err == nil {
			err = v.Err
		}
	}
	if err != nil {
		w.bench.b.Errorf("Claim: %v", err)
	}
	w.held = got.Jobs
	return len(got.Jobs)
}
