package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

type metrics = map[string]float64

// roles measures processes that begin at the same time, after the jobs of fill were
// enqueued.
func roles(fill *task, tasks ...task) func(*run) metrics {
	return func(r *run) metrics {
		if fill != nil {
			r.fill(*fill, r.jobs)
		}
		children := make([]*child, len(tasks))
		for i, t := range tasks {
			t.Jobs = r.jobs
			children[i] = r.spawn(t)
		}
		if due := tasks[0].RunAt; !due.IsZero() {
			if time.Until(due) < 0 {
				r.check(fmt.Errorf("the jobs were due before all was ready"))
			}
			time.Sleep(time.Until(due) - time.Second)
		}
		before, m := r.use(), metrics{}
		for _, c := range children {
			r.check(c.tell("begin"))
		}
		for i, c := range children {
			got := r.result(c)
			role := map[string]string{"work": "worker", "produce": "producer"}[tasks[i].Role]
			r.cost(m, role, got, float64(r.jobs))
			if role == "producer" && len(tasks) > 1 {
				continue // the worker reports the rest
			}
			if !tasks[i].Early {
				m["jobs/s"] = float64(r.jobs) / got["wall"]
			}
			for name, v := range got {
				if strings.HasSuffix(name, "ms") || strings.HasPrefix(name, "first 30") || name == "handled twice" {
					m[name] = v
				}
			}
			if !tasks[i].RunAt.IsZero() {
				m["until all handled s"] = got["max ms"] / 1000
			}
		}
		r.storeCost(m, before, float64(r.jobs))
		return m
	}
}

func enqueue(t task) func(*run) metrics {
	t.Role = "produce"
	return roles(nil, t)
}

// drain measures a worker that finds pending jobs.
func drain(fill, t task) func(*run) metrics {
	t.Role = "work"
	return roles(&fill, t)
}

// arrive measures how fast single jobs reach an idle worker.
func arrive(t task) func(*run) metrics {
	t.Role = "produce"
	return roles(nil, task{Role: "work", Early: true, Latency: true, Beside: t.Beside}, t)
}

// burst measures jobs that are due at the same time: a full second, since asynq's
// times are no finer.
func burst(r *run) metrics {
	// Long enough to enqueue them.
	due := time.Now().Add(time.Duration(4+r.jobs/20_000) * time.Second).Truncate(time.Second)
	return roles(&task{RunAt: due}, task{Role: "work", Early: true, Latency: true, RunAt: due})(r)
}

// size measures the space of waiting jobs and, where there is a log, the bytes that
// their whole life writes to it.
func size(delay time.Duration) func(*run) metrics {
	return func(r *run) metrics {
		var t task
		if delay > 0 {
			t.RunAt = time.Now().Add(delay)
		}
		before, empty := r.use(), r.bytes()
		r.fill(t, r.jobs)
		m := metrics{"bytes/job": float64(r.bytes()-empty) / float64(r.jobs)}
		if before.WAL > 0 {
			r.play(task{Role: "work", Jobs: r.jobs})
			m["WAL bytes/job"] = float64(r.use().WAL-before.WAL) / float64(r.jobs)
		}
		return m
	}
}

// deep fills a queue once.
func deep(depth int) func(*run) {
	return func(r *run) { r.fill(task{}, scaled(depth, r.scale)) }
}

// oldSnapshot fills a queue and leaves a transaction open with a snapshot of it, until
// the space is dropped.
func oldSnapshot(r *run) {
	deep(oldDepth)(r)
	conn, err := pgx.Connect(r.ctx, r.setup.URL)
	r.check(err)
	_, err = conn.Exec(context.WithoutCancel(r.ctx), "begin isolation level repeatable read; select count(*) from pg_class")
	r.check(err)
}

// finished leaves a million finished jobs behind.
func finished(r *run) {
	n := scaled(1_000_000, r.scale)
	r.fill(keep, n)
	r.play(task{Role: "work", Jobs: n, Keep: keep.Keep})
	if r.work.store != "postgres" {
		// A Redis hash that outgrows its table moves to a larger one, one step with each
		// access. A million entries and a round's jobs are more than 2^20, so that the
		// move would last for all rounds. These jobs complete it.
		warm := scaled(250_000, r.scale)
		r.fill(task{}, warm)
		r.play(task{Role: "work", Jobs: warm})
		return
	}
	conn, err := pgx.Connect(r.ctx, r.setup.URL)
	r.check(err)
	defer conn.Close(r.ctx)
	_, err = conn.Exec(r.ctx, "vacuum analyze") // autovacuum would do it some time later
	r.check(err)
}

