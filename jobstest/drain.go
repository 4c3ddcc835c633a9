package jobstest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/inline"
	"github.com/seed81422ce9/jobs/internal/parked"
	"github.com/seed81422ce9/jobs/schedule"
)

// DrainOption says what Drain runs, and how. Config is one.
type DrainOption interface{ drain(*drain) }

type drainFunc func(*drain)

func (f drainFunc) drain(d *drain) { f(d) }

func (cfg Config) drain(d *drain) { d.cfg = jobs.Config(cfg) }

// Ahead lets d pass by the store's clock, and runs the delayed jobs, retries and ticks
// of schedules that become due in that time, each at its time.
func Ahead(d time.Duration) DrainOption {
	return drainFunc(func(dr *drain) { dr.ahead, dr.whole = d, false })
}

// Everything lets time pass by the store's clock until no job is left: delayed jobs
// run, and failed jobs are retried until they complete or are dead. It does not wait
// for ticks of schedules, which never end, or for a workflow that has nothing to do
// within a day: one that waits for a signal, or for a longer Delay of a node without a
// Task. Use Ahead for these.
func Everything() DrainOption { return drainFunc(func(d *drain) { d.whole = true }) }

// Limit makes the test fail when Drain starts more than n runs. The default is 10000, which
// a job that enqueues itself exceeds soon.
func Limit(n int) DrainOption { return drainFunc(func(d *drain) { d.limit = n }) }

// NoFailures makes the test fail if a run fails, even if a later one succeeds.
func NoFailures() DrainOption { return drainFunc(func(d *drain) { d.noFailures = true }) }

const (
	defaultLimit = 10_000
	maxSteps     = 1_000_000      // bounds all runs, including those of the framework's jobs
	quietFor     = 24 * time.Hour // how far ahead Everything looks for the next step of a workflow
)

// Report says what Drain ran.
type Report struct {
	Runs      int // runs of the application's handlers; the next fields say how they ended
	Completed int
	Retried   int // after a failure
	Snoozed   int
	Dead      int // also if their deadline passed
	Cancelled int
	Lost      int // the lease was lost, or the job was released: it runs again
	// Passed is how far the store's clock was advanced.
	Passed time.Duration
	// Failures are the runs that failed, in order.
	Failures []Failure
}

// Failure is a run that failed.
type Failure struct {
	Queue, ID, Type string
	Attempt         int    // failures before this one
	Outcome         string // jobs.EndedRetried, jobs.EndedDead, …
	Class           string // see jobs.Classification
	Message         string
	Stack           string // after a panic
}

// String returns a line such as `email:welcome 01J… (attempt 0) retried: connection refused`.
func (f Failure) String() string {
	return fmt.Sprintf("%s %s (attempt %d) %s: %s", f.Type, f.ID, f.Attempt, f.Outcome, f.Message)
}

// Drain runs the jobs of the broker with h until none is due, one after the other,
// and returns what it ran. It also runs jobs that these enqueue, batches of
// HandleMany, and, with the extensions in Config, schedules and workflows. Each job
// runs as in a server, with its middleware and retry policies. A job that fails is
// retried later; Ahead and Everything let that time pass. A job that panics fails, as
// in production.
//
// The order is that of a server that handles one job at a time. Drain fails the test if the jobs do not
// end; see Limit. A Cleanup of the test can call it, too. Calls of Drain must not overlap.
func Drain(t testing.TB, b *Broker, h jobs.Handler, opts ...DrainOption) Report {
	t.Helper()
	d := &drain{t: t, b: b, h: h, limit: defaultLimit}
	for _, o := range opts {
		if o != nil {
			o.drain(d)
		}
	}
	switch {
	case b == nil:
		t.Fatal("jobstest: Drain: the broker is nil; use the one that New returned")
	case d.limit < 1:
		t.Fatalf("jobstest: Drain: Limit is %d; use 1 or more", d.limit)
	case d.ahead < 0:
		t.Fatalf("jobstest: Drain: Ahead is %v; use zero or more, time does not go back", d.ahead)
	}
	began := b.Now()
	d.run(began)
	d.report.Passed = b.Now().Sub(began)
	d.tellUnserved()
	if d.noFailures && len(d.report.Failures) > 0 {
		t.Errorf("%s failed, want none:%s", plural(len(d.report.Failures), "run"), d.failures())
	}
	return d.report
}

