package jobs

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/engine"
	"github.com/seed81422ce9/jobs/internal/guard"
)

// Errors of enqueueing and operating; test with errors.Is. Each means that
// nothing was applied. Other errors of a call to the store leave that unknown.
var (
	ErrUnavailable = broker.ErrUnavailable // the store could not be reached
	ErrDuplicate   = broker.ErrDuplicate   // the ID exists or the unique key is held
	ErrQueueFull   = broker.ErrQueueFull
	ErrTooLarge    = broker.ErrTooLarge
	ErrInvalid     = broker.ErrInvalid
	ErrNotFound    = broker.ErrNotFound
	ErrWrongState  = broker.ErrWrongState
	ErrUnsupported = broker.ErrUnsupported
	ErrNewerForm   = broker.ErrNewerForm
	ErrClosed      = broker.ErrClosed
)

// ErrOutcomeUnknown says that a job may or may not have been stored: the call
// was sent and its answer never came, or the caller's context ended first. An
// error of Enqueue that is not ErrOutcomeUnknown means that nothing was stored.
// Enqueueing again can make a second job. With WithID the repeat is safe: it is
// refused with ErrDuplicate if the first one succeeded.
var ErrOutcomeUnknown = broker.ErrOutcomeUnknown

// Causes for which a handler's context ends; see context.Cause.
var (
	ErrTimeout   = engine.ErrTimeout
	ErrDeadline  = engine.ErrDeadline
	ErrCancelled = engine.ErrCancelled
	ErrShutdown  = engine.ErrShutdown
	ErrLeaseLost = broker.ErrLeaseLost
)

// SkipRetry, wrapped in a handler's error, sends the job to the dead-letter
// queue at once:
//
//	return fmt.Errorf("%w: bad payload: %v", jobs.SkipRetry, err)
var SkipRetry = errors.New("skip retry for this job")

// RetryAfter returns an error that charges a failure like any other but sets
// the delay before the next run. It is dead all the same once the retries are
// spent. A negative delay means none.
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

// Snooze returns an error that puts the job off for delay without charging a
// failure.
func Snooze(delay time.Duration) error { return &snooze{delay: max(delay, 0)} }

type snooze struct{ delay time.Duration }

func (e *snooze) Error() string { return fmt.Sprintf("snoozed for %v", e.delay) }

// Cancel returns an error that ends the job as cancelled, with err, which may
// be nil, in its history.
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
	Value any    // what it panicked with
	Stack string // of the panicking goroutine
}

func (e *PanicError) Error() string { return "panic: " + guard.Text(e.Value) }
