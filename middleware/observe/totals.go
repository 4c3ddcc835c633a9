package observe

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/guard"
)

// TotalsConfig configures Totals. The zero value is ready to use.
type TotalsConfig struct {
	// Interval is the time between two lines. Zero or less means one minute.
	Interval time.Duration

	// Logger gets the lines, on level Info. Nil means slog.Default(), as it is when
	// Totals is called.
	Logger *slog.Logger
}

const defaultTotalsInterval = time.Minute

// Totals makes a server log, at intervals, how its runs have ended since the last
// line: completed, retried (after a failure), dead, cancelled, snoozed and
// released. It is for programs whose metrics are not collected. Add it to
// jobs.Config.Extensions, one for each server. An interval without runs has no
// line. The last line is logged when the server begins to drain.
func Totals(cfg TotalsConfig) jobs.Extension {
	if cfg.Interval <= 0 {
		cfg.Interval = defaultTotalsInterval
	}
	t := &totals{interval: cfg.Interval, log: guard.Logger(cfg.Logger)}
	return jobs.Extension{Start: t.run, Settled: t.count}
}

// totals counts the runs that a server has settled since the last line.
type totals struct {
	interval time.Duration
	log      *slog.Logger
	ended    [broker.OutcomeKeep]atomic.Int64 // by kind
}

// shown lists the kinds in a line, with their names.
var shown = []struct {
	kind broker.OutcomeKind
	name string
}{
	{broker.OutcomeComplete, "completed"}, {broker.OutcomeRetry, "retried"}, {broker.OutcomeDie, "dead"},
	{broker.OutcomeCancel, "cancelled"}, {broker.OutcomeSnooze, "snoozed"}, {broker.OutcomeRelease, "released"},
}

// count counts the outcomes of the application's jobs that the store has accepted.
func (t *totals) count(e jobs.SettleEvent) {
	for i, v := range e.Verdicts {
		if kind := e.Items[i].Outcome.Kind(); v.Err == nil && kind < broker.OutcomeKeep && !broker.Reserved(v.Queue) {
			t.ended[kind].Add(1)
		}
	}
}

// run logs a line at each interval until ctx ends.
func (t *totals) run(ctx context.Context) {
	tick := time.NewTicker(t.interval)
	defer tick.Stop()
	since := time.Now()
	for {
		select {
		case <-tick.C:
			t.line(ctx, time.Since(since))
			since = time.Now()
		case <-ctx.Done():
			t.line(ctx, time.Since(since))
			return
		}
	}
}

func (t *totals) line(ctx context.Context, span time.Duration) {
	defer loseLine()
	attrs, sum := []slog.Attr{slog.Duration("span", span.Round(time.Millisecond))}, int64(0)
	for _, s := range shown {
		n := t.ended[s.kind].Swap(0)
		sum += n
		attrs = append(attrs, slog.Int64(s.name, n))
	}
	if sum > 0 {
		t.log.LogAttrs(ctx, slog.LevelInfo, "jobs: totals", attrs...)
	}
}
