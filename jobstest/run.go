package jobstest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/inline"
)

// Result says how a run of a handler ended.
type Result struct {
	// Err is what the handler returned, after its middleware. After a panic it is a
	// *jobs.PanicError.
	Err error
	// Outcome is what the server decided: one of the Ended constants of package jobs,
	// such as jobs.EndedRetried.
	Outcome string
	// Delay is the time until the next run of a job that is retried or snoozed. With
	// the default policy it is random.
	Delay time.Duration
	// Job is the stored job after the run, with its state, result, errors, steps and
	// checkpoint.
	Job broker.Job
}

// Run runs a handler with one job, with the code of a server. The job has an ID, a queue and an attempt;
// the context has its timeout, and jobs.JobFromContext finds the job in it. The handler is a ServeMux,
// or the result of Definition.Handler. The Result says how the job ended by the rules of production: the
// retry policy, the classification of errors, the middleware of Config.
//
// The job is in a store of its own, and due, whatever its delay. If the handler
// enqueues, its client should use the test's broker. If the handler panics, the test
// fails with the stack, unless MayPanic is given.
func Run[T any](t testing.TB, h jobs.Handler, def jobs.Definition[T], args T, opts ...RunOption) Result {
	t.Helper()
	c := newRunConfig(t, opts)
	b := New(t)
	at := enqueue(t, b, c, def, args)
	b.keepRecords(at.queue)
	result := b.runOne(t, c, h, at)
	result.failIfPanicked(t, c, def.Type())
	return result
}

func (r *Result) failIfPanicked(t testing.TB, c *runConfig, typ string) {
	t.Helper()
	if p, ok := r.Err.(*jobs.PanicError); ok && !c.mayPanic {
		t.Errorf("the handler of %q panicked: %v\n%s", typ, p.Value, p.Stack)
	}
}

// runOne runs the one job of the broker once.
func (b *Broker) runOne(t testing.TB, c *runConfig, h jobs.Handler, at name) (result Result) {
	t.Helper()
	cfg := forTest(t, c.cfg)
	cfg.Queues, cfg.QueueConcurrency = map[string]int{at.queue: 1}, nil
	cfg.Middleware = append([]jobs.Middleware{func(next jobs.Handler) jobs.Handler {
		return jobs.HandlerFunc(func(ctx context.Context, job *jobs.Job) error {
			result.Err = next.ProcessJob(ctx, job)
			return result.Err
		})
	}}, cfg.Middleware...)
	cfg.Hooks = jobs.JoinHooks(cfg.Hooks, jobs.Hooks{Settle: func(e jobs.SettleEvent) {
		for i, v := range e.Verdicts {
			if o := e.Items[i].Outcome; o.Kind() != broker.OutcomeKeep {
				result.Outcome, result.Delay = ended(o, v), o.Delay()
				if f := o.Failure(); f != nil && f.Class == jobs.ClassPanic && result.Err == nil {
					result.Err = &jobs.PanicError{Value: strings.TrimPrefix(f.Message, "panic: "), Stack: f.Stack}
				}
			}
		}
	}})
	server, err := jobs.NewServer(b, cfg)
	if err != nil {
		t.Fatalf("jobstest: the server cannot be made: %v", err)
		return
	}
	runner, err := inline.Start(c.values, server, h)
	if err != nil {
		t.Fatalf("jobstest: %v", err)
		return
	}
	defer runner.Stop(t.Context())
	failed := t.Failed()
	if n, err := runner.Step(t.Context(), 1); err != nil || n != 1 {
		t.Fatalf("jobstest: %s began, want one: %v", plural(n, "run"), err)
		return
	}
	if t.Failed() && !failed {
		t.FailNow() // on behalf of the handler, in the goroutine of the test
	}
	result.Job = b.record(at)
	return result
}

// ended returns the name of an outcome.
func ended(o broker.Outcome, v broker.Verdict) string {
	switch {
	case v.Err != nil:
		return jobs.EndedReleased
	case v.State == broker.StateCancelled:
		return jobs.EndedCancelled
	}
	switch o.Kind() {
	case broker.OutcomeComplete:
		return jobs.EndedCompleted
	case broker.OutcomeRetry, broker.OutcomeCrash:
		return jobs.EndedRetried
	case broker.OutcomeSnooze:
		return jobs.EndedSnoozed
	case broker.OutcomeDie:
		if o.Reason() == broker.ReasonExpired {
			return jobs.EndedExpired
		}
		return jobs.EndedDead
	}
	return jobs.EndedReleased
}

// String returns a text such as "retried in 8s: connection refused".
func (r Result) String() string {
	text := r.Outcome
	if r.Delay > 0 {
		text += fmt.Sprintf(" in %v", r.Delay)
	}
	if r.Err != nil {
		text += ": " + r.Err.Error()
	}
	return text
}
