package observe

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/internal/guard"
)

// LoggingConfig configures Logging. The zero value is ready to use.
type LoggingConfig struct {
	// Logger gets the lines. Nil means slog.Default(), as it is when Logging is
	// called.
	Logger *slog.Logger

	// Level says how important the end of a run is. Nil means: completed,
	// snoozed, cancelled and released Info, retried Warn, dead and expired Error.
	Level func(e jobs.Ending) slog.Level

	// Attrs adds attributes to a line: the only way for a payload to get into the
	// log. It is not called for lines that Logger does not write. It may be nil.
	Attrs func(ctx context.Context, job *jobs.Job) []slog.Attr

	// ErrorText returns the text to log for an error; set it if errors may hold secrets. Nil means the
	// error's message. At most 4 KiB of the text are logged.
	ErrorText func(err error) string
}

const (
	maxErrorText = 4 << 10
	usualAttrs   = 20 // enough for most lines, so that their slice stays on the stack
)

// endLine has the event and the message of the line at the end of a run, by outcome.
var endLine = map[string][2]string{
	jobs.EndedCompleted: {"job_completed", "job completed"},
	jobs.EndedRetried:   {"job_retried", "job retried"},
	jobs.EndedDead:      {"job_dead", "job dead"},
	jobs.EndedExpired:   {"job_expired", "job expired"},
	jobs.EndedSnoozed:   {"job_snoozed", "job snoozed"},
	jobs.EndedCancelled: {"job_cancelled", "job cancelled"},
	jobs.EndedReleased:  {"job_released", "job released"},
}

// Logging writes a line for the beginning of each run, on level Debug, and one
// for its end. Payloads, results and headers are not logged.
//
// The attributes are those of the server's own log: event (job_started,
// job_completed, job_retried, job_dead, job_expired, job_snoozed,
// job_cancelled, job_released), queue, type, id, attempt (the failures before
// this run) and delivery; key, correlation_id, trace_id and span_id if the job
// has them; at the end also outcome and duration, and after an error its class,
// code and text, next_attempt_at if the error sets it, and the stack of a panic.
// The trace is that of the context or, without one, of the job's traceparent;
// so use Logging inside of Tracing.
//
// The outcome is the one that the chain inside of Logging decides; see
// jobs.EndingOf for what can still change it. A panic is logged without its text
// unless Recovery inside of Logging has caught it.
func Logging(cfg LoggingConfig) jobs.Middleware {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	cfg.guard()
	return func(next jobs.Handler) jobs.Handler {
		return jobs.HandlerFunc(func(ctx context.Context, job *jobs.Job) (err error) {
			cfg.begin(ctx, job)
			began := time.Now()
			returned := false
			defer func() {
				seen := err
				if !returned {
					seen = errUnwound
				}
				cfg.end(ctx, job, seen, time.Since(began))
			}()
			err = next.ProcessJob(ctx, job)
			returned = true
			return err
		})
	}
}

// guard protects runs from the application's callbacks: a run must not fail because of a log line.
func (cfg *LoggingConfig) guard() {
	told := &guard.Callbacks{Log: cfg.Logger}
	level, attrs, text := cfg.Level, cfg.Attrs, cfg.ErrorText
	cfg.Level, cfg.ErrorText = levelOf, func(err error) string { return guard.Text(err) }
	if level != nil {
		cfg.Level = func(e jobs.Ending) slog.Level {
			l := levelOf(e)
			told.Call("LoggingConfig.Level", func() { l = level(e) })
			return l
		}
	}
	if attrs != nil {
		cfg.Attrs = func(ctx context.Context, job *jobs.Job) (a []slog.Attr) {
			told.Call("LoggingConfig.Attrs", func() { a = attrs(ctx, job) })
			return a
		}
	}
	if text != nil {
		cfg.ErrorText = func(err error) string {
			t := "(LoggingConfig.ErrorText failed)" // not the error's own text, which may hold secrets
			told.Call("LoggingConfig.ErrorText", func() { t = text(err) })
			return t
		}
	}
}

// errUnwound stands for a panic, or a runtime.Goexit, that passes through Logging.
var errUnwound error = &jobs.PanicError{Value: "not caught inside of Logging"}

// begin logs the beginning of a run.
func (cfg *LoggingConfig) begin(ctx context.Context, job *jobs.Job) {
	defer loseLine()
	if cfg.Logger.Enabled(ctx, slog.LevelDebug) {
		var room [usualAttrs]slog.Attr
		cfg.Logger.LogAttrs(ctx, slog.LevelDebug, "job started", cfg.attrs(ctx, room[:0], job, "job_started")...)
	}
}

// loseLine, when deferred, drops a line whose logger panics. Unlike the callbacks, the logger does not
// run in its own goroutine, since there is a line for each job.
func loseLine() { _ = recover() }

// end logs the end of a run.
func (cfg *LoggingConfig) end(ctx context.Context, job *jobs.Job, err error, took time.Duration) {
	defer loseLine()
	e := jobs.EndingOf(ctx, job, err)
	level := cfg.Level(e)
	if !cfg.Logger.Enabled(ctx, level) {
		return
	}
	line := endLine[e.Outcome]
	var room [usualAttrs]slog.Attr
	attrs := append(cfg.attrs(ctx, room[:0], job, line[0]), slog.String("outcome", e.Outcome), slog.Duration("duration", took))
	if err != nil {
		if e.Class != "" {
			attrs = append(attrs, slog.String("class", e.Class))
		}
		if e.Code != "" {
			attrs = append(attrs, slog.String("code", e.Code))
		}
		if e.Delay > 0 {
			attrs = append(attrs, slog.Time("next_attempt_at", time.Now().Add(e.Delay)))
		}
		text := cfg.ErrorText(err)
		if len(text) > maxErrorText {
			text = strings.ToValidUTF8(text[:maxErrorText], "") + "…"
		}
		attrs = append(attrs, slog.String("error", text))
		var p *jobs.PanicError
		if guard.Call(func() { errors.As(err, &p) }) == nil && p != nil && p.Stack != "" {
			attrs = append(attrs, slog.String("stack", p.Stack))
		}
	}
	cfg.Logger.LogAttrs(ctx, level, line[1], attrs...)
}

// attrs appends the attributes that every line has.
func (cfg *LoggingConfig) attrs(ctx context.Context, attrs []slog.Attr, job *jobs.Job, event string) []slog.Attr {
	attrs = append(attrs, slog.String("event", event),
		slog.String("queue", job.Queue()), slog.String("type", job.Type()), slog.String("id", job.ID()),
		slog.Int("attempt", job.Attempt()), slog.Int("delivery", job.Delivery()))
	if key := job.PartitionKey(); key != "" {
		attrs = append(attrs, slog.String("key", key))
	}
	if id := job.CorrelationID(); id != "" {
		attrs = append(attrs, slog.String("correlation_id", id))
	}
	if span := trace.SpanContextFromContext(ctx); span.HasTraceID() {
		attrs = append(attrs, slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	} else if producer := parseTraceparent(job.Header("traceparent")); producer.HasTraceID() {
		attrs = append(attrs, slog.String("trace_id", producer.TraceID().String()))
	}
	if cfg.Attrs != nil {
		attrs = append(attrs, cfg.Attrs(ctx, job)...)
	}
	return attrs
}

func levelOf(e jobs.Ending) slog.Level {
	switch e.Outcome {
	case jobs.EndedRetried:
		return slog.LevelWarn
	case jobs.EndedDead, jobs.EndedExpired:
		return slog.LevelError
	}
	return slog.LevelInfo
}
