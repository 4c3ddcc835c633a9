package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/seed81422ce9/jobs/backends/pgbroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/readable"
)

const exitCodes = `  0    done
  1    another error
  2    wrong usage
  3    job, queue or schedule not found
  4    refused, for some jobs or for all
  5    the store could not be reached, or denied the call; nothing was changed
  6    the store failed on the way, or its answer was lost; something may have been
       changed
  7    not confirmed; nothing was changed
  8    errors remain in the store (doctor)
  9    the store is not migrated; nothing was changed
  130  interrupted`

// usageError is a mistake in how the command was called.
type usageError struct{ text string }

func (e *usageError) Error() string {
	if text, whole := strings.CutSuffix(e.text, "\n"); whole || strings.HasSuffix(text, "?") {
		return text // the text is the help itself
	}
	return e.text + "; see --help"
}

func misuse(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

var (
	errRefused          = errors.New("some jobs were refused, see above")
	errUnconfirmed      = errors.New("not confirmed; nothing was changed (--yes confirms)")
	errInterrupted      = errors.New("interrupted")
	errInterruptedEarly = fmt.Errorf("%w; nothing was changed", errInterrupted)
)

// exitCode returns the exit code after err. changed says that something was changed before, or may have been.
func exitCode(err error, changed bool) int {
	var usage *usageError
	var call *broker.Error // of a call to the store
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage), errors.Is(err, broker.ErrInvalid), errors.Is(err, broker.ErrTooLarge):
		return 2
	case errors.Is(err, pgbroker.ErrNotMigrated):
		return 9
	case errors.Is(err, broker.ErrNotFound):
		return 3
	case errors.Is(err, errUnconfirmed):
		return 7
	case errors.Is(err, errUnhealthy):
		return 8
	case errors.Is(err, errInterrupted):
		return 130
	case changed && errors.Is(err, broker.ErrUnavailable):
		return 6
	case errors.Is(err, errRefused), errors.Is(err, errUnsettled), errors.Is(err, broker.ErrWrongState),
		errors.Is(err, broker.ErrDuplicate), errors.Is(err, broker.ErrQueueFull):
		return 4
	case errors.Is(err, broker.ErrOutcomeUnknown):
		return 6
	case errors.As(err, &call) && broker.StoreFailed(err), errors.Is(err, broker.ErrUnavailable):
		if changed {
			return 6
		}
		return 5
	}
	return 1
}

// text returns an error's text for a person, without the package's prefix and safe for a
// terminal. All commands report a missing queue in the same words.
func text(err error) string {
	var call *broker.Error
	if errors.As(err, &call) && call.Queue != "" && call.ID == "" && errors.Is(call.Err, broker.ErrNotFound) {
		return noQueue(call.Queue).Error()
	}
	return readable.PlainLines(strings.TrimPrefix(err.Error(), "jobs: "))
}

// noQueue returns the error for a queue that does not exist.
func noQueue(name string) error {
	return fmt.Errorf("queue %q: %w; \"jobsctl queues ls\" lists the queues", short(name, 64), broker.ErrNotFound)
}

// changes notes whether the command has changed anything in its stores, or may have: if a store fails then, the exit
// code must not say that nothing was changed.
type changes struct{ made atomic.Bool }

// in returns b, and notes what is changed through it.
func (c *changes) in(b broker.Broker) broker.Broker {
	return broker.Wrap(b, func(ctx context.Context, call *broker.Call, next func(context.Context) error) error {
		err := next(ctx)
		if changed(call, err) {
			c.made.Store(true)
		}
		return err
	})
}

// changed reports whether a call that has ended with err changed something, or may have.
func changed(call *broker.Call, err error) bool {
	switch r := call.Request.(type) {
	case *broker.Query, *broker.QueuesRequest, *broker.WatchRequest, *struct{}: // the last is of Ping
		return false
	case *broker.PolicyRequest:
		if len(r.Changes()) == 0 {
			return false
		}
	case *broker.ExamineRequest:
		if !r.Fix {
			return false
		}
	case *broker.MarkRequest:
		if r.Action != broker.MarkSet { // others are locks
			return false
		}
	}
	if err != nil {
		return broker.MayHaveApplied(err)
	}
	switch got := call.Reply.(type) {
	case *[]broker.OperationResult:
		return slices.ContainsFunc(*got, func(r broker.OperationResult) bool { return applied(r.Err) })
	case *[]broker.Receipt:
		return slices.ContainsFunc(*got, func(r broker.Receipt) bool { return applied(r.Err) })
	case *broker.Examined:
		return slices.ContainsFunc(got.Findings, func(f broker.Finding) bool { return f.Fixed })
	}
	return true
}

func applied(err error) bool { return err == nil || broker.MayHaveApplied(err) }
