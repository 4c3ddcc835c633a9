package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

func (a *app) bench() *cobra.Command {
	var p plan
	var queue string
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure the speed of this store from here",
		Long: `Measure how fast jobs go into this store and out of it, with a client and a
server in this process. It uses its own queue and removes it at the end, also
after Ctrl-C. It creates load: do not run it on a busy production store.

  enqueue in batches   EnqueueMany, 1000 jobs per call
  enqueue one by one   --callers goroutines that call Enqueue
  drain                --concurrency handlers that do nothing
  pickup               from Enqueue until an idle worker's handler begins

If the command is killed, the queue stays. Remove it with "jobsctl delete --queue
NAME --state pending" and "jobsctl queues remove NAME".`,
		Example: "  jobsctl bench --jobs 50000 --size 1000 --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			p.queue = cmp.Or(queue, "bench-"+strings.ToLower(ulid.Make().String()))
			if err := p.check(); err != nil {
				return err
			}
			return a.runBench(cmd.Context(), p)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&queue, "queue", "q", "", "queue to use; it must not exist (default: a new name)")
	flags.IntVarP(&p.jobs, "jobs", "n", 10_000, "number of jobs of each enqueue test, up to 10 million")
	flags.IntVar(&p.size, "size", 200, "size of a payload in bytes")
	flags.IntVar(&p.callers, "callers", 64, "goroutines that enqueue one by one")
	flags.IntVar(&p.slots, "concurrency", 64, "number of handlers")
	flags.IntVar(&p.pickups, "pickups", 200, "number of jobs of the pickup test")
	return cmd
}

// plan is the configuration of a benchmark, by flags.
type plan struct {
	queue                               string
	jobs, size, callers, slots, pickups int
}

func (p plan) check() error {
	for _, f := range []struct {
		flag             string
		value, low, most int
	}{
		{"jobs", p.jobs, 1, 10_000_000},
		{"size", p.size, 0, maxInput},
		{"callers", p.callers, 1, 100_000},
		{"concurrency", p.slots, 1, 100_000},
		{"pickups", p.pickups, 1, 1_000_000},
	} {
		if f.value < f.low || f.value > f.most {
			return misuse("--%s is %d; use %d to %d", f.flag, f.value, f.low, f.most)
		}
	}
	return nil
}

// figure is one measurement as --json writes it.
type figure struct {
	Measure   string     `json:"measure"`
	Jobs      int        `json:"jobs"`
	Seconds   float64    `json:"seconds"`
	PerSecond float64    `json:"jobs_per_second,omitempty"`
	Latency   *quantiles `json:"latency_ms,omitempty"`
}

// quantiles are in milliseconds.
type quantiles struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func (a *app) runBench(ctx context.Context, p plan) (err error) {
	b, err := a.broker(ctx)
	if err != nil {
		return err
	}
	i := inspect.New(b)
	if _, err := i.Queue(ctx, p.queue); err == nil {
		return misuse("the queue %q exists; name one that does not", p.queue)
	} else if !errors.Is(err, broker.ErrNotFound) {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Minute) // even after an interruption
		defer cancel()
		err = errors.Join(err, removeWhole(ctx, i, p.queue))
	}()
	a.say("%d jobs of %d bytes, %d callers, %d handlers, through the queue %s", p.jobs, p.size, p.callers, p.slots, p.queue)
	m := &measurement{plan: p, broker: b, client: jobs.NewClient(b, jobs.ClientConfig{}), app: a, payload: make([]byte, p.size)}
	defer m.client.Close()
	for _, measure := range []func(context.Context) (figure, error){m.batches, m.singles, m.drain, m.pickup} {
		f, err := measure(ctx)
		if err != nil {
			return err
		}
		if err := a.answer(f, "%s", f); err != nil {
			return err
		}
	}
	return nil
}

func (f figure) String() string {
	s := fmt.Sprintf("%-19s", f.Measure)
	if f.PerSecond > 0 {
		took := time.Duration(f.Seconds * float64(time.Second))
		s += fmt.Sprintf(" %9s jobs/s  (%d in %s)", strconv.FormatFloat(f.PerSecond, 'f', 0, 64), f.Jobs, span(took))
	}
	if l := f.Latency; l != nil {
		s += fmt.Sprintf("  median %.2f ms, 95 %% %.2f ms, 99 %% %.2f ms, longest %.2f ms", l.P50, l.P95, l.P99, l.Max)
	}
	return s
}

// removeWhole deletes a queue that no worker serves any more, with its jobs.
func removeWhole(ctx context.Context, i *inspect.Inspector, queue string) (err error) {
	for _, state := range shown {
		if err == nil {
			_, err = i.Purge(ctx, queue, state)
		}
	}
	if err == nil {
		err = i.RemoveQueue(ctx, queue)
	}
	if err == nil || errors.Is(err, broker.ErrNotFound) {
		return nil
	}
	return fmt.Errorf("the queue %s was perhaps not removed: %w", queue, err)
}

// measurement measures a store through package jobs, as an application uses it.
type measurement struct {
	plan
	broker  broker.Broker
	client  *jobs.Client
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
	shown := m.app.progress("enqueue in batches", m.jobs)
	defer shown.end()
	tasks := make([]*jobs.Task, min(m.jobs, benchBatch))
	for i := range tasks {
		tasks[i] = m.task()
	}
	began := time.Now()
	for done := 0; done < m.jobs; {
		n := min(len(tasks), m.jobs-done)
		if _, err := m.client.EnqueueMany(ctx, tasks[:n], jobs.WithQueue(m.queue)); err != nil {
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
	shown := m.app.progress("enqueue one by one", m.jobs)
	defer shown.end()
	var next atomic.Int64
	took := make([]time.Duration, m.jobs)
	callers, ctx := errgroup.WithContext(ctx)
	began := time.Now()
	for range m.callers {
		callers.Go(func() error {
			for n := int(next.Add(1)); n <= m.jobs; n = int(next.Add(1)) {
				sent := time.Now()
				if _, err := m.client.Enqueue(ctx, m.task(), jobs.WithQueue(m.queue)); err != nil {
					return err
				}
				took[n-1] = time.Since(sent)
				if n%1000 == 0 {
					shown.at(n)
				}
			}
			return nil
		})
	}
	err := callers.Wait()
	wall := time.Since(began)
	if err != nil {
		return figure{}, err
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
			if _, err := m.client.Enqueue(ctx, m.task(), jobs.WithQueue(m.queue)); err != nil {
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
