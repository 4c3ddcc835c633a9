// Package jobs runs background jobs. A producer enqueues tasks. Servers handle
// them. A store in between (Redis, Postgres, a file, or memory) keeps
// them until they are done. One line of the application chooses the store: it
// opens a broker. See the package example for a whole program.
//
// # Producing
//
// A [Task] is a type and a payload. [Client.Enqueue] stores it as a job and
// returns when the store has accepted it. [Client.EnqueueMany] takes thousands
// at once. An [Option] says when the job is due, how often it is retried, what
// makes it unique, and more. [Define] ties a task's type to a Go type, for
// producers and handlers. [Client.In] enqueues in a transaction of the
// application, if the store has transactions. [Client.Wait] waits for the end
// of a job.
//
// # Handling
//
// A [Server] claims jobs and runs a [Handler], usually a [ServeMux], which
// finds the handler by type. What the handler returns decides: nil completes
// the job; an error is retried by policy; [SkipRetry], [RetryAfter], [Snooze]
// and [Cancel] decide otherwise. [Middleware] wraps handlers.
// [EnqueueMiddleware] wraps enqueueing.
//
// # Operating
//
// Package inspect shows queues, jobs and workers, and operates on them:
// redrive, cancel, delete, reschedule, pause. [Server.Health] answers the
// probes of an orchestrator.
//
// # Guarantees
//
// At least once. A job whose Enqueue returned nil is handled at least once,
// unless it was cancelled, deleted or declared dead. No crash of a worker,
// at any instruction, loses it. What a crash of the store can lose depends on
// the store. So a handler can see a job twice, and must be idempotent:
// [WithIdempotencyKey] and [Job.Fence] help. Enqueueing again after a lost
// answer can also cause a second run; see [ErrOutcomeUnknown].
//
// One owner. At most one lease of a job is valid at any time, and a server
// that lost its lease cannot settle the job. Two runs overlap only if a
// handler goes on after its lease was lost, or after the shutdown of its
// server.
//
// Crashes are not failures. [Job.Attempt] and [WithMaxRetries] count errors of
// the handler. Crashes of servers have their own budget, [WithCrashBudget]. So
// deploys use up no retries, and a job that kills its server again and again
// ends as dead.
//
// Nothing is altered. Payload and headers come back byte for byte. Nothing
// runs before its time, by the store's clock. A due job does not wait for a
// server to poll, unless the store cannot wake servers.
//
// Bounded. A slot is taken until its handler has returned. Every call to a
// store has a deadline. Dead jobs are kept until an operator or an explicit
// policy removes or redrives them.
//
// # Errors
//
// Test errors such as [ErrDuplicate] with errors.Is. An error of Enqueue that
// is not [ErrOutcomeUnknown] means that nothing was stored. Messages name the
// field, its limit and the remedy. They never contain payloads.
package jobs

import "slices"

// Task is what a producer gives to Client.Enqueue: a type, by which the
// handler is found, and a payload for the handler. A Task can be enqueued any
// number of times and from several goroutines.
type Task struct {
	typ     string
	payload []byte
	options []Option
	chain   *taskChain // the enqueue middleware of its definition, or nil
}

// NewTask makes a task. The options are its defaults; options of Enqueue
// override them. NewTask keeps payload, which must not change until the last
// Enqueue of the task has returned. NewTask checks nothing: Enqueue refuses
// what is outside the limits.
func NewTask(typ string, payload []byte, defaults ...Option) *Task {
	return &Task{typ: typ, payload: payload, options: defaults}
}

// With returns a copy of the task with further default options, which override
// those of the task. The two share the payload.
func (t *Task) With(opts ...Option) *Task {
	c := *t
	c.options = slices.Concat(t.options, opts)
	return &c
}

// Type returns the task's type.
func (t *Task) Type() string { return t.typ }

// Payload returns the task's payload, not a copy.
func (t *Task) Payload() []byte { return t.payload }
