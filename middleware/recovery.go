package middleware

import (
	"context"
	"errors"
	"runtime/debug"

	"github.com/seed81422ce9/jobs"
)

// Recovery turns a panic of the handler into a *jobs.PanicError with its stack,
// and then calls onPanic, which may be nil.
//
// The server does so too, around everything. Recovery, close to the
// handler, is for the middleware outside of it: they see an error like any other,
// which they can count, log and classify, instead of being unwound.
//
// A panic of onPanic is caught too and joined to the error. runtime.Goexit is
// no panic: it passes through, and the server sees to it.
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
				defer func() {
					if value := recover(); value != nil {
						err = errors.Join(p, &jobs.PanicError{Value: value, Stack: string(debug.Stack())})
					}
				}()
				onPanic(ctx, job, p)
			}()
			return next.ProcessJob(ctx, job)
		})
	}
}
