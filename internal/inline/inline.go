// Package inline lets package jobstest run jobs where its caller is, by the code
// of a jobs.Server. Package jobs sets the functions: what tests need is no part of
// what applications see.
package inline

import (
	"context"
	"time"
)

// Runner runs jobs in the time of a call.
type Runner interface {
	// Step runs what is due, and what becomes due meanwhile, until it has begun max
	// runs. It returns how many it began; they are over, and settled.
	Step(ctx context.Context, max int) (begun int, err error)
	// Due is when, by the store's clock, another job of the queues can be claimed, as
	// far as the last Step found; zero if that is not known. Jobs of extensions do not
	// count.
	Due() time.Time
	// Queues are the names of the queues served, without those of extensions.
	Queues() []string
	// Stop gives back what is still leased.
	Stop(ctx context.Context)
}

var (
	// Start has a *jobs.Server, which was not started, run jobs with a jobs.Handler
	// whenever Step is called.
	Start func(ctx context.Context, server, handler any) (Runner, error)
	// Context returns a context of a *jobs.Job's run outside of a server: it has the
	// values of ctx, ends with it, and JobFromContext finds the job in it.
	Context func(ctx context.Context, job any) context.Context
)
