package jobs

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestClassOfIsTheServersOwnView(t *testing.T) {
	t.Parallel()
	ended := func(cause error) context.Context {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		return ctx
	}
	oops := errors.New("oops")
	for _, c := range []struct {
		ctx  context.Context
		err  error
		want string
	}{
		{t.Context(), nil, ""},
		{t.Context(), oops, ClassRetryable},
		{t.Context(), RetryAfter(time.Second, oops), ClassRetryable},
		{t.Context(), fmt.Errorf("%w: no", SkipRetry), ClassPermanent},
		{t.Context(), &PanicError{Value: 1}, ClassPanic},
		{t.Context(), Cancel(oops), ClassCancelled},
		{t.Context(), ErrUnknownType, ClassUnknownType},
		{t.Context(), fmt.Errorf("later: %w", Snooze(time.Second)), ""},
		{t.Context(), fmt.Errorf("%w and %w", SkipRetry, Snooze(time.Second)), ClassPermanent},
		{ended(ErrTimeout), oops, ClassTimeout},
		{ended(ErrTimeout), Snooze(time.Second), ""},
		{ended(ErrDeadline), oops, ClassExpired},
		{ended(ErrCancelled), Snooze(time.Second), ClassCancelled},
		{ended(ErrCancelled), nil, ""},
	} {
		if got := ClassOf(c.ctx, c.err); got != c.want {
			t.Errorf("ClassOf(%v, cause %v) = %q, want %q", c.err, context.Cause(c.ctx), got, c.want)
		}
	}
}
