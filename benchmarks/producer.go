package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed81422ce9/jobs/benchmarks/system"
)

// producer enqueues jobs.
type producer struct {
	task
	system system.System
}

func (p *producer) job(n int) system.Job {
	due := time.Now()
	j := system.Job{Unique: p.Unique, Keep: p.Keep, RunAt: p.RunAt}
	if p.Delay > 0 {
		// Spread over a second, so that due times differ.
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
	if p.Keys > 0 {
		j.Key = p.Key + strconv.Itoa(n%p.Keys)
	}
	if p.Untimed {
		due = time.Unix(0, 0)
	}
	j.Payload = payload(n, due)
	return j
}

func (p *producer) run(ctx context.Context, ready func(), stop <-chan struct{}) (metrics, error) {
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
	got := metrics{"wall": time.Since(m.at).Seconds()}
	got["cpu"], got["allocs"] = m.read()
	quantiles(got, "", took)
	return got, nil
}

// each enqueues the jobs from..to from n callers, one in a call, and returns how long
// each call took.
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

// batch enqueues the jobs from..to in one call. To prepare a system without such a
// call, it uses concurrent callers.
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

// keepDepth enqueues a job for each that was handled. When it is told to stop, it
// first enqueues those that are still missing.
func (p *producer) keepDepth(ctx context.Context, stop <-chan struct{}) error {
	missing, err := openCounter(p.Counter)
	if err != nil {
		return err
	}
	stopped := false
	for sent, least := 0, max(p.Batch/10, 1); ; {
		n := min(int(missing.Load()), p.Batch)
		if n >= least {
			if err := p.batch(ctx, sent, sent+n); err != nil {
				return err
			}
			missing.Add(int64(-n))
			sent += n
			continue
		}
		if stopped {
			return nil
		}
		select {
		case <-stop:
			stopped, least = true, 1
		case <-time.After(time.Millisecond):
		}
	}
}
