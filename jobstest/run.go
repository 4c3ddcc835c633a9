package jobstest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
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
	return b.runOne(t, c, h, enqueue(t, b, c, def, args))
}

// runOne runs the one job of the broker once.
func (b *Broker) runOne(t testing.TB, c *runConfig, h jobs.Handler, at name) (result Result) {
	t.Helper()
	b.keepRecords(at.queue)
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
	}
	runner, err := inline.Start(c.values, server, h)
	if err != nil {
		t.Fatalf("jobstest: %v", err)
	}
	defer runner.Stop(lasting(t))
	failed := t.Failed()
	if n, err := runner.Step(lasting(t), 1); err != nil || n != 1 {
		t.Fatalf("jobstest: %s began, want one: %v", plural(n, "run"), err)
	}
	if t.Failed() && !failed {
		t.FailNow() // on behalf of the handler, in the goroutine of the test
	}
	result.Job = b.record(at)
	if p, ok := result.Err.(*jobs.PanicError); ok && !c.mayPanic {
		t.Errorf("the handler of %q panicked: %v\n%s", result.Job.Type, p.Value, p.Stack)
	}
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

// RunOption says how Run, NewJob and CheckIdempotent make a job and run it. With is
// one, too: it sets the job's options.
type RunOption interface{ run(*runConfig) }

type runConfig struct {
	opts     []jobs.Option
	head     broker.Head
	cfg      jobs.Config
	mayPanic bool
	values   context.Context
}

type runFunc func(*runConfig)

func (f runFunc) run(c *runConfig) { f(c) }

func (opts Options) run(c *runConfig) { c.opts = append(c.opts, opts...) }

func newRunConfig(t testing.TB, opts []RunOption) *runConfig {
	t.Helper()
	c := &runConfig{values: t.Context()}
	for _, o := range opts {
		if o != nil {
			o.run(c)
		}
	}
	if c.values == nil {
		t.Fatal("jobstest: Values: the context is nil; use t.Context()")
	}
	return c
}

// Attempt makes a job that has failed n times before: Job.Attempt returns n.
func Attempt(n int) RunOption {
	return runFunc(func(c *runConfig) { c.head.Failures, c.head.Deliveries = n, max(c.head.Deliveries, n) })
}

// Crashed makes a job whose server died n times while it ran: Job.Crashes returns n.
func Crashed(n int) RunOption {
	return runFunc(func(c *runConfig) { c.head.Crashes, c.head.Deliveries = n, max(c.head.Deliveries, n) })
}

// Checkpoint makes a job that stored p with SetCheckpoint in an earlier run.
func Checkpoint(p []byte) RunOption {
	return runFunc(func(c *runConfig) { c.kept().Checkpoint = p })
}

// StepDone makes a job that has done the step called name in an earlier run, with
// that result. StepDone panics if the result cannot be encoded as JSON.
func StepDone(name string, result any) RunOption {
	p, err := json.Marshal(result)
	if err != nil {
		panic("jobstest: StepDone: the result of step " + name + " cannot be stored: " + err.Error())
	}
	return runFunc(func(c *runConfig) {
		c.kept().Steps = append(c.kept().Steps, broker.DoneStep{Name: name, Result: p})
	})
}

func (c *runConfig) kept() *broker.Kept {
	if c.head.Kept == nil {
		c.head.Kept = new(broker.Kept)
	}
	return c.head.Kept
}

// Values gives the handler's context the values of ctx, as the context of Server.Run
// does.
func Values(ctx context.Context) RunOption {
	return runFunc(func(c *runConfig) { c.values = ctx })
}

// MayPanic makes Run return if the handler panics. Without it the test fails.
func MayPanic() RunOption { return runFunc(func(c *runConfig) { c.mayPanic = true }) }

// Config configures the server that Run and Drain imitate: its middleware, retry
// policies, extensions and hooks. For Drain, Queues says which queues are served; nil
// means all. Concurrency matters only for batch handlers. An extension that has only
// Start, such as that of a relay, does not run. Without a Logger, the server logs to the
// output of the test.
type Config jobs.Config

func (cfg Config) run(c *runConfig) { c.cfg = jobs.Config(cfg) }

// forTest fills in defaults for tests.
func forTest(t testing.TB, cfg jobs.Config) jobs.Config {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	if cfg.Concurrency == 0 {
		cfg.Concurrency = broker.MaxClaim // as many as the largest batch
	}
	return cfg
}

// NewJob returns a job as a handler gets it: with an ID, a queue, the options of the
// definition, and the past that opts describe. It is in no store; SetCheckpoint and
// Step keep their data in the job. Use Context for its context.
func NewJob[T any](t testing.TB, def jobs.Definition[T], args T, opts ...RunOption) *jobs.Job {
	t.Helper()
	c := newRunConfig(t, opts)
	b := New(t)
	id := enqueue(t, b, c, def, args)
	job := b.record(id)
	job.State, job.Worker = jobs.StateActive, "jobstest"
	return jobs.NewJob(&job)
}

// Context returns a context for code that a handler calls: jobs.JobFromContext finds
// the job in it. It ends after the job's timeout, at the job's deadline, and with the
// test.
func Context(t testing.TB, job *jobs.Job) context.Context {
	t.Helper()
	if job == nil {
		t.Fatal("jobstest: Context: the job is nil; NewJob makes one")
	}
	return inline.Context(t.Context(), job)
}

// enqueue stores a job with a past and returns its queue and ID.
func enqueue[T any](t testing.TB, b *Broker, c *runConfig, def jobs.Definition[T], args T) name {
	t.Helper()
	client := jobs.NewClient(b.plain, jobs.ClientConfig{Middleware: []jobs.EnqueueMiddleware{
		func(next jobs.EnqueueFunc) jobs.EnqueueFunc {
			return func(ctx context.Context, batch []*jobs.Outgoing) {
				for _, o := range batch { // due now, whatever its delay
					o.Delay, o.RunAt, o.Restore = 0, time.Time{}, &broker.Restored{State: broker.StatePending, Head: c.head}
				}
				next(ctx, batch)
			}
		}}})
	defer client.Close()
	info, err := def.Enqueue(lasting(t), client, args, c.opts...)
	if err != nil {
		t.Fatalf("jobstest: the job cannot be enqueued: %v", err)
	}
	return name{info.Queue, info.ID}
}

// record returns the stored job.
func (b *Broker) record(at name) broker.Job {
	b.t.Helper()
	page, err := b.plain.Find(context.Background(), broker.Query{Queue: at.queue, IDs: []string{at.id}, Suppressed: true})
	if err != nil || len(page.Jobs) != 1 {
		b.t.Fatalf("jobstest: the store has %s with the ID %s in queue %q: %v", plural(len(page.Jobs), "job"), at.id, at.queue, err)
	}
	return page.Jobs[0]
}

// keepRecords sets a policy that retains the records of completed jobs.
func (b *Broker) keepRecords(queue string) {
	b.t.Helper()
	forever := broker.Retention{Age: 100 * 365 * 24 * time.Hour}
	if _, err := b.plain.Policy(context.Background(), broker.PolicyRequest{Queue: queue, RetainCompleted: &forever}); err != nil {
		b.t.Fatalf("jobstest: %v", err)
	}
}