type drain struct {
	t          testing.TB
	b          *Broker
	h          jobs.Handler
	cfg        jobs.Config
	limit      int
	ahead      time.Duration
	whole      bool
	noFailures bool

	queues  map[string]int // the served queues
	runner  inline.Runner
	steps   int
	stepped time.Time // when the runner began to look for due jobs, the last time
	active  time.Time // when a job of the application ran last
	report  Report
	counts  map[string]int // runs, by type
}

// run runs the due jobs and advances the clock to the next ones.
func (d *drain) run(began time.Time) {
	d.t.Helper()
	d.active, d.counts = began, make(map[string]int)
	defer func() {
		if d.runner != nil {
			d.runner.Stop(lasting(d.t))
		}
	}()
	for {
		for grown := d.serve(); grown; grown = d.serve() {
			d.step()
		}
		next, ok := d.next(began)
		if !ok {
			break
		}
		d.b.advance(next.Sub(d.b.Now()))
		d.step()
	}
	if end := began.Add(d.ahead); d.ahead > 0 && !d.whole {
		d.b.advance(end.Sub(d.b.Now()))
	}
}

// serve starts a server of all queues, unless there is one, and reports whether it did.
func (d *drain) serve() (grown bool) {
	d.t.Helper()
	queues := d.cfg.Queues
	if queues == nil {
		queues = map[string]int{jobs.DefaultQueue: 1}
		for _, q := range d.look(nil) {
			if !broker.Reserved(q.Name) {
				queues[q.Name] = 1
			}
		}
	}
	if d.runner != nil && len(queues) == len(d.queues) {
		return false
	}
	cfg := forTest(d.t, d.cfg)
	cfg.Queues = queues
	cfg.Hooks = jobs.JoinHooks(cfg.Hooks, jobs.Hooks{Settle: d.settled})
	server, err := jobs.NewServer(d.b, cfg)
	if err != nil {
		d.t.Fatalf("jobstest: Drain: the server cannot be made: %v", err)
	}
	if d.runner != nil {
		d.runner.Stop(lasting(d.t))
	}
	if d.runner, err = inline.Start(lasting(d.t), server, d.h); err != nil {
		d.t.Fatalf("jobstest: Drain: %v", err)
	}
	d.queues = queues
	return true
}

// step runs the jobs that are due now.
func (d *drain) step() {
	d.t.Helper()
	failed := d.t.Failed()
	for more := true; more; {
		max := min(d.limit-d.report.Runs+1, 1000) // one more shows that there is no end
		d.stepped = d.b.Now()
		n, err := d.runner.Step(lasting(d.t), max)
		d.steps += n
		switch {
		case err != nil:
			d.t.Fatalf("jobstest: Drain: the broker failed: %v", err)
		case d.t.Failed() && !failed:
			d.t.FailNow() // on behalf of the handler, in the goroutine of the test
		case d.report.Runs > d.limit || d.steps >= maxSteps:
			d.t.Fatalf("Drain began %s and there is no end. Is there a job that enqueues itself, or one that is always snoozed?"+
				" If this many runs are right, use Limit.%s%s", plural(d.report.Runs, "run"), d.byType(), d.failures())
		}
		more = n >= max
	}
}

