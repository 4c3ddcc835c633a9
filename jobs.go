// Package jobs runs background jobs: a producer enqueues tasks, servers handle
// them, and a store in between (Redis, Postgres, or the memory of a process)
// keeps them until they are done. Applications import this package; the store
// is the one line that opens a broker. See the package example for a whole
// program.
//
// # Producing
//
// A [Task] is a type and a payload. [Client.Enqueue] stores it as a job and
// returns once the store has accepted it; [Client.EnqueueMany] takes thousands
// at once. [Option] values say when it is due, how often it is retried, what
// makes it unique, and the rest. [Define] ties a type to a Go type, for
// producers and handlers alike. [Client.In] enqueues in a transaction of the
// application, where the store has them. [Client.Wait] waits for a job's end.
//
// # Handling
//
// A [Server] claims jobs and runs a [Handler], usually a [ServeMux], which
// routes them by type. What the handler returns decides: nil completes the
// job; an error is retried by policy; [SkipRetry], [RetryAfter], [Snooze] and
// [Cancel] say something else. [Middleware] wraps handlers; [EnqueueMiddleware]
// wraps the way of jobs into the store.
//
// # Operating
//
// Package inspect shows queues, jobs and workers, and carries out decisions:
// redrive, cancel, delete, reschedule, pause. [Server.Health] answers the probes
// of an orchestrator.
//
// # What is guaranteed
//
// At least once. A job whose Enqueue returned nil is handled at least once, or
// is dead, cancelled or deleted by somebody's decision. No crash of a worker,
// at any instruction, loses it; what a crash of the store can lose depends on
// the store. So a handler can see a job twice, and must be idempotent:
// [WithIdempotencyKey] and [Job.Fence] help. Enqueueing again after an answer
// was lost can make a second run as well; see [ErrOutcomeUnknown].
//
// One owner. At most one lease of a job is valid at any instant, and a server
// that lost its lease can no longer settle the job. Two runs overlap only when
// a handler goes on after its lease was lost or its server's shutdown was over.
//
// Crashes are not failures. [Job.Attempt] and [WithMaxRetries] count errors of
// the handler; deaths of servers have a budget of their own,
// [WithCrashBudget], so that deploys use up no retries, and a job that kills
// its server again and again ends as dead.
//
// Nothing accepted is altered. Payload and headers come back byte for byte.
// Nothing runs before its time, by the store's clock; nothing due waits for a
// tick.
//
// Bounded. A slot is held until its handler has really returned. Every call to
// a store has a deadline. Dead jobs are kept until an operator or an explicit
// policy decides about them.
//
// # Errors
//
// Sentinels such as [ErrDuplicate] are tested with errors.Is. An error of
// Enqueue that is not [ErrOutcomeUnknown] means that nothing was stored.
// Messages name the field, its limit and a remedy; payloads are never part of
// them.
package jobs

// Task is what a producer hands to Client.Enqueue: a type, which chooses the
// handler, and a payload, which is the handler's to read. A Task can be
// enqueued any number of times and from several goroutines.
type Task struct {
	typ     string
	payload []byte
	options []Option
}

// NewTask makes a task. The options are its defaults; those given to Enqueue
// come after them and win. NewTask keeps payload, which must not change before
// the last Enqueue of the task has returned. Nothing is checked here: Enqueue
// refuses what is outside the limits.
func NewTask(typ string, payload []byte, defaults ...Option) *Task {
	return &Task{typ: typ, payload: payload, options: defaults}
}

// Type is the task's type.
func (t *Task) Type() string { return t.typ }

// Payload is the task's payload, not a copy.
func (t *Task) Payload() []byte { return t.payload }
