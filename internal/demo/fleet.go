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
	"github.com/seed81422ce9/jobs/broker"
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
		luck := rand.Float64()
		if luck < d.cfg.Hang {
			<-ctx.Done()
			if errors.Is(context.Cause(ctx), jobs.ErrTimeout) {
				d.ledger.change(func(t *Totals) { t.Hung++ })
			}
			return context.Cause(ctx)
		}
		select {
		case <-time.After(k.takes/2 + rand.N(k.takes)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if luck < d.cfg.Hang+d.cfg.Fail {
			return k.fails(rand.N(10_000))
		}
		j.SetResult([]byte(`{"ok":true}`))
		return nil
	}
}

// hire starts a worker.
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
	w.server, err = jobs.NewServer(newCable(d.cfg.Broker, d.ledger, cut, w.known), jobs.Config{
		Queues: queues, Concurrency: slots, Lease: d.cfg.Lease, RetryPolicy: jobs.Exponential(time.Second, 10*time.Second),
		ShutdownTimeout: time.Second, Program: w.name, Logger: slog.New(slog.DiscardHandler),
		Hooks: jobs.Hooks{Reclaim: func(e jobs.ReclaimEvent) { d.reclaimed(w, e) }},
	})
	if err == nil {
		err = w.server.Start(mux)
	}
	if err != nil {
		kill()
		return nil, err
	}
	return w, nil
}

// crash kills the worker that has most to do, and hires another one in its
// place.
func (d *Demo) crash() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := 0
	for i := range d.workers {
		if d.workers[i].busy() > d.workers[at].busy() {
			at = i
		}
	}
	w := d.workers[at]
	held := w.running()
	w.kill()
	w.mu.Lock()
	d.killed = append(d.killed, w.ids...)
	w.mu.Unlock()
	d.ledger.change(func(t *Totals) { t.Crashes++ })
	d.ledger.tell(fmt.Sprintf("%s was killed, running %s; its lease of %v runs out", w.name, held, d.cfg.Lease))
	d.crashed = time.Now()
	d.corpses.Go(func() {
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		_ = w.server.Shutdown(gone) // it reaches the store no more
		_ = w.server.Shutdown(context.Background())
	})
	next, err := d.hire()
	if err == nil {
		d.workers[at] = next
	}
	return err
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

// reclaimed reports jobs that a worker reclaimed.
func (d *Demo) reclaimed(w *worker, e jobs.ReclaimEvent) {
	if len(e.Jobs) == 0 {
		return
	}
	d.ledger.change(func(t *Totals) { t.Reclaimed += len(e.Jobs) })
	d.mu.Lock()
	after := time.Since(d.crashed)
	d.mu.Unlock()
	d.ledger.tell(fmt.Sprintf("%s reclaimed %d jobs, %.1f s after the crash; they run again", w.name, len(e.Jobs), after.Seconds()))
}

// bury ends what the store still knows of workers that were killed: nobody is
// left to reclaim what they held.
func (d *Demo) bury(ctx context.Context) error {
	var errs []error
	for _, id := range d.killed {
		_, err := d.cfg.Broker.Retire(ctx, broker.RetireRequest{Worker: id, Queues: d.Queues()})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
