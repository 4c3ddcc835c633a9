package guard

import "log/slog"

// Callbacks calls what an application wants to be told. It decides nothing, so
// a failure of it is logged and does no harm. The zero value is ready to use.
type Callbacks struct {
	Log     *slog.Logger // nil means slog.Default() at the time
	reports Reports
}

// Call calls f, which the log names as name.
func (c *Callbacks) Call(name string, f func()) {
	failed := Call(f)
	if failed == nil {
		return
	}
	c.reports.Report(Logger(c.Log), name, slog.LevelError, "jobs: a callback of middleware failed",
		"callback", name, "error", failed, "stack", failed.Stack)
}
