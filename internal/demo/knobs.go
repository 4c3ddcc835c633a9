package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed81422ce9/jobs"
)

// Knobs are what can be changed while a demo runs.
type Knobs struct {
	Rate       float64 // jobs a second, 0 to 5000
	Fail, Hang float64 // shares of the runs that do, 0 to 1, together at most 1
	Latency    float64 // how long runs take, as a multiple of the usual, 0 to 5
	Workers    int     // 0 to 100
}

const (
	maxRate    = 5000
	maxLatency = 5 // then the slowest runs still end before their timeout
	maxWorkers = 100
	maxBatch   = 1000 // jobs that one request enqueues
)

// Check says what is wrong with knobs, or nothing.
func (k Knobs) Check() error {
	within := func(v, high float64) bool { return v >= 0 && v <= high } // which NaN is not
	switch {
	case !within(k.Rate, maxRate):
		return fmt.Errorf("the rate must be 0 to %d jobs per second", maxRate)
	case !within(k.Fail, 1) || !within(k.Hang, 1) || k.Fail+k.Hang > 1:
		return errors.New("the shares of runs that fail and hang must be 0 to 1, and together at most 1")
	case !within(k.Latency, maxLatency):
		return fmt.Errorf("the latency must be 0 to %d times the usual", maxLatency)
	case k.Workers < 0 || k.Workers > maxWorkers:
		return fmt.Errorf("the number of workers must be 0 to %d", maxWorkers)
	}
	return nil
}

// Knobs are as they were set last.
func (d *Demo) Knobs() Knobs { return *d.knobs.Load() }

// Set turns the knobs. Workers that are too many end what they run first.
func (d *Demo) Set(k Knobs) error {
	if err := k.Check(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		return ErrEnded
	}
	before := d.Knobs()
	d.knobs.Store(&k)
	if k != before {
		d.ledger.tell(fmt.Sprintf("you set: %g jobs/s, %d workers, latency ×%g, %g %% fail, %g %% hang",
			k.Rate, k.Workers, k.Latency, 100*k.Fail, 100*k.Hang))
	}
	return d.staff(k.Workers)
}

// Kinds are the types of the demo's jobs.
func Kinds() []string {
	var types []string
	for _, k := range kinds {
		types = append(types, k.typ)
	}
	return types
}

// Enqueue enqueues n jobs of a type now, 1 to 1000.
func (d *Demo) Enqueue(ctx context.Context, typ string, n int) error {
	at := slices.IndexFunc(kinds, func(k kind) bool { return k.typ == typ })
	switch {
	case at < 0:
		return fmt.Errorf("the type must be one of %s", strings.Join(Kinds(), ", "))
	case n < 1 || n > maxBatch:
		return fmt.Errorf("the number of jobs must be 1 to %d", maxBatch)
	}
	d.mu.Lock()
	defer d.mu.Unlock() // Stop closes the client
	if d.ended {
		return ErrEnded
	}
	tasks := make([]*jobs.Task, n)
	for i := range tasks {
		tasks[i] = d.task(kinds[at], int(d.number.Add(1)))
	}
	d.ledger.tell(fmt.Sprintf("you enqueued %d %s", n, typ))
	return d.enqueue(ctx, tasks)
}

// staff hires workers, or lets some go, until there are n. Its caller holds the
// lock, unless the demo is only starting.
func (d *Demo) staff(n int) error {
	for len(d.workers) < n {
		w, err := d.hire()
		if err != nil {
			return err
		}
		d.workers = append(d.workers, w)
	}
	for len(d.workers) > n {
		w := d.workers[len(d.workers)-1]
		d.workers = d.workers[:len(d.workers)-1]
		d.corpses.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 2*runTimeout)
			defer cancel()
			_ = w.server.Shutdown(ctx) // what it does not finish goes back to its queue
			w.kill()
		})
	}
	return nil
}

// Usual are knobs to begin with.
func Usual() Knobs { return Knobs{Rate: 20, Fail: 0.15, Hang: 0.02, Latency: 1, Workers: 3} }
