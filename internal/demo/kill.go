package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/readable"
)

// Kill is the end of a worker that was killed, and what became of its jobs.
type Kill struct {
	At        time.Time
	Worker    string
	Ran       string        // what its handlers were at
	Reclaimed int           // jobs that others have reclaimed from it
	By        string        // who reclaimed the first ones
	After     time.Duration // from the kill until then

	ids []string // under which the store knew it
}

var (
	// ErrNoWorker says that there is no worker to kill.
	ErrNoWorker = errors.New("no worker is left to kill")

	// ErrEnded says that the demo was stopped.
	ErrEnded = errors.New("the demo has ended")
)

// Kill kills the worker that has most to do, and hires another one in its
// place.
func (d *Demo) Kill() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.ended:
		return ErrEnded
	case len(d.workers) == 0:
		return ErrNoWorker
	}
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
	d.kills = append(d.kills, Kill{At: time.Now(), Worker: w.name, Ran: held, ids: slices.Clone(w.ids)})
	w.mu.Unlock()
	d.ledger.change(func(t *Totals) { t.Crashes++ })
	d.ledger.tell(fmt.Sprintf("%s was killed, running %s; its lease of %v runs out", w.name, held, lease))
	d.corpses.Go(func() {
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		_ = w.server.Shutdown(gone) // it reaches the store no more
		_ = w.server.Shutdown(context.Background())
	})
	next, err := d.hire()
	if err != nil {
		d.workers = slices.Delete(d.workers, at, at+1)
		return err
	}
	d.workers[at] = next
	return nil
}

// Kills are the workers that were killed, the first one first.
func (d *Demo) Kills() []Kill {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.kills)
}

// reclaimed reports jobs that a worker reclaimed.
func (d *Demo) reclaimed(w *worker, e jobs.ReclaimEvent) {
	if len(e.Jobs) == 0 {
		return
	}
	d.ledger.change(func(t *Totals) { t.Reclaimed += len(e.Jobs) })
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range e.Jobs {
		if k := d.killOf(&e.Jobs[i]); k != nil {
			if k.Reclaimed++; k.By == "" {
				k.By, k.After = w.name, time.Since(k.At)
			}
		}
	}
	if n := len(d.kills); n > 0 {
		d.ledger.tell(fmt.Sprintf("%s reclaimed %s, %.1f s after the crash, to run again", w.name, readable.Count(len(e.Jobs), "job"),
			time.Since(d.kills[n-1].At).Seconds()))
	}
}

// killOf is the kill after which a job was reclaimed: of the worker that its
// last error names. A job that had not started has no such error; the newest
// kill stands for it.
func (d *Demo) killOf(j *broker.Job) *Kill {
	for i := range d.kills {
		if slices.Contains(d.kills[i].ids, j.Errors.Last().Worker) {
			return &d.kills[i]
		}
	}
	if len(d.kills) == 0 {
		return nil
	}
	return &d.kills[len(d.kills)-1]
}

// bury ends what the store still knows of workers that were killed: nobody is
// left to reclaim what they held.
func (d *Demo) bury(ctx context.Context) error {
	var errs []error
	for _, k := range d.Kills() {
		for _, id := range k.ids {
			_, err := d.cfg.Broker.Retire(ctx, broker.RetireRequest{Worker: id, Queues: d.Queues()})
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
