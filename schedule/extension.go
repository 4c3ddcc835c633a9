package schedule

import (
	"context"
	"log/slog"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/internal/guard"
)

// ExtensionConfig says how a server runs schedules. The zero value is ready to
// use.
type ExtensionConfig struct {
	// Definitions are put when the server starts, as by Put: schedules that were
	// deleted from the store come back. NewServer refuses invalid definitions. A
	// schedule that is no longer defined here stays and ticks; Sync or Delete ends it.
	Definitions []Definition
	// Concurrency is how many schedules a server runs at once; a run takes about
	// a millisecond. Zero means 8, the maximum is 1000.
	Concurrency int
	// Logger gets what an operator should know: ticks that were refused, and
	// schedules that cannot run. Nil means slog.Default().
	Logger *slog.Logger
}

// Extension makes a server run the schedules of every owner in the store; put it
// into jobs.Config.Extensions. The client enqueues the ticks' jobs, with its
// middleware; close it after the server. The server revives dead schedules when
// it starts and every 15 minutes. Extension panics if the client has no broker.
func (s *Schedules) Extension(client *jobs.Client, cfg ExtensionConfig) jobs.Extension {
	if client.Broker() == nil {
		panic("jobs/schedule: Extension: the client is nil, or is one of a transaction")
	}
	x := &runner{Schedules: s, client: client, log: guard.Logger(cfg.Logger)}
	return jobs.Extension{Queue: Queue, Handler: x, Concurrency: cfg.Concurrency,
		Err:   s.checkDefinitions(context.Background(), cfg.Definitions),
		Start: func(ctx context.Context) { x.care(ctx, cfg.Definitions) },
		Once: func(ctx context.Context, begin bool) error {
			if !begin {
				return nil
			}
			return x.once(ctx, cfg.Definitions)
		}}
}
