package broker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs/broker"
)

func TestErrors_SayWhetherTheCallMayHaveApplied(t *testing.T) {
	t.Parallel()
	for _, err := range []error{broker.ErrUnavailable, broker.ErrDuplicate, broker.ErrLeaseLost, broker.ErrWorkerGone, broker.ErrNotFound,
		broker.ErrWrongState, broker.ErrQueueFull, broker.ErrTooLarge, broker.ErrInvalid, broker.ErrUnsupported, broker.ErrNewerForm,
		broker.ErrMalformed, broker.ErrClosed, nil} {
		if broker.MayHaveApplied(err) || err != nil && broker.MayHaveApplied(broker.About(fmt.Errorf("wrapped: %w", err), "op", "q", "id")) {
			t.Errorf("%v is taken to leave it open whether the call applied", err)
		}
	}
	for _, err := range []error{io.ErrUnexpectedEOF, context.DeadlineExceeded, broker.About(context.Canceled, "op", "", "")} {
		if !broker.MayHaveApplied(err) || !broker.StoreFailed(err) {
			t.Errorf("%v is taken to say that nothing applied, or not to be of the store", err)
		}
	}
}

// Several queues fail each in their own way: one answer that was lost leaves the
// whole call open, however the errors came together.
func TestErrors_JoinedErrorsLeaveOpenWhatOneOfThemDoes(t *testing.T) {
	t.Parallel()
	away := fmt.Errorf("%w: %w", broker.ErrUnavailable, io.EOF) // the cause says nothing more
	gone := broker.About(broker.ErrWorkerGone, "claim", "q", "")
	lost := broker.About(io.EOF, "claim", "r", "")
	for _, c := range []struct {
		err              error
		open, ofTheStore bool
	}{
		{away, false, true},
		{broker.About(fmt.Errorf("twice: %w", away), "claim", "", ""), false, true},
		{fmt.Errorf("%w: %w", io.EOF, broker.ErrInvalid), false, false},
		{errors.Join(away, gone), false, true},
		{errors.Join(gone, broker.ErrNewerForm), false, false},
		{errors.Join(io.EOF, broker.ErrUnavailable), true, true},
		{errors.Join(broker.ErrUnavailable, io.EOF), true, true},
		{errors.Join(gone, lost), true, true},
		{errors.Join(errors.Join(gone, away), errors.Join(lost, gone)), true, true},
		{broker.About(fmt.Errorf("with a wait: %w", errors.Join(gone, fmt.Errorf("once more: %w", lost))), "claim", "", ""), true, true},
		{fmt.Errorf("%w, and %w", gone, lost), true, true},
		{broker.ErrQueueFull, false, false},
		{nil, false, false},
	} {
		if got := broker.MayHaveApplied(c.err); got != c.open {
			t.Errorf("MayHaveApplied of %q is %t, want %t", c.err, got, c.open)
		}
		if got := broker.StoreFailed(c.err); got != c.ofTheStore {
			t.Errorf("StoreFailed of %q is %t, want %t", c.err, got, c.ofTheStore)
		}
	}
}

func TestErrors_AboutFillsWhatIsNotKnownYet(t *testing.T) {
	t.Parallel()
	if broker.About(nil, "op", "q", "id") != nil {
		t.Error("nil became an error")
	}
	inner := &broker.Error{Queue: "inner", Field: "payload", Hint: "shorten it", Err: broker.ErrTooLarge}
	err := broker.About(inner, "enqueue", "outer", "a\x01")
	if got, want := err.Error(), `jobs: enqueue: queue "inner": job "a\x01": payload: too large: shorten it`; got != want {
		t.Errorf("the error reads\n%s, want\n%s", got, want)
	}
	if inner.Op != "" || inner.ID != "" {
		t.Errorf("About wrote to the error it was given: %+v", inner)
	}
	if got, want := broker.About(io.EOF, "claim", "", "").Error(), "jobs: claim: EOF"; got != want {
		t.Errorf("a foreign error reads %q, want %q", got, want)
	}
	for op, want := range map[string]string{
		"get schedule":   `jobs: get schedule "a": not found`,
		"sync schedules": `jobs: sync schedules "a": not found`,
		"start workflow": `jobs: start workflow "a": not found`,
		"dead group":     `jobs: dead group "a": not found`,
		"set checkpoint": `jobs: set checkpoint: job "a": not found`,
	} {
		if got := broker.About(broker.ErrNotFound, op, "", "a").Error(); got != want {
			t.Errorf("the error of %s reads\n%s, want\n%s", op, got, want)
		}
	}
	if !errors.Is(err, broker.ErrTooLarge) || !errors.Is(broker.About(io.EOF, "claim", "", ""), io.EOF) {
		t.Error("About hid what it wraps")
	}
}

func TestErrors_ARefusedNameDoesNotFloodTheLog(t *testing.T) {
	t.Parallel()
	j := broker.NewJob{Queue: strings.Repeat("q", 1<<20), ID: strings.Repeat("i", 1<<20)}
	if text := j.Check(broker.Limits{}).Error(); len(text) > 500 {
		t.Errorf("the refusal of long names has %d bytes: %.200s…", len(text), text)
	}
}

func TestErrors_DefaultsOfLimits(t *testing.T) {
	t.Parallel()
	if got := (broker.Limits{}).PayloadLimit(); got != broker.DefaultMaxPayload {
		t.Errorf("without a limit of its own a backend takes payloads of %d bytes, want %d", got, broker.DefaultMaxPayload)
	}
	if got := (broker.Limits{MaxPayload: 7}).PayloadLimit(); got != 7 {
		t.Errorf("a declared limit of 7 bytes became %d", got)
	}
}
