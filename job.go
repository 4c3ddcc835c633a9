package jobs

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/engine"
)

// State is the state of a job; see the constants.
type State = broker.State

// The states of a job.
const (
	StatePending   = broker.StatePending
	StateScheduled = broker.StateScheduled
	StateActive    = broker.StateActive
	StateRetry     = broker.StateRetry
	StateCompleted = broker.StateCompleted
	StateDead      = broker.StateDead
	StateCancelled = broker.StateCancelled
	StateWaiting   = broker.StateWaiting
)

// Job is a handler's view of the job that it runs. Its methods can be called
// from several goroutines, except SetResult, Result and CompletesInTx. The
// zero Job is not usable.
type Job struct {
	record *broker.Job
	run    atomic.Pointer[engine.Run] // holds what the handler keeps; see keeper
	result []byte
	origin *Job // the view that WithPayload made this one from, or nil
}

// NewJob makes a view of a stored job, for tests of handlers and for tools
// that read jobs through a broker. It keeps record, which must not be nil.
// SetCheckpoint, Step and SetProgress store nothing for such a job: what they
// are given stays with the view.
func NewJob(record *broker.Job) *Job { return &Job{record: record} }

// WithPayload returns a view of the same job with another payload, for
// middleware that decodes payloads. Both views share the result, the checkpoint,
// the steps and the progress.
func (j *Job) WithPayload(payload []byte) *Job {
	record := *j.record
	record.Payload = payload
	return &Job{record: &record, origin: j}
}

// Record returns the stored job as it was when it was claimed. It must not be
// changed.
func (j *Job) Record() *broker.Job { return j.record }

// ID returns the job's ID, unique in its queue.
func (j *Job) ID() string { return j.record.ID }

// Queue returns the name of the job's queue.
func (j *Job) Queue() string { return j.record.Queue }

// Type returns the task's type.
func (j *Job) Type() string { return j.record.Type }

// TypeVersion returns the version of the payload's form, as the producer set it;
// see WithTypeVersion.
func (j *Job) TypeVersion() int { return j.record.TypeVersion }

// Payload returns the task's payload: untrusted bytes, not a copy.
func (j *Job) Payload() []byte { return j.record.Payload }

// Attempt returns how many failures the job was charged so far: 0 in its first
// run. Crashes of workers, snoozes and releases do not count.
func (j *Job) Attempt() int { return j.record.Failures }

// MaxRetries returns how many failures the job survives.
func (j *Job) MaxRetries() int { return j.record.MaxRetries }

// Delivery returns how many deliveries of the job came before this one.
func (j *Job) Delivery() int { return j.record.Deliveries }

// Crashes returns how many workers died while they held the job.
func (j *Job) Crashes() int { return j.record.Crashes }

// Fence returns a number that is higher in each lease of this job than in all
// leases before. Pass it to stores that can refuse a write with a lower number.
// If a crash of the job store undoes a claim, two leases can have the same
// number; see docs/delivery-semantics.md.
func (j *Job) Fence() int64 { return j.record.Epoch }

// Header returns the header named key, or "".
func (j *Job) Header(key string) string { return j.record.Headers[key] }

// Headers returns all headers. The map must not be changed.
func (j *Job) Headers() map[string]string { return j.record.Headers }

// PartitionKey returns the key that WithPartitionKey gave the job, a tenant for
// example, or "".
func (j *Job) PartitionKey() string { return j.record.Key }

// IdempotencyKey returns the name of the job's business effect, or "". Unlike
// the ID, it stays the same if the same work is enqueued again.
func (j *Job) IdempotencyKey() string { return j.record.IdempotencyKey }

// CorrelationID returns the producer's correlation ID, or "".
func (j *Job) CorrelationID() string { return j.record.CorrelationID }

// CreatedAt returns when the store accepted the job, by the store's clock.
func (j *Job) CreatedAt() time.Time { return j.record.CreatedAt }

// Deadline returns when the job expires, or the zero time.
func (j *Job) Deadline() time.Time { return j.record.Deadline }

// LastError returns the message of the job's newest error, or "".
func (j *Job) LastError() string { return j.record.Errors.Last().Message }

// SetResult makes p the job's result, at most 1 MiB. It is stored when the
// handler returns nil, if the record of the completed job is kept; see
// WithRetention. With a larger result the job is dead, with ErrTooLarge: a retry
// would only repeat the work.
func (j *Job) SetResult(p []byte) { j.first().result = p }

// Result returns what SetResult set last, or nil. It is for middleware, after
// the handler has returned.
func (j *Job) Result() []byte { return j.first().result }

// CompletesInTx tells the server that a transaction of the handler completes the
// job; pgbroker.CompleteTx calls it. From then on, a handler that returns nil
// says that the transaction has committed. If it has not, the job still
// exists and is charged a failure of class ClassUncommitted.
func (j *Job) CompletesInTx() {
	run := j.keeper()
	run.InTx = true
	run.QuietProgress()
}

// JobFromContext returns the job of a handler's context, or nil: for code that
// gets only the context, such as a log handler.
func JobFromContext(ctx context.Context) *Job {
	if run := engine.RunOf(ctx); run != nil {
		job, _ := run.View.(*Job)
		return job
	}
	return nil
}

// first returns the original view that this one was made from. It holds the result and
// the run.
func (j *Job) first() *Job {
	for j.origin != nil {
		j = j.origin
	}
	return j
}

// keeper returns the run that holds what the handler keeps: the server's or, for a
// view made by NewJob, one that is made when it is needed.
func (j *Job) keeper() *engine.Run {
	j = j.first()
	if j.run.Load() == nil {
		j.run.CompareAndSwap(nil, engine.Detached(j.record))
	}
	return j.run.Load()
}
