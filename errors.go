package jobs

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/engine"
	"github.com/seed81422ce9/jobs/internal/guard"
	"github.com/seed81422ce9/jobs/internal/putoff"
)

// Errors of enqueueing and operating; test with errors.Is. Each means that
// nothing was applied. After other errors of a call to the store, something may
// have been applied.
var (
	ErrUnavailable = broker.ErrUnavailable // the store could not be reached
	ErrDuplicate   = broker.ErrDuplicate   // the ID exists, or the unique key is held
	ErrQueueFull   = broker.ErrQueueFull   // the queue is at its depth limit
	ErrTooLarge    = broker.ErrTooLarge    // a payload, result or other value is longer than its limit
	ErrInvalid     = broker.ErrInvalid     // a value is outside its limits
	ErrNotFound    = broker.ErrNotFound    // there is no such job
	ErrWrongState  = broker.ErrWrongState  // the operation does not fit the job's state
	ErrUnsupported = broker.ErrUnsupported // the store declares that it cannot do this
	ErrNewerForm   = broker.ErrNewerForm   // a newer version of this module wrote the data
	ErrClosed      = broker.ErrClosed      // the client or the broker was closed
)

// ErrOutcomeUnknown says that a job may or may not be stored: the answer to
// the call was lost, or the caller's context ended first. An error of Enqueue
// that is not ErrOutcomeUnknown means that nothing was stored. Enqueueing
// again can make a second job. With WithID it is safe: if the first call
// succeeded, the second is refused with ErrDuplicate.
var ErrOutcomeUnknown = broker.ErrOutcomeUnknown

// Causes of the end of a handler's context; see context.Cause.
var (
	ErrTimeout   = engine.ErrTimeout   // the run's timeout passed
	ErrDeadline  = engine.ErrDeadline  // the job's deadline passed
	ErrCancelled = engine.ErrCancelled // an operator cancelled the job
	ErrShutdown  = engine.ErrShutdown  // the server's drain ran out of time
	ErrLeaseLost = broker.ErrLeaseLost // another server has the job, or may have it
)

// SkipRetry wrapped in a handler's error sends the job to the dead-letter
// queue at once:
//
//	return fmt.Errorf("%w: bad payload: %v", jobs.SkipRetry, err)
var SkipRetry = errors.New("skip retry for this job")

// RetryAfter returns an error that charges a failure and sets the delay before
// the next run. If no retries are left, the job is dead. A negative delay means
// none; the longest is 100 years.
func RetryAfter(delay time.Duration, err error) error {
	return &retryAfter{delay: max(delay, 0), err: err}
}

type retryAfter struct {
	delay time.Duration
	err   error
}

func (e *retryAfter) Error() string {
	return fmt.Sprintf("retry after %v: %v", e.delay, e.err)
}
func (e *retryAfter) Unwrap() error { return e.err }

// Snooze returns an error that makes the job run again after delay, without
// charging a failure. A negative delay means none; the longest is 100 years.
func Snooze(delay time.Duration) error { return &putoff.Snooze{Delay: max(delay, 0)} }

// Cancel returns an error that cancels the job, with err in its error history.
// err may be nil.
func Cancel(err error) error { return &cancelled{err: err} }

type cancelled struct{ err error }

func (e *cancelled) Error() string {
	if e.err == nil {
		return "cancelled"
	}
	return "cancelled: " + e.err.Error()
}
func (e *cancelled) Unwrap() error { return e.err }

// PanicError is the error of a handler that panicked.
type PanicError struct {
	Value any    // the argument of panic
	Stack string // of the panicking goroutine
}

func (e *PanicError) Error() string { return "panic: " + guard.Text(e.Value) }
