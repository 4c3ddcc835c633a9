package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/seed81422ce9/jobs/benchmarks/report"
	"github.com/seed81422ce9/jobs/benchmarks/store"
	"github.com/seed81422ce9/jobs/benchmarks/system"
)

// harness measures workloads, one system after another.
type harness struct {
	stores  map[string]store.Store
	out     io.Writer // for lines of results
	env     report.Env
	scale   float64
	profile string // directory for profiles
	dir     string // for the data of servers
	tmp     string
}

// run runs one system in a workload. Its methods end the round with check if anything
// fails.
type run struct {
	*harness
	ctx   context.Context // of the round
	work  *workload
	kind  system.Kind
	store store.Store // nil for memory and file
	setup system.Setup
	jobs  int
	round int
	kids  []*child
	fault error // error of a round, after which there is no other
}

// roundTimeout ends a round that hangs.
const roundTimeout = 20 * time.Minute

func logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

func (h *harness) write(l report.Line) error { return json.NewEncoder(h.out).Encode(l) }

// workload measures w as planned. Lines written before an error are valid, but the
// workload is then incomplete.
func (h *harness) workload(ctx context.Context, w *workload, p report.Planned) error {
	logf("%s on %s: %s", w.name, w.store, w.about)
	var runs []*run
	for _, name := range p.Systems {
		k, err := system.Find(name)
		if err != nil {
			return err
		}
		r := &run{harness: h, work: w, kind: k, store: h.stores[w.store], jobs: w.size(k, h.scale)}
		r.setup = system.Setup{URL: "memory://", Workload: w.name, Handlers: handlers, Queues: w.queues, Policy: w.policy}
		if w.workers > 0 {
			r.setup.Handlers = sizes.handlers
		}
		if w.once != nil && w.store == "redis" {
			// On one server, a system would reuse memory that another has freed, and their jobs would be mixed there.
			own, err := store.Start(ctx, w.store, h.dir, 0)
			if err != nil {
				return err
			}
			defer own.Stop()
			r.store = own
		}
		runs = append(runs, r)
		defer r.drop(context.WithoutCancel(ctx))
		if w.once != nil {
			r.fault = r.attempt(ctx, func() {
				r.empty()
				w.once(r)
			})
		}
	}
	for round := range p.Rounds {
		for i := range runs {
			r := runs[i]
			if round%2 == 1 {
				r = runs[len(runs)-1-i]
			}
			r.round = round
			rec := report.Record{Run: h.env.Run, Workload: w.name, Store: w.store, System: r.kind.Name, Round: round, Jobs: r.jobs}
			if r.fault == nil {
				r.fault = r.attempt(ctx, func() {
					if w.once == nil {
						r.empty()
					}
					rec.Metrics = w.measure(r)
				})
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if r.fault != nil {
				rec.Metrics, rec.Error = nil, r.fault.Error()
			}
			if w.once == nil {
				r.drop(ctx) // so that the store has no work with it during the next system's round
			}
			logf("  %d/%d %-14s %s", round+1, p.Rounds, r.kind.Name, rec.Summary())
			if err := h.write(report.Line{Record: &rec}); err != nil {
				return err
			}
		}
	}
	return nil
}

// failure is what check panics with.
type failure struct{ error }

// check ends the round if there is an error.
func (r *run) check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// attempt calls f with a timeout, returns the error that check found, and ends the
// remaining processes.
func (r *run) attempt(ctx context.Context, f func()) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, roundTimeout, fmt.Errorf("not done within %v", roundTimeout))
	defer cancel()
	r.ctx = ctx
	defer func() {
		for _, c := range r.kids {
			c.kill()
		}
		r.kids = nil
		if p := recover(); p != nil {
			f, ok := p.(failure)
			if !ok {
				panic(p)
			}
			err = f.error
		}
	}()
	f()
	return nil
}

func (r *run) space() string { return "bench_" + r.kind.Name }

