package observe_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/internal/chaintest"

	"github.com/seed81422ce9/jobs/middleware/observe"

	"go.opentelemetry.io/otel/trace"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/middleware"
)

const (
	traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	spanID  = "00f067aa0ba902b7"
)

// fullJob returns a job with everything that a line shows, and with secrets that
// it must not show.
func fullJob() *jobs.Job {
	return jobs.NewJob(&broker.Job{Queue: "mail", ID: "42",
		Body: broker.Body{Type: "mail:send", Payload: []byte("secret payload"), MaxRetries: 5, Key: "acme", CorrelationID: "order 7",
			Headers: map[string]string{"authorization": "secret header", "traceparent": "00-" + traceID + "-" + spanID + "-01"}},
		Head: broker.Head{Failures: 2, Deliveries: 3}})
}

// logged runs a handler inside of Logging and returns the lines.
func logged(ctx context.Context, t *testing.T, cfg observe.LoggingConfig, level slog.Level, h jobs.HandlerFunc,
	inside ...jobs.Middleware) (lines []map[string]any, text string) {
	t.Helper()
	var buf bytes.Buffer
	cfg.Logger = slog.New(slog.NewJSONHandler(&buf, &slog.HandlerOptions{Level: level}))
	func() {
		defer func() { _ = recover() }()
		_ = observe.Logging(cfg)(jobs.Chain(inside...)(h)).ProcessJob(ctx, fullJob())
	}()
	text = buf.String()
	for line := range strings.Lines(text) {
		m := map[string]any{}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, m)
	}
	return lines, text
}

func TestLogging_ALineTellsWhatBecameOfTheJobButNoPayload(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		h      jobs.HandlerFunc
		inside []jobs.Middleware
		level  string
		want   map[string]any
		absent []string
	}{
		{name: "completed", h: chaintest.Returning(nil), level: "INFO",
			want:   map[string]any{"msg": "job completed", "event": "job_completed", "outcome": "completed"},
			absent: []string{"error", "class", "code", "next_attempt_at", "stack"}},
		{name: "retried", h: chaintest.Returning(&middleware.HTTPError{StatusCode: 503, RetryAfter: time.Minute}),
			inside: []jobs.Middleware{middleware.Retry(middleware.RetryConfig{})}, level: "WARN",
			want: map[string]any{"event": "job_retried", "outcome": "retried", "class": "rate_limited", "code": "HTTP_503",
				"error": "HTTP status 503 Service Unavailable, retry after 1m0s"}},
		{name: "dead", h: chaintest.Returning(fmt.Errorf("%w: no such user", jobs.SkipRetry)), level: "ERROR",
			want: map[string]any{"event": "job_dead", "outcome": "dead", "class": "permanent", "error": "skip retry for this job: no such user"}},
		{name: "snoozed", h: chaintest.Returning(jobs.Snooze(time.Minute)), level: "INFO",
			want: map[string]any{"event": "job_snoozed", "outcome": "snoozed"}, absent: []string{"class"}},
		{name: "cancelled", h: chaintest.Returning(jobs.Cancel(nil)), level: "INFO",
			want: map[string]any{"event": "job_cancelled", "outcome": "cancelled", "class": "cancelled"}},
		{name: "panicked inside of Recovery", h: explodes, inside: []jobs.Middleware{middleware.Recovery(nil)}, level: "WARN",
			want: map[string]any{"event": "job_retried", "class": "panic", "error": "panic: boom"}},
		{name: "panicked through", h: explodes, level: "WARN",
			want: map[string]any{"event": "job_retried", "class": "panic"}, absent: []string{"stack"}},
	} {
		lines, text := logged(context.Background(), t, observe.LoggingConfig{}, slog.LevelInfo, c.h, c.inside...)
		if len(lines) != 1 {
			t.Errorf("%s: %d lines, want 1:\n%s", c.name, len(lines), text)
			continue
		}
		for key, value := range map[string]any{"level": c.level, "queue": "mail", "type": "mail:send", "id": "42", "attempt": 2.0,
			"delivery": 3.0, "key": "acme", "correlation_id": "order 7", "trace_id": traceID} {
			if lines[0][key] != value {
				t.Errorf("%s: %s is %v, want %v", c.name, key, lines[0][key], value)
			}
		}
		for key, value := range c.want {
			if lines[0][key] != value {
				t.Errorf("%s: %s is %v, want %v", c.name, key, lines[0][key], value)
			}
		}
		for _, key := range c.absent {
			if value, ok := lines[0][key]; ok {
				t.Errorf("%s: the line has %s=%v", c.name, key, value)
			}
		}
		if _, ok := lines[0]["duration"].(float64); !ok {
			t.Errorf("%s: the duration is %v", c.name, lines[0]["duration"])
		}
		if strings.Contains(text, "secret") {
			t.Errorf("%s: the line holds a payload or a header:\n%s", c.name, text)
		}
	}
}

