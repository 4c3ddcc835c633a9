package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

// measurement measures a store through package jobs, as an application uses it.
type measurement struct {
	plan
	broker  broker.Broker
	app     *app
	payload []byte
	filled  int // jobs that are waiting for drain
}

const (
	benchType  = "bench"
	benchBatch = 1000 // jobs in one call
)

func (m *measurement) task() *jobs.Task { return jobs.NewTask(benchType, m.payload) }

// speed returns the figure for n jobs in a time.
func speed(measure string, n int, took time.Duration) figure {
	return figure{Measure: measure, Jobs: n, Seconds: took.Seconds(), PerSecond: float64(n) / took.Seconds()}
}

// batches measures how fast batches of jobs are enqueued.
func (m *measurement) batches(ctx context.Context) (figure, error) {
	client := jobs.NewClient(m.broker, jobs.ClientConfig{})
	defer client.Close()
	shown := m.app.progress("enqueue in batches", m.jobs)
	defer shown.end()
	tasks := make([]*jobs.Task, min(m.jobs, benchBatch))
	for i := range tasks {
		tasks[i] = m.task()
	}
	began := time.Now()
	for done := 0; done < m.jobs; {
		n := min(len(tasks), m.jobs-done)
		if _, err := client.EnqueueMany(ctx, tasks[:n], jobs.WithQueue(m.queue)); err != nil {
			return figure{}, err
		}
		done += n
		shown.at(done)
	}
	m.filled += m.jobs
	return speed("enqueue in batches", m.jobs, time.Since(began)), nil
}

// singles measures how fast many callers enqueue jobs one by one.
func (m *measurement) singles(ctx context.Context) (figure, error) {
	client := jobs.NewClient(m.broker, jobs.ClientConfig{})
	defer client.Close()
	shown := m.app.progress("enqueue one by one", m.jobs)
	defer shown.end()
	var next atomic.Int64
	took := make([]time.Duration, m.jobs)
	errs := make(chan error, m.callers)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	began := time.Now()
	var callers sync.WaitGroup
	for range m.callers {
		callers.Go(func() {
			for {
				n := int(next.Add(1))
				if n > m.jobs {
					return
				}
				sent := time.Now()
				if _, err := client.Enqueue(ctx, m.task(), jobs.WithQueue(m.queue)); err != nil {
					errs <- err
					cancel()
					return
				}
				took[n-1] = time.Since(sent)
				if n%1000 == 0 {
					shown.at(n)
				}
			}
		})
	}
	callers.Wait()
	wall := time.Since(began)
	select {
	case err := <-errs:
		return figure{}, err
	default:
	}
	m.filled += m.jobs
	f := speed("enqueue one by one", m.jobs, wall)
	f.Latency = spread(took)
	return f, nil
}

// serve runs a server while f runs.
func (m *measurement) serve(ctx context.Context, h jobs.HandlerFunc, f func() error) error {
	server, err := jobs.NewServer(m.broker, jobs.Config{Concurrency: m.slots, Queues: map[string]int{m.queue: 1},
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	if err := server.Start(context.Background(), h); err != nil {
		return err
	}
	err = f()
	return errors.Join(err, server.Shutdown(context.WithoutCancel(ctx)))
}

// drain measures how fast a server handles the waiting jobs.
func (m *measurement) drain(ctx context.Context) (f figure, err error) {
	shown := m.app.progress("drain", m.filled)
	defer shown.end()
	var handled atomic.Int64
	all := make(chan time.Time, 1)
	began := time.Now()
	err = m.serve(ctx, func(context.Context, *jobs.Job) error {
		if int(handled.Add(1)) == m.filled {
			all <- time.Now()
		}
		return nil
	}, func() error {
		look := time.NewTicker(100 * time.Millisecond)
		defer look.Stop()
		for {
			select {
			case at := <-all:
				f = speed("drain", m.filled, at.Sub(began))
				return nil
			case <-look.C:
				shown.at(int(handled.Load()))
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	})
	return f, err
}

// pickupPatience is how long the benchmark waits for a job to reach an idle worker.
const pickupPatience = 10 * time.Second

// pickup measures how long single jobs take to reach an idle worker.
func (m *measurement) pickup(ctx context.Context) (figure, error) {
	client := jobs.NewClient(m.broker, jobs.ClientConfig{})
	defer client.Close()
	shown := m.app.progress("pickup", m.pickups)
	defer shown.end()
	begun := make(chan time.Time, m.slots)
	took := make([]time.Duration, 0, m.pickups)
	var wall time.Duration
	err := m.serve(ctx, func(context.Context, *jobs.Job) error {
		begun <- time.Now()
		return nil
	}, func() error {
		began := time.Now()
		for n := range m.pickups + 1 { // the first is not counted: the worker is still starting
			sent := time.Now()
			if _, err := client.Enqueue(ctx, m.task(), jobs.WithQueue(m.queue)); err != nil {
				return err
			}
			select {
			case at := <-begun:
				if n > 0 {
					took = append(took, at.Sub(sent))
				}
			case <-time.After(pickupPatience):
				return fmt.Errorf("a job did not reach an idle worker within %v", pickupPatience)
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			shown.at(n)
		}
		wall = time.Since(began)
		return nil
	})
	return figure{Measure: "pickup", Jobs: len(took), Seconds: wall.Seconds(), Latency: spread(took)}, err
}

// spread sorts durations and returns their quantiles, in milliseconds.
func spread(took []time.Duration) *quantiles {
	if len(took) == 0 {
		return nil
	}
	slices.Sort(took)
	at := func(q float64) float64 {
		return float64(took[min(int(q*float64(len(took))), len(took)-1)]) / float64(time.Millisecond)
	}
	return &quantiles{P50: at(0.5), P95: at(0.95), P99: at(0.99), Max: at(1)}
}
