package workflow

import (
	"context"
	"log/slog"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/internal/guard"
	"github.com/seed81422ce9/jobs/internal/reserved"
)

// ExtensionConfig says how a server runs workflows. The zero value is ready to
// use.
type ExtensionConfig struct {
	// Concurrency is how many workflows a server runs at once; a run takes about
	// a millisecond, and more with thousands of nodes. Zero means 8, the maximum
	// is 1000.
	Concurrency int
	// Logger gets what an operator should know: workflows that cannot run. Nil
	// means slog.Default().
	Logger *slog.Logger
}

// Extension makes a server run the workflows of the store. Put it into
// jobs.Config.Extensions of every server that runs nodes. The client stores the
// nodes that handlers add; close it after the server. Extension panics if the
// client has no broker.
func Extension(client *jobs.Client, cfg ExtensionConfig) jobs.Extension {
	if client.Broker() == nil {
		panic("jobs/workflow: Extension: the client is nil, or is one of a transaction")
	}
	x := &runner{store: store{reserved.Bounded(client.Broker())}, client: client, log: guard.Logger(cfg.Logger)}
	x.nudges.init()
	return jobs.Extension{Queue: Queue, Handler: x, Concurrency: cfg.Concurrency, Middleware: x.middleware,
		Settled: x.nudges.settled, Start: func(ctx context.Context) { x.loop(ctx) }, Once: x.once}
}