// churn measures a queue whose depth stays the same.
func churn(depth int, span time.Duration) func(*run) metrics {
	return func(r *run) metrics {
		path, _ := r.counter()
		worker := r.spawn(task{Role: "work", Counter: path, Replaced: true, Span: r.span(span)})
		producer := r.spawn(task{Role: "produce", Counter: path, Depth: depth, Batch: 1000, Callers: singly})
		r.check(producer.tell("begin"))
		before := r.use()
		r.check(worker.tell("begin"))
		m := r.result(worker)
		handled := m["handled"]
		if handled == 0 {
			r.check(fmt.Errorf("no job was handled"))
		}
		r.cost(m, "worker", m, handled)
		r.storeCost(m, before, handled)
		r.check(producer.tell("stop"))
		r.result(producer)
		return m
	}
}

// churnOwn is churn for a store in the worker's process.
func churnOwn(depth int, span time.Duration) func(*run) metrics {
	return func(r *run) metrics {
		path, _ := r.counter()
		worker := r.spawn(task{Role: "work", Preload: true, Counter: path, Replaced: true, Depth: scaled(depth, r.scale), Batch: 1000,
			Span: r.span(span)})
		r.check(worker.tell("begin"))
		m := r.result(worker)
		r.cost(m, "worker", m, m["handled"])
		return m
	}
}

// usage returns what the store uses during span, in ms/s and calls/s.
func (r *run) usage(span time.Duration) (cpu, calls float64) {
	before := r.use()
	time.Sleep(span)
	after := r.use()
	return (after.CPU - before.CPU).Seconds() * 1000 / span.Seconds(), float64(after.Calls-before.Calls) / span.Seconds()
}

// background measures what a worker costs besides its handlers: renewing its leases,
// finding workers that died, and finding due jobs among many that are not.
func background(r *run) metrics {
	r.fill(task{RunAt: time.Now().Add(time.Hour)}, r.jobs)
	span := r.span(10 * time.Second)
	quiet, _ := r.usage(span)
	worker := busy(r, handlers, time.Hour)
	time.Sleep(span / 5) // leaves out the start of the worker
	cpu, calls := r.usage(span)
	worker.kill()
	return metrics{"store ms/s over empty": cpu - quiet, "store calls/s": calls}
}

// idle measures a worker without work, compared with the store without a worker. Some upkeep, such
// as that of the history, is done once a minute, so a shorter span would have all of it or none.
func idle(r *run) metrics {
	quiet, _ := r.usage(r.span(10 * time.Second))
	start, span := r.span(2*time.Second), r.span(time.Minute)
	whole := start + span + r.span(time.Second)
	worker := r.spawn(task{Role: "work", Early: true, Span: whole})
	time.Sleep(start) // leaves out the start of the worker
	r.check(worker.tell("begin"))
	cpu, calls := r.usage(span)
	got := r.result(worker)
	return metrics{"store ms/s over empty": cpu - quiet, "store calls/s": calls, "worker ms/s": got["cpu"] * 1000 / whole.Seconds()}
}

// busy enqueues n jobs, starts a worker and waits until all its handlers run.
func busy(r *run, n int, hold time.Duration) *child {
	r.fill(task{}, n)
	path, started := r.counter()
	worker := r.spawn(task{Role: "work", Counter: path, Hold: hold})
	r.check(worker.tell("begin"))
	for started.Load() < handlers {
		r.check(context.Cause(r.ctx))
		time.Sleep(time.Millisecond)
	}
	return worker
}

// shutdown measures how much longer a stop takes than the slowest handler.
func shutdown(r *run) metrics {
	worker := busy(r, r.jobs, 300*time.Millisecond)
	r.check(worker.tell("stop"))
	return metrics{"drain over slowest handler ms": r.result(worker)["overtime"]}
}

// crash measures how long the jobs of a worker that was killed wait.
func crash(r *run) metrics {
	victim := busy(r, r.jobs, time.Hour)
	heir := r.spawn(task{Role: "work", Jobs: r.jobs, Early: true})
	r.check(heir.tell("begin"))
	time.Sleep(time.Second) // lets both finish their start
	killed := float64(time.Now().UnixNano()) / 1e9
	victim.kill()
	got := r.result(heir)
	if got["first"] < killed {
		r.check(fmt.Errorf("a job was redelivered %.1f s before its worker was killed", killed-got["first"]))
	}
	return metrics{"until first redelivered s": got["first"] - killed, "until all redelivered s": got["last"] - killed}
}