// next returns the next time to advance the clock to, when something becomes due. ok is false if Drain
// should end.
func (d *drain) next(began time.Time) (next time.Time, ok bool) {
	d.t.Helper()
	if !d.whole && d.ahead <= 0 {
		return next, false
	}
	reason := !d.whole
	at := func(due time.Time, isReason bool) { // a job can also have become due since the last look
		if !due.After(d.stepped) || !due.Before(parked.Until) {
			return
		}
		reason = reason || isReason
		if next.IsZero() || due.Before(next) {
			next = due
		}
	}
	waits := false // whether a job waits in a queue that is not paused
	for _, q := range d.look(d.runner.Queues()) {
		waits = waits || !q.Policy.Paused &&
			q.Counts[broker.StatePending]+q.Counts[broker.StateScheduled]+q.Counts[broker.StateRetry] > 0
		for _, w := range q.Workers { // the server reclaims a worker's jobs when its lease runs out
			if w.Held > 0 {
				at(w.Until, true)
			}
		}
	}
	at(d.runner.Due(), waits)
	for _, e := range d.cfg.Extensions {
		if e.Queue == "" {
			continue
		}
		for _, q := range d.look([]string{e.Queue}) {
			for _, due := range []time.Time{q.Oldest[broker.StateScheduled], q.Oldest[broker.StateRetry]} {
				at(due, q.Name != schedule.Queue && due.Sub(d.active) < quietFor)
			}
		}
	}
	return next, !next.IsZero() && reason && (d.whole || !next.After(began.Add(d.ahead)))
}

func (d *drain) look(names []string) []broker.QueueInfo {
	d.t.Helper()
	reply, err := d.b.plain.Queues(lasting(d.t), broker.QueuesRequest{Names: names, Workers: names != nil})
	if err != nil {
		d.t.Fatalf("jobstest: Drain: %v", err)
	}
	return reply.Queues
}

// tellUnserved logs queues that have jobs and are not among those of Config.
func (d *drain) tellUnserved() {
	d.t.Helper()
	served := d.runner.Queues()
	for _, q := range d.look(nil) {
		if n := q.Counts[broker.StatePending]; n > 0 && !slices.Contains(served, q.Name) && !broker.Reserved(q.Name) {
			d.t.Logf("Drain: queue %q has %s, and is not among the Queues of Config", q.Name, plural(int(n), "pending job"))
		}
	}
}

// settled counts the outcomes of the application's jobs.
func (d *drain) settled(e jobs.SettleEvent) {
	for i, v := range e.Verdicts {
		o, j := e.Items[i].Outcome, e.Items[i].Job
		if k := o.Kind(); k == broker.OutcomeKeep || k == broker.OutcomeCrash { // a crash was a run of another server
			continue
		}
		r := &d.report
		r.Runs++
		d.counts[j.Type]++
		d.active = d.b.Now()
		how := ended(o, v)
		switch how {
		case jobs.EndedCompleted:
			r.Completed++
		case jobs.EndedRetried:
			r.Retried++
		case jobs.EndedSnoozed:
			r.Snoozed++
		case jobs.EndedDead, jobs.EndedExpired:
			r.Dead++
		case jobs.EndedCancelled:
			r.Cancelled++
		default:
			r.Lost++
		}
		if f := o.Failure(); f != nil && how != jobs.EndedCancelled {
			r.Failures = append(r.Failures, Failure{Queue: j.Queue, ID: j.ID, Type: j.Type, Attempt: f.Attempt, Outcome: how,
				Class: f.Class, Message: f.Message, Stack: f.Stack})
		}
	}
}

const maxListed = 10 // lines of a list in a message

func (d *drain) failures() string {
	var lines []string
	for i, f := range d.report.Failures {
		if i == maxListed {
			lines = append(lines, fmt.Sprintf("and %d more", len(d.report.Failures)-i))
			break
		}
		line := shorten(f.String(), 300)
		if f.Stack != "" {
			line += "\n    " + strings.ReplaceAll(strings.TrimSpace(f.Stack), "\n", "\n    ")
		}
		lines = append(lines, line)
	}
	return indent(lines)
}

// byType lists the types that ran most.
func (d *drain) byType() string {
	types := slices.SortedFunc(maps.Keys(d.counts), func(a, b string) int { return d.counts[b] - d.counts[a] })
	var lines []string
	for _, typ := range types[:min(len(types), maxListed)] {
		lines = append(lines, fmt.Sprintf("%s of %q", plural(d.counts[typ], "run"), typ))
	}
	return indent(lines)
}
