package broker

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// The errors of the contract. Test with errors.Is; an *Error that wraps one names the
// operation, queue, job and field.
//
// Each of these means that the call, or the item of a batch that has this error,
// changed nothing. After any other error it is unknown whether the call took effect.
var (
	// ErrUnavailable: the store could not be reached, and the call was
	// certainly not applied.
	ErrUnavailable = errors.New("store unavailable, nothing was applied")
	// ErrDuplicate: the ID exists, or the unique key is held.
	ErrDuplicate = errors.New("duplicate")
	// ErrLeaseLost: the lease was settled, released or reclaimed before.
	ErrLeaseLost = errors.New("lease lost")
	// ErrWorkerGone: the worker was never registered in this queue, has
	// retired, or ran out and was found by a reclaim.
	ErrWorkerGone = errors.New("worker not registered or ended")
	// ErrNotFound: no such job, queue or mark.
	ErrNotFound = errors.New("not found")
	// ErrWrongState: the job's state or holder does not allow the operation, the job
	// changed since it was read, or the queue is in use. The Hint of the Error around
	// it says which.
	ErrWrongState = errors.New("the state does not allow this")
	// ErrQueueFull: a depth limit of the queue or of the job's key is reached.
	ErrQueueFull = errors.New("queue full")
	// ErrTooLarge: a payload, result or header set over its limit.
	ErrTooLarge = errors.New("too large")
	// ErrInvalid: a field of the request is outside its limits.
	ErrInvalid = errors.New("invalid")
	// ErrUnsupported: the backend's Limits exclude this.
	ErrUnsupported = errors.New("not supported by this backend")
	// ErrNewerForm: a newer version of this module than the caller's wrote the stored
	// job, or the queue's layout.
	ErrNewerForm = errors.New("written by a newer version")
	// ErrMalformed: the store has bytes that no version of this module wrote.
	ErrMalformed = errors.New("malformed stored form")
	// ErrClosed: the broker was closed.
	ErrClosed = errors.New("broker closed")
)

// ErrOutcomeUnknown is for callers of a broker that give up: a call was sent and never
// answered, so it may have taken effect. No backend returns it.
var ErrOutcomeUnknown = errors.New("outcome unknown, the job may have been stored")

// Error adds to an error where it happened. Fields that do not apply are empty.
type Error struct {
	Op    string // the broker's method, in lower case
	Queue string
	ID    string
	Field string // the field of the request that caused it
	Hint  string // limit and remedy, for people
	Err   error  // one of this package's errors, or the store's own
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("jobs: ")
	job := e.ID
	if e.Op != "" {
		b.WriteString(e.Op)
		if job != "" && e.namesOther() {
			fmt.Fprintf(&b, " %q", short(job))
			job = ""
		}
		b.WriteString(": ")
	}
	if e.Queue != "" {
		fmt.Fprintf(&b, "queue %q: ", short(e.Queue))
	}
	if job != "" {
		fmt.Fprintf(&b, "job %q: ", short(job))
	}
	if e.Field != "" {
		b.WriteString(e.Field + ": ")
	}
	b.WriteString(e.Err.Error())
	if e.Hint != "" {
		b.WriteString(": " + e.Hint)
	}
	return b.String()
}

// namesOther reports whether the ID is none of a job: the operation ends with the name of another thing, such as
// "get schedule".
func (e *Error) namesOther() bool {
	switch strings.TrimSuffix(e.Op[strings.LastIndexByte(e.Op, ' ')+1:], "s") {
	case "schedule", "workflow", "group":
		return true
	}
	return false
}

// short keeps a refused name from flooding a log.
func short(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// Invalid returns the error for a field outside its limits. The hint names the limit and
// the remedy.
func Invalid(field, hint string, args ...any) error {
	return &Error{Field: field, Hint: fmt.Sprintf(hint, args...), Err: ErrInvalid}
}

// About returns err with Op, Queue and ID set, each if it was empty. It wraps an err
// that is not an *Error, and returns nil for nil.
func About(err error, op, queue, id string) error {
	if err == nil {
		return nil
	}
	e, ok := err.(*Error)
	if !ok {
		return &Error{Op: op, Queue: queue, ID: id, Err: err}
	}
	c := *e
	if c.Op == "" {
		c.Op = op
	}
	if c.Queue == "" {
		c.Queue = queue
	}
	if c.ID == "" {
		c.ID = id
	}
	return &c
}

// sentinels are the errors after which nothing was applied.
var sentinels = []error{ErrUnavailable, ErrDuplicate, ErrLeaseLost, ErrWorkerGone, ErrNotFound, ErrWrongState,
	ErrQueueFull, ErrTooLarge, ErrInvalid, ErrUnsupported, ErrNewerForm, ErrMalformed, ErrClosed}

// MayHaveApplied reports whether a call that failed with err may have taken effect. It
// is false if certainly nothing was applied. For joined errors, such as those of several
// queues, it is true if it is true for one of them. An error of this package with its
// cause, fmt.Errorf("%w: %w", ErrUnavailable, cause), counts as that error alone.
func MayHaveApplied(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		parts, several := err.(interface{ Unwrap() []error })
		switch {
		case several && (reflect.TypeOf(err) != withCause || !slices.ContainsFunc(parts.Unwrap(), decides)):
			return slices.ContainsFunc(parts.Unwrap(), MayHaveApplied)
		case several || decides(err):
			return false
		case errors.Unwrap(err) == nil:
			return true
		}
	}
	return false
}

// withCause is the type of the error that fmt.Errorf makes of several errors.
var withCause = reflect.TypeOf(fmt.Errorf("%w: %w", ErrUnavailable, ErrClosed))

// decides reports whether an error itself, without what it wraps, is one of this
// package's.
func decides(err error) bool {
	own, ok := err.(interface{ Is(error) bool })
	return slices.ContainsFunc(sentinels, func(e error) bool { return err == e || ok && own.Is(e) }) //nolint:errorlint // not what it wraps
}

// StoreFailed reports whether the store and not the request caused err: the store could
// not be reached, or the effect of the call is unknown. The same request may be sent
// again, with the same IDs and numbers.
func StoreFailed(err error) bool { return errors.Is(err, ErrUnavailable) || MayHaveApplied(err) }
