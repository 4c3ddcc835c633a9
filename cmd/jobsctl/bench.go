package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"

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
	m := &measurement{plan: p, broker: b, app: a, payload: make([]byte, p.size)}
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
