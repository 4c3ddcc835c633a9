package schedule

import (
	"context"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/reserved"
	"github.com/seed81422ce9/jobs/internal/sleep"
)

// The pauses between attempts to put the server's definitions and to revive dead
// schedules while the store cannot be reached.
const (
	startPauseMin = time.Second
	startPauseMax = time.Minute
)

// carePause is how often a server checks for dead and missing schedules: rarely,
// because the framework itself never ends a schedule.
const carePause = 15 * time.Minute

// care puts the server's definitions. Then it revives dead schedules and counts
// missing ones until the server drains.
func (x *runner) care(ctx context.Context, definitions []Definition) {
	x.start(ctx, definitions)
	defer x.missing.Store(0)
	for ctx.Err() == nil {
		missing, err := x.countMissing(ctx, definitions)
		if err == nil {
			x.missing.Store(int64(missing))
			_ = sleep.For(ctx, sleep.Jitter(carePause, 0.5))
			err = x.revive(ctx)
		}
		if err != nil && ctx.Err() == nil {
			x.log.Warn("jobs: the schedules could not be checked", "error", err)
			_ = sleep.For(ctx, sleep.Jitter(startPauseMax, 0.5))
		}
	}
}

// start puts the server's definitions and revives dead schedules. It retries until it succeeds or the
// server drains.
func (x *runner) start(ctx context.Context, definitions []Definition) {
	for attempt := 0; ; attempt++ {
		var left []Definition
		failed := false
		for _, d := range definitions {
			_, err := x.put(ctx, d)
			if err == nil || ctx.Err() != nil {
				continue
			}
			x.log.Error("jobs: a schedule could not be stored", "schedule", d.ID, "error", err)
			if broker.StoreFailed(err) {
				failed, left = true, append(left, d)
			}
		}
		definitions = left
		if err := x.revive(ctx); err != nil && ctx.Err() == nil {
			x.log.Warn("jobs: cannot tell whether schedules are dead", "error", err)
			failed = true
		}
		if !failed || sleep.For(ctx, sleep.Doubled(startPauseMin, attempt, startPauseMax)) != nil {
			return
		}
	}
}

// once puts the server's definitions and revives dead schedules.
func (x *runner) once(ctx context.Context, definitions []Definition) error {
	for _, d := range definitions {
		if _, err := x.put(ctx, d); err != nil {
			return err
		}
	}
	return x.revive(ctx)
}

// revive sends dead schedules back to their queue.
func (x *runner) revive(ctx context.Context) error {
	q := broker.Query{Queue: Queue, State: broker.StateDead, Suppressed: true, NoPayload: true, Limit: pageSize}
	return reserved.Each(ctx, x.broker, q, func(page []broker.Job) error {
		for i := range page {
			job := &page[i]
			err := x.decideOn(ctx, broker.Operation{Kind: broker.OpRedrive}, job)
			switch {
			case broker.StoreFailed(err):
				return err
			case err != nil:
				x.log.Warn("jobs: a dead schedule was not revived", "schedule", job.ID, "error", err)
			default:
				x.log.Warn("jobs: a dead schedule was revived", "schedule", job.ID, "reason", job.Reason.String(),
					"error", job.Errors.Last().Message)
			}
		}
		return nil
	})
}

// countMissing counts the definitions that the store does not have.
func (x *runner) countMissing(ctx context.Context, definitions []Definition) (missing int, err error) {
	for some := range slices.Chunk(definitions, pageSize) {
		q := broker.Query{Queue: Queue, Suppressed: true, NoPayload: true}
		for _, d := range some {
			q.IDs = append(q.IDs, d.ID)
		}
		there := make(map[string]bool, len(some))
		err := reserved.Each(ctx, x.broker, q, func(page []broker.Job) error { // a page ends early if its jobs are large
			for i := range page {
				there[page[i].ID] = true
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
		for _, id := range q.IDs {
			if !there[id] {
				missing++
				x.log.Error("jobs: a schedule that this program defines is not in the store; it comes back when a server starts",
					"schedule", id)
			}
		}
	}
	return missing, nil
}

// Missing returns how many definitions of this process's servers are not in the
// store: somebody deleted them, the store lost them, or they were refused. The
// servers check when they start and every 15 minutes.
// observe.MetricsConfig.Schedules reports the number.
func (s *Schedules) Missing() int { return int(s.missing.Load()) }
