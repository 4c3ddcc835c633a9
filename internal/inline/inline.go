// Package inline lets package jobstest run jobs within a call, with the code of a
// jobs.Server. Package jobs sets the functions, so that they are not part of its API.
package inline

import (
	"context"
	"time"
)

// Runner runs jobs within a call.
type Runner interface {
	// Step runs jobs that are due, and those that become due meanwhile, until none is
	// left or it has begun max runs. It returns how many it began; all are settled.
	Step(ctx context.Context, max int) (begun int, err error)
	// Due returns when, by the store's clock, another job of the queues can be claimed,
	// as far as the last Step found; zero if that is unknown. Jobs of extensions do not
	// count.
	Due() time.Time
	// Queues returns the names of the queues served, without those of extensions.
	Queues() []string
	// Stop releases the jobs that are still leased.
	Stop(ctx context.Context)
}

var (
	// Start makes a *jobs.Server that was not started run jobs with a jobs.Handler in
	// calls of Step.
	Start func(ctx context.Context, server, handler any) (Runner, error)
	// Context returns the context of a run of a *jobs.Job without a server: it has the
	// values of ctx, ends with it, and JobFromContext finds the job in it.
	Context func(ctx context.Context, job any) context.Context
)
