package guard

import "log/slog"

// Callbacks calls the callbacks of an application. A callback that fails is logged and does no other
// harm. The zero value is ready to use.
type Callbacks struct {
	Log     *slog.Logger // nil means slog.Default() at the time of the call
	reports Reports
}

// Call calls f. The log names f as name.
func (c *Callbacks) Call(name string, f func()) {
	failed := Call(f)
	if failed == nil {
		return
	}
	c.reports.Report(Logger(c.Log), name, slog.LevelError, "jobs: a callback of middleware failed",
		"callback", name, "error", failed, "stack", failed.Stack)
}
