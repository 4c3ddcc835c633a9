package schedule

import (
	"context"
	"log/slog"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/sleep"
)

// ExtensionConfig says how a server runs schedules. The zero value is ready to
// use.
type ExtensionConfig struct {
	// Definitions are put when the server starts, as Put does: what was deleted
	// from the store comes back.
	Definitions []Definition
	// Concurrency is how many schedules a server runs at once; a run takes about
	// a millisecond. Zero means 8, the maximum is 1000.
	Concurrency int
	// Logger gets what an operator should know: ticks that were refused, and
	// schedules that cannot run. Nil means slog.Default().
	Logger *slog.Logger
}

// Extension makes a server run the schedules of the store, of every owner: it
// belongs in jobs.Config.Extensions. The client enqueues the jobs of ticks, with
// its middleware; close it after the server. When the server starts, schedules
// that are dead are revived. Extension panics if the client is nil.
func (s *Schedules) Extension(client *jobs.Client, cfg ExtensionConfig) jobs.Extension {
	if client == nil {
		panic("jobs/schedule: Extension: the client is nil")
	}
	x := &runner{Schedules: s, client: client, log: cfg.Logger}
	if x.log == nil {
		x.log = slog.Default()
	}
	return jobs.Extension{Queue: Queue, Handler: x, Concurrency: cfg.Concurrency,
		Start: func(ctx context.Context) { x.start(ctx, cfg.Definitions) }}
}

// The pauses between attempts to put what a server brings, and to revive what
// is dead, while the store cannot be reached.
const (
	startPauseMin = time.Second
	startPauseMax = time.Minute
)

// start puts what the server brings and revives what is dead, until it has
// succeeded or the server drains.
func (x *runner) start(ctx context.Context, definitions []Definition) {
	for attempt := 0; ; attempt++ {
		var left []Definition
		failed := false
		for _, d := range definitions {
			_, err := x.put(ctx, d)
			if err == nil || ctx.Err() != nil {
				continue
			}
			x.log.Error("jobs: a schedule could not be put", "schedule", d.ID, "error", err)
			if broker.StoreFailed(err) {
				failed, left = true, append(left, d)
			}
		}
		definitions = left
		if err := x.revive(ctx); err != nil && ctx.Err() == nil {
			x.log.Warn("jobs: it is not known whether schedules are dead", "error", err)
			failed = true
		}
		if !failed || sleep.For(ctx, sleep.Doubled(startPauseMin, attempt, startPauseMax)) != nil {
			return
		}
	}
}

// revive sends dead schedules back to their queue.
func (x *runner) revive(ctx context.Context) error {
	return x.each(ctx, func(page []broker.Job) error {
		for i := range page {
			job := &page[i]
			if job.State != broker.StateDead {
				continue
			}
			if err := x.decideOn(ctx, broker.Operation{Kind: broker.OpRedrive}, job); broker.StoreFailed(err) && err != nil {
				return err
			}
			x.log.Warn("jobs: a dead schedule was revived", "schedule", job.ID, "reason", job.Reason.String(),
				"error", job.Errors.Last().Message)
		}
		return nil
	})
}
