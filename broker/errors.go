package broker

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// The errors of the contract. Test with errors.Is; an *Error around one says
// which operation, queue, job and field it is about.
//
// Each of these means that
// the call, or the item of a batch that carries it, changed nothing. Any other
// error leaves it unknown whether the call took effect.
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
	// ErrWrongState: the job's state, or who holds it, does not allow the operation,
	// the job changed since it was looked at, or the queue is in use. The Hint of the
	// Error around it says which.
	ErrWrongState = errors.New("the state does not allow this")
	// ErrQueueFull: the queue's policy has a depth limit, which is reached.
	ErrQueueFull = errors.New("queue full")
	// ErrTooLarge: a payload, result or header set over its limit.
	ErrTooLarge = errors.New("too large")
	// ErrInvalid: a field of the request is outside its limits.
	ErrInvalid = errors.New("invalid")
	// ErrUnsupported: the backend's Limits exclude this.
	ErrUnsupported = errors.New("not supported by this backend")
	// ErrNewerForm: a stored job, or a queue's layout, written by a newer
	// version of this module than the caller's.
	ErrNewerForm = errors.New("written by a newer version")
	// ErrMalformed: stored bytes that no version wrote.
	ErrMalformed = errors.New("malformed stored form")
	// ErrClosed: the broker was closed.
	ErrClosed = errors.New("broker closed")
)

// ErrOutcomeUnknown is for callers of a broker that give up: a call was sent and
// its answer never came, so it may have taken effect. No backend returns it.
var ErrOutcomeUnknown = errors.New("outcome unknown, the job may have been stored")

// Error says what an error is about. Fields that do not apply are empty.
type Error struct {
	Op    string // the broker's method, in lower case
	Queue string
	ID    string
	Field string // the field of the request that is to blame
	Hint  string // limit and remedy, for people
	Err   error  // one of this package's errors, or the store's own
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("jobs: ")
	if e.Op != "" {
		b.WriteString(e.Op + ": ")
	}
	if e.Queue != "" {
		fmt.Fprintf(&b, "queue %q: ", short(e.Queue))
	}
	if e.ID != "" {
		fmt.Fprintf(&b, "job %q: ", short(e.ID))
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

// short keeps a refused name from flooding a log.
func short(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// Invalid makes the error for a field outside its limits; hint names the
// limit and the remedy.
func Invalid(field, hint string, args ...any) error {
	return &Error{Field: field, Hint: fmt.Sprintf(hint, args...), Err: ErrInvalid}
}

// About fills the empty Op, Queue and ID of err, wrapping it when it is no
// *Error yet. A nil err stays nil.
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

// sentinels are the errors that say that nothing was applied.
var sentinels = []error{ErrUnavailable, ErrDuplicate, ErrLeaseLost, ErrWorkerGone, ErrNotFound, ErrWrongState,
	ErrQueueFull, ErrTooLarge, ErrInvalid, ErrUnsupported, ErrNewerForm, ErrMalformed, ErrClosed}

// MayHaveApplied reports what err says of the call's effect: false when certainly
// nothing was applied, true when that is unknown. Errors that are joined, as those
// of several queues are, leave it unknown when one of them does. An error of this
// package with its cause, fmt.Errorf("%w: %w", ErrUnavailable, cause), says what the
// former says.
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

// withCause is the type of what fmt.Errorf makes of several errors.
var withCause = reflect.TypeOf(fmt.Errorf("%w: %w", ErrUnavailable, ErrClosed))

// decides reports whether an error is itself, not by what it wraps, one of this
// package's.
func decides(err error) bool {
	own, ok := err.(interface{ Is(error) bool })
	return slices.ContainsFunc(sentinels, func(e error) bool { return err == e || ok && own.Is(e) })
}

// StoreFailed reports whether err is about the store and not about the request:
// the store could not be reached, or nobody knows what it did. The same request
// may be sent again, with the same IDs and numbers.
func StoreFailed(err error) bool { return errors.Is(err, ErrUnavailable) || MayHaveApplied(err) }
