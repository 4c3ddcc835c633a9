package middleware

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/internal/guard"
)

// Recovery turns a panic of the handler into a *jobs.PanicError with its stack,
// and then calls onPanic, which may be nil.
//
// The server does the same for all middleware together. With Recovery close to the
// handler, outer middleware sees an error, which it can count, log and classify.
//
// A panic of onPanic is caught and joined to the error. If the handler returns an error that is a nil
// pointer, or whose methods panic, Recovery replaces it by an error that says so. runtime.Goexit is not
// a panic: the server handles it.
func Recovery(onPanic func(ctx context.Context, job *jobs.Job, p *jobs.PanicError)) jobs.Middleware {
	return func(next jobs.Handler) jobs.Handler {
		return jobs.HandlerFunc(func(ctx context.Context, job *jobs.Job) (err error) {
			defer func() {
				value := recover()
				if value == nil {
					return
				}
				p := &jobs.PanicError{Value: value, Stack: string(debug.Stack())}
				err = p
				if onPanic == nil {
					return
				}
				if failed := guard.Call(func() { onPanic(ctx, job, p) }); failed != nil {
					err = errors.Join(p, fmt.Errorf("onPanic failed: %w", failed))
				}
			}()
			return guard.Error(next.ProcessJob(ctx, job))
		})
	}
}