// empty gives the system an empty space with its tables.
func (r *run) empty() {
	if r.kind.Store == "file" {
		r.check(r.removeFile())
		r.setup.URL = "file:" + r.file()
	}
	if r.store == nil {
		return
	}
	url, err := r.store.Empty(r.ctx, r.space())
	r.check(err)
	r.setup.URL = url
	r.play(task{Role: "prepare"})
}

// drop removes the system's space. If that fails, the space ends with the server.
func (r *run) drop(ctx context.Context) {
	if r.kind.Store == "file" {
		if err := r.removeFile(); err != nil {
			logf("  %v", err)
		}
	}
	if r.store != nil {
		if err := r.store.Drop(ctx, r.space()); err != nil {
			logf("  %s was not removed: %v", r.space(), err)
		}
	}
}

// file returns the file of a store without a server. It is on the disk with the data
// of the servers.
func (r *run) file() string {
	return filepath.Join(cmp.Or(r.dir, os.TempDir()), fmt.Sprintf("%s-%d.db", r.space(), os.Getpid()))
}

func (r *run) removeFile() error {
	if err := os.Remove(r.file()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// spawn starts a process of the run's system.
func (r *run) spawn(t task) *child {
	t.System, t.Setup, t.Timeout = r.kind.Name, r.setup, roundTimeout/2
	if t.Role == "work" {
		t.Workers = r.work.workers
	}
	if r.profile != "" {
		t.Profile = filepath.Join(r.profile, fmt.Sprintf("%s-%s-%s-%d.pprof", r.work.name, r.kind.Name, t.Role, r.round))
	}
	c, err := spawn(r.ctx, t)
	r.check(err)
	r.kids = append(r.kids, c)
	return c
}

func (r *run) result(c *child) metrics {
	a, err := c.answer(r.ctx)
	r.check(err)
	return a.Metrics
}

// play runs a process in a role that is not measured.
func (r *run) play(t task) {
	t.System, t.Setup, t.Timeout = r.kind.Name, r.setup, roundTimeout/2
	c, err := spawn(r.ctx, t)
	r.check(err)
	defer c.kill()
	r.check(c.tell("begin"))
	r.result(c)
}

// fill enqueues n jobs as fast as the system can.
func (r *run) fill(t task, n int) {
	t.Role, t.Jobs, t.Batch, t.Callers = "produce", n, 1000, singly
	r.play(t)
	r.check(r.store.Calm(r.ctx))
}

func (r *run) use() store.Use {
	if r.store == nil {
		return store.Use{} // no server to measure
	}
	u, err := r.store.Use(r.ctx)
	r.check(err)
	return u
}

func (r *run) bytes() int64 {
	n, err := r.store.Bytes(r.ctx, r.space())
	r.check(err)
	return n
}

// storeCost adds to m what the store has used per job since before.
func (r *run) storeCost(m metrics, before store.Use, jobs float64) {
	if r.store != nil {
		m["store µs/job"] = (r.use().CPU - before.CPU).Seconds() * 1e6 / jobs
	}
}

// cost adds to m what a process has used per job.
func (r *run) cost(m metrics, role string, of metrics, jobs float64) {
	m[role+" µs/job"] = of["cpu"] * 1e6 / jobs
	m[role+" allocs/job"] = of["allocs"] / jobs
}

// counter makes a new shared counter and returns its path.
func (r *run) counter() (string, counter) {
	path := filepath.Join(r.tmp, fmt.Sprintf("%s-%s-%d", r.work.name, r.kind.Name, r.round))
	c, err := openCounter(path)
	r.check(err)
	c.Store(0)
	return path, c
}

// span returns d scaled as the run is, at least a second.
func (r *run) span(d time.Duration) time.Duration {
	return max(time.Duration(float64(d)*r.scale), time.Second)
}

// scaled returns n times scale, but not below 100 unless n is.
func scaled(n int, scale float64) int { return max(int(float64(n)*scale), min(n, 100)) }
