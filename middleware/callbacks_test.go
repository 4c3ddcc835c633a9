package middleware_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/internal/chaintest"

	"github.com/seed81422ce9/jobs/middleware/observe"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/middleware"
)

// A callback is told what happened. Whatever it does, what happened stays.
func TestCallbacks_DecideNothingWhenTheyFail(t *testing.T) {
	t.Parallel()
	for way, fail := range map[string]func(){"panics": func() { panic("callback") }, "ends its goroutine": runtime.Goexit} {
		marks := membroker.New()
		dedup := middleware.Dedup(middleware.DedupConfig{Marks: marks, Key: (*jobs.Job).Type,
			OnDuplicate: func(context.Context, *jobs.Job) { fail() }})
		limit := middleware.RateLimit(middleware.RateLimitConfig{Runs: 1, Per: time.Hour,
			OnLimited: func(context.Context, *jobs.Job, time.Duration) { fail() }})
		breaker := middleware.Breaker(middleware.BreakerConfig{Failures: 1,
			OnChange:  func(string, middleware.BreakerState, middleware.BreakerState) { fail() },
			OnRefused: func(context.Context, *jobs.Job, time.Duration) { fail() }})
		var log strings.Builder
		logging := observe.Logging(observe.LoggingConfig{Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Level:     func(jobs.Ending) slog.Level { fail(); return 0 },
			Attrs:     func(context.Context, *jobs.Job) []slog.Attr { fail(); return nil },
			ErrorText: func(error) string { fail(); return "" }})
		recovery := middleware.Recovery(func(context.Context, *jobs.Job, *jobs.PanicError) { fail() })
		for _, c := range []struct {
			name    string
			chain   jobs.Middleware
			handler error
			want    []string // outcomes of the runs
		}{
			{"OnDuplicate", dedup, nil, []string{jobs.EndedCompleted, jobs.EndedCompleted}},
			{"OnLimited", limit, nil, []string{jobs.EndedCompleted, jobs.EndedSnoozed}},
			{"OnChange and OnRefused", breaker, chaintest.ErrFlaky, []string{jobs.EndedRetried, jobs.EndedSnoozed}},
			{"those of Logging", logging, nil, []string{jobs.EndedCompleted}},
			{"those of Logging, for an error", logging, jobs.SkipRetry, []string{jobs.EndedDead}},
			{"none of Recovery's", recovery, nil, []string{jobs.EndedCompleted}},
		} {
			t.Run(c.name+" "+way, func(t *testing.T) {
				for i, want := range c.want {
					job := chaintest.AJob("a")
					err := chaintest.Call(c.chain, job, chaintest.Returning(c.handler))
					if e := jobs.EndingOf(t.Context(), job, err); e.Outcome != want {
						t.Errorf("run %d ends %s (%v), want %s", i, e.Outcome, err, want)
					}
				}
			})
		}
		for _, line := range []string{"job completed", "job dead", "LoggingConfig.ErrorText failed"} {
			if !strings.Contains(log.String(), line) {
				t.Errorf("the log has no line with %q:\n%s", line, log.String())
			}
		}
		if strings.Contains(log.String(), "skip retry") {
			t.Error("the text of an error that ErrorText was to hide was logged")
		}
		err := chaintest.Call(recovery, chaintest.AJob("a"), jobs.HandlerFunc(func(context.Context, *jobs.Job) error { panic("handler") }))
		if p := new(jobs.PanicError); !errors.As(err, &p) || p.Value != "handler" || !strings.Contains(err.Error(), "onPanic failed") {
			t.Errorf("with an onPanic that %s the run gets %v", way, err)
		}
	}
}

// panickingLog fails with each line.
type panickingLog struct{ slog.Handler }

func (panickingLog) Enabled(context.Context, slog.Level) bool  { return true }
func (panickingLog) Handle(context.Context, slog.Record) error { panic("log") }

func TestLogging_LosesALineRatherThanARun(t *testing.T) {
	t.Parallel()
	m := observe.Logging(observe.LoggingConfig{Logger: slog.New(panickingLog{slog.DiscardHandler}),
		Level: func(jobs.Ending) slog.Level { return 0 }})
	if err := chaintest.Call(m, chaintest.AJob("a"), chaintest.Returning(nil)); err != nil {
		t.Errorf("a run that went well gets %v from its log", err)
	}
}

// nilText is an error whose nil pointer cannot be read.
type nilText struct{ text string }

func (e *nilText) Error() string { return e.text }

func TestRecovery_ShowsTheChainAnErrorThatCanBeRead(t *testing.T) {
	t.Parallel()
	err := chaintest.Call(middleware.Recovery(nil), chaintest.AJob("a"), chaintest.Returning((*nilText)(nil)))
	if err == nil || !strings.Contains(err.Error(), "a nil *middleware_test.nilText") {
		t.Errorf("a typed nil became %v", err)
	}
}
