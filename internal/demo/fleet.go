package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/internal/sleep"
)

// worker is a server of its own, as if it were a process on another machine.
type worker struct {
	name   string
	server *jobs.Server
	kill   context.CancelFunc // cuts its cable

	mu   sync.Mutex
	runs map[string]string // what its handlers are at: ID to type
	ids  []string          // under which the store knows it
}

// handle pretends to work.
func (d *Demo) handle(w *worker, k kind) jobs.HandlerFunc {
	return func(ctx context.Context, j *jobs.Job) error {
		w.mu.Lock()
		w.runs[j.ID()] = k.typ
		w.mu.Unlock()
		defer func() {
			w.mu.Lock()
			delete(w.runs, j.ID())
			w.mu.Unlock()
		}()
		luck, knobs := rand.Float64(), d.Knobs()
		if luck < knobs.Hang {
			<-ctx.Done()
			if errors.Is(context.Cause(ctx), jobs.ErrTimeout) {
				d.ledger.change(func(t *Totals) { t.Hung++ })
				d.ledger.tellOnce("hung", fmt.Sprintf("first run that hung: its timeout of %v ended it", runTimeout))
			}
			return context.Cause(ctx)
		}
		if sleep.For(ctx, time.Duration(knobs.Latency*float64(k.takes/2+rand.N(k.takes)))) != nil {
			return context.Cause(ctx)
		}
		if luck < knobs.Hang+knobs.Fail {
			d.ledger.tellOnce("failed", "first run that failed: "+k.typ+" runs again later, and is dead after too many failures")
			return k.fails(rand.N(10_000))
		}
		j.SetResult([]byte(`{"ok":true}`))
		return nil
	}
}

func (d *Demo) hire() (*worker, error) {
	d.hired++
	cut, kill := context.WithCancel(context.Background())
	w := &worker{name: fmt.Sprintf("worker-%d", d.hired), kill: kill, runs: make(map[string]string)}
	mux := jobs.NewServeMux()
	for _, k := range kinds {
		mux.HandleFunc(k.typ, d.handle(w, k))
	}
	queues := make(map[string]int)
	for name, weight := range weights {
		queues[d.cfg.Prefix+name] = weight
	}
	var err error
	w.server, err = jobs.NewServer(newCable(cut, d.cfg.Broker, d.ledger, w.known), jobs.Config{
		Queues: queues, Concurrency: slots, Lease: lease, RetryPolicy: jobs.Exponential(time.Second, 10*time.Second),
		ShutdownTimeout: time.Second, Program: w.name, Logger: slog.New(slog.DiscardHandler),
		Hooks: jobs.Hooks{Reclaim: func(e jobs.ReclaimEvent) { d.reclaimed(w, e) }},
	})
	if err == nil {
		err = w.server.Start(context.Background(), mux)
	}
	if err != nil {
		kill()
		return nil, err
	}
	return w, nil
}

func (w *worker) known(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ids = append(w.ids, id)
}

// busy is how many jobs a worker runs.
func (w *worker) busy() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.runs)
}

// running names what a worker runs.
func (w *worker) running() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	counts := make(map[string]int)
	for _, typ := range w.runs {
		counts[typ]++
	}
	var parts []string
	for _, k := range kinds {
		if n := counts[k.typ]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, k.typ))
		}
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}
