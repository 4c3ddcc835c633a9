package middleware

import (
	"log/slog"

	"github.com/seed81422ce9/jobs/internal/guard"
)

// callbacks calls what an application wants to be told. It decides nothing, so
// a failure of it is logged and does the run no harm.
type callbacks struct {
	log     *slog.Logger // nil means slog.Default() at the time
	reports guard.Reports
}

func (c *callbacks) call(name string, f func()) {
	failed := guard.Call(f)
	if failed == nil {
		return
	}
	c.reports.Report(guard.Logger(c.log), name, slog.LevelError, "jobs: a callback of middleware failed",
		"callback", name, "error", failed, "stack", failed.Stack)
}
