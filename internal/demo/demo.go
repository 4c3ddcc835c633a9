package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/internal/sleep"
)

// Config says what a demo does.
type Config struct {
	Broker     broker.Broker
	Prefix     string        // of the names of its queues, which must not exist
	Knobs                    // at the start
	CrashEvery time.Duration // a worker is killed so often, the first after four seconds at most; zero means never
}

const (
	slots        = 4               // of a worker
	lease        = 2 * time.Second // after which the jobs of a worker that was killed run again
	idlePatience = 40              // quarters of a beat: one second
	firstCrash   = 4 * time.Second // so that who looks for ten seconds sees the reclaim too
)

// Demo is a load that runs. Its methods may be called from several goroutines.
type Demo struct {
	cfg       Config
	ledger    *ledger
	watched   *cable
	inspector *inspect.Inspector
	client    *jobs.Client
	knobs     atomic.Pointer[Knobs]
	number    atomic.Int64 // of the newest task

	mu      sync.Mutex
	workers []*worker
	kills   []Kill // the newest last
	hired   int
	ended   bool

	stop    context.CancelFunc
	loops   sync.WaitGroup
	corpses sync.WaitGroup // of workers that were killed
}

// ErrExists says that there is a queue already of a name that the demo uses.
var ErrExists = errors.New("the queue exists, and a demo uses none but its own")

// Start begins with the load. Stop ends it.
func Start(ctx context.Context, cfg Config) (*Demo, error) {
	l := newLedger()
	watched := newCable(context.Background(), cfg.Broker, l, nil)
	d := &Demo{cfg: cfg, ledger: l, watched: watched, inspector: inspect.New(watched), stop: func() {},
		client: jobs.NewClient(watched, jobs.ClientConfig{})}
	d.knobs.Store(&cfg.Knobs)
	found, err := d.inspector.Queues(ctx, d.Queues()...)
	if err == nil && len(found) > 0 {
		err = fmt.Errorf("%s: %w", found[0].Name, ErrExists)
	}
	for _, queue := range d.Queues() {
		if err == nil { // so that there is something to look at
			_, err = d.inspector.SetPolicy(ctx, inspect.PolicyRequest{Queue: queue,
				RetainCompleted: &inspect.Retention{Age: 10 * time.Minute, Count: 500}})
		}
	}
	if err != nil {
		d.client.Close()
		return nil, err
	}
	if err := d.staff(cfg.Workers); err != nil {
		_, _ = d.Stop(ctx) // the error is that of the worker
		return nil, err
	}
	l.tell(fmt.Sprintf("%d workers with %d slots each began to take jobs from 3 queues", cfg.Workers, slots))
	loops, stop := context.WithCancel(context.WithoutCancel(ctx))
	d.stop = stop
	d.loops.Go(func() { d.produce(loops) })
	if cfg.CrashEvery > 0 {
		d.loops.Go(func() { d.crashes(loops) })
	}
	return d, nil
}

// crashes kills a worker now and then until ctx ends.
func (d *Demo) crashes(ctx context.Context) {
	timer := time.NewTimer(min(firstCrash, d.cfg.CrashEvery))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			timer.Reset(d.cfg.CrashEvery)
			d.awaitRun(ctx)
			if err := d.Kill(); err != nil && !errors.Is(err, ErrNoWorker) {
				d.ledger.tell("no worker could be hired: " + err.Error())
			}
		}
	}
}

// awaitRun waits until a worker runs something, as the end of an idle one shows
// no reclaim, but not for ever: without load none may come.
func (d *Demo) awaitRun(ctx context.Context) {
	for range idlePatience {
		d.mu.Lock()
		busy := slices.ContainsFunc(d.workers, func(w *worker) bool { return w.busy() > 0 })
		d.mu.Unlock()
		if busy || sleep.For(ctx, beat/4) != nil {
			return
		}
	}
}

// Broker is for whoever watches and decides: it knows the demo's queues only,
// and what is decided through it is in the accounts.
func (d *Demo) Broker() broker.Broker { return scoped(d.watched, d.Queues()) }

// Queues are the names of the demo's queues.
func (d *Demo) Queues() []string {
	var names []string
	for name := range weights {
		names = append(names, d.cfg.Prefix+name)
	}
	slices.Sort(names)
	return names
}

// Totals says what has happened so far, and where the jobs are now.
func (d *Demo) Totals() Totals { return d.ledger.now() }

// Events are the latest events, the oldest first.
func (d *Demo) Events() []Event {
	d.ledger.mu.Lock()
	defer d.ledger.mu.Unlock()
	return slices.Clone(d.ledger.events)
}

// Accounts say where every job is.
type Accounts struct {
	Totals
	Left int // in the store, waiting to run
	DLQ  int // in the store, dead
	Lost int // in neither place, and nobody ended them
}

// Balanced reports whether every job that was accepted is somewhere.
func (a Accounts) Balanced() bool {
	return a.Lost == 0 && a.Enqueued == a.Done+a.Cancelled+a.Deleted+a.Left+a.DLQ
}

// Stop ends the load, drains the workers, and looks for every job.
func (d *Demo) Stop(ctx context.Context) (Accounts, error) {
	d.stop()
	d.loops.Wait()
	d.mu.Lock() // nobody turns a knob any more
	d.ended = true
	d.mu.Unlock()
	d.client.Close()
	var stopping sync.WaitGroup
	for _, w := range d.workers {
		stopping.Go(func() {
			_ = w.server.Shutdown(ctx) // what it does not finish goes back to its queue
			w.kill()
		})
	}
	stopping.Wait()
	d.corpses.Wait()
	if err := d.bury(ctx); err != nil {
		return Accounts{Totals: d.Totals()}, fmt.Errorf("ending the workers that were killed: %w", err)
	}
	return d.account(ctx)
}

// account looks for every job in the store.
func (d *Demo) account(ctx context.Context) (Accounts, error) {
	there := make(map[job]bool)
	for _, queue := range d.Queues() {
		for _, state := range broker.States() {
			for j, err := range d.inspector.Select(inspect.Query{Queue: queue, State: state, Suppressed: true, NoPayload: true}).Jobs(ctx) {
				if err != nil {
					return Accounts{Totals: d.Totals()}, fmt.Errorf("looking for every job: %w", err)
				}
				there[job{j.Queue, j.ID}] = true
			}
		}
	}
	d.ledger.mu.Lock()
	defer d.ledger.mu.Unlock()
	a := Accounts{Totals: d.ledger.balance()}
	for j, n := range d.ledger.open {
		switch {
		case n < 0: // the answer to its enqueue was lost, and balance has counted it
		case there[j]:
			a.Left++
		default:
			a.Lost++
		}
	}
	for j := range d.ledger.dead {
		if there[j] {
			a.DLQ++
		} else {
			a.Lost++
		}
	}
	return a, nil
}