func TestLogging_TheStackOfAPanicAndTheNextAttemptAreLogged(t *testing.T) {
	t.Parallel()
	lines, _ := logged(context.Background(), t, observe.LoggingConfig{}, slog.LevelInfo, explodes, middleware.Recovery(nil))
	if stack, _ := lines[0]["stack"].(string); !strings.Contains(stack, "explodes") {
		t.Errorf("the stack is %q", stack)
	}
	lines, _ = logged(context.Background(), t, observe.LoggingConfig{}, slog.LevelInfo,
		chaintest.Returning(jobs.RetryAfter(time.Hour, chaintest.ErrFlaky)))
	next, err := time.Parse(time.RFC3339, fmt.Sprint(lines[0]["next_attempt_at"]))
	if in := time.Until(next); err != nil || in < 59*time.Minute || in > time.Hour {
		t.Errorf("the next attempt is in %v (%v), want an hour", in, err)
	}
}

func TestLogging_TheTraceIsThatOfTheContextAndBadOnesAreLeftOut(t *testing.T) {
	t.Parallel()
	id, _ := trace.TraceIDFromHex("11111111111111111111111111111111")
	span, _ := trace.SpanIDFromHex("2222222222222222")
	ctx := trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: span}))
	lines, _ := logged(ctx, t, observe.LoggingConfig{}, slog.LevelInfo, chaintest.Returning(nil))
	if lines[0]["trace_id"] != id.String() || lines[0]["span_id"] != span.String() {
		t.Errorf("logged as %v of %v, want those of the context", lines[0]["span_id"], lines[0]["trace_id"])
	}
	for _, parent := range []string{"", "nonsense", "00-xyz-1-1", "00-" + strings.Repeat("0", 32) + "-" + spanID + "-01",
		strings.Repeat("x", 1<<20)} {
		var buf bytes.Buffer
		job := jobs.NewJob(&broker.Job{Body: broker.Body{Headers: map[string]string{"traceparent": parent}}})
		_ = chaintest.Call(observe.Logging(observe.LoggingConfig{Logger: slog.New(slog.NewJSONHandler(&buf, nil))}), job,
			chaintest.Returning(nil))
		if strings.Contains(buf.String(), "trace_id") {
			t.Errorf("the traceparent %.40q gave %s", parent, buf.String())
		}
	}
}

func TestLogging_WhatIsLoggedCanBeChosen(t *testing.T) {
	t.Parallel()
	cfg := observe.LoggingConfig{
		Level: func(jobs.Ending) slog.Level { return slog.LevelDebug },
		Attrs: func(_ context.Context, job *jobs.Job) []slog.Attr {
			return []slog.Attr{slog.Int("size", len(job.Payload()))}
		},
		ErrorText: func(error) string { return "redacted" },
	}
	lines, text := logged(context.Background(), t, cfg, slog.LevelDebug, chaintest.Returning(errors.New("secret")))
	if len(lines) != 2 || lines[0]["event"] != "job_started" || lines[1]["level"] != "DEBUG" ||
		lines[0]["size"] != 14.0 || lines[1]["size"] != 14.0 || lines[1]["error"] != "redacted" || strings.Contains(text, "secret") {
		t.Errorf("logged:\n%s", text)
	}
	if lines, text = logged(context.Background(), t, cfg, slog.LevelInfo, chaintest.Returning(nil)); len(lines) != 0 {
		t.Errorf("on a level that chaintest.Nobody wants was logged:\n%s", text)
	}
}

func TestLogging_ALongErrorIsCut(t *testing.T) {
	t.Parallel()
	lines, _ := logged(context.Background(), t, observe.LoggingConfig{}, slog.LevelInfo,
		chaintest.Returning(errors.New("x"+strings.Repeat("é", 1<<16))))
	if text, _ := lines[0]["error"].(string); len(text) > 4100 || strings.ContainsRune(text, '\uFFFD') {
		t.Errorf("%d bytes of the error were logged, ending in %q", len(text), text[max(0, len(text)-8):])
	}
}

func explodes(context.Context, *jobs.Job) error { panic("boom") }
