package guard_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/internal/guard"
)

// nilError is an error whose nil pointer cannot be read.
type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

// badError has methods that do as they are told.
type badError struct{ text, is, as, unwrap func() }

func (e badError) Error() string { run(e.text); return "bad" }
func (e badError) Is(error) bool { run(e.is); return false }
func (e badError) As(any) bool   { run(e.as); return false }
func (e badError) Unwrap() error { run(e.unwrap); return nil }
func run(f func()) {
	if f != nil {
		f()
	}
}

// nested panics with itself when it is asked for its text.
type nested struct{}

func (n nested) Error() string { panic(n) }

func TestCall_TellsWhatDidNotReturn(t *testing.T) {
	t.Parallel()
	if failed := guard.Call(func() {}); failed != nil {
		t.Errorf("a function that returned failed: %v", failed)
	}
	for name, c := range map[string]struct {
		f    func()
		text string
	}{
		"a panic":              {func() { panic("lost") }, "panic: lost"},
		"a panic with nil":     {func() { panic(nil) }, "panic called with nil argument"},
		"a panic with itself":  {func() { panic(nested{}) }, "whose text cannot be read"},
		"a panic with nothing": {func() { panic((*nilError)(nil)) }, "a nil *guard_test.nilError"},
		"a runtime error":      {func() { var m map[string]int; m["a"] = 1 }, "nil map"},
		"Goexit":               {runtime.Goexit, "runtime.Goexit"},
	} {
		t.Run(name, func(t *testing.T) {
			failed := guard.Call(c.f)
			if failed == nil || !strings.Contains(failed.Error(), c.text) {
				t.Fatalf("failed with %v, want a text with %q", failed, c.text)
			}
			if stack := failed.Value != nil; stack != strings.Contains(failed.Stack, "guard_test") && name != "a panic with nil" {
				t.Errorf("the stack is %q", failed.Stack)
			}
		})
	}
}

func TestError_ReplacesWhatCannotBeUsed(t *testing.T) {
	t.Parallel()
	if err := guard.Error(nil); err != nil {
		t.Errorf("nil became %v", err)
	}
	sound := fmt.Errorf("sound: %w", errors.New("cause"))
	if err := guard.Error(sound); err != sound {
		t.Errorf("a sound error became %v", err)
	}
	boom := func() { panic("boom") }
	for name, c := range map[string]struct {
		err  error
		text string
	}{
		"a nil pointer":         {(*nilError)(nil), "a nil *guard_test.nilError in an interface"},
		"Error panics":          {badError{text: boom}, "boom"},
		"Is panics":             {badError{is: boom}, "boom"},
		"As panics":             {badError{as: boom}, "boom"},
		"Unwrap panics":         {badError{unwrap: boom}, "boom"},
		"Error calls Goexit":    {badError{text: runtime.Goexit}, "Goexit"},
		"Unwrap calls Goexit":   {badError{unwrap: runtime.Goexit}, "Goexit"},
		"it panics with itself": {nested{}, "a guard_test.nested"},
		"deep in a chain":       {fmt.Errorf("outer: %w", badError{as: boom}), "boom"},
	} {
		t.Run(name, func(t *testing.T) {
			err := guard.Error(c.err)
			if err == nil || !strings.Contains(err.Error(), c.text) {
				t.Errorf("became %v, want a text with %q", err, c.text)
			}
			if errors.Unwrap(err) != nil {
				t.Error("what replaces it still leads to it")
			}
		})
	}
}

// badHandler is a handler of logs that fails where it is told to.
type badHandler struct {
	slog.Handler
	fail string
	how  func()
}

func (h badHandler) at(place string) {
	if h.fail == place {
		h.how()
	}
}
func (h badHandler) Enabled(ctx context.Context, l slog.Level) bool {
	h.at("Enabled")
	return h.Handler.Enabled(ctx, l)
}
func (h badHandler) Handle(ctx context.Context, r slog.Record) error {
	h.at("Handle")
	return h.Handler.Handle(ctx, r)
}
func (h badHandler) WithAttrs(a []slog.Attr) slog.Handler {
	h.at("WithAttrs")
	return h.Handler.WithAttrs(a)
}
func (h badHandler) WithGroup(n string) slog.Handler {
	h.at("WithGroup")
	return h.Handler.WithGroup(n)
}

func TestLogger_SurvivesItsHandler(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"", "Enabled", "Handle", "WithAttrs", "WithGroup"} {
		for name, how := range map[string]func(){"panics": func() { panic("log") }, "ends its goroutine": runtime.Goexit} {
			t.Run(place+" "+name, func(t *testing.T) {
				var out bytes.Buffer
				log := guard.Logger(slog.New(badHandler{slog.NewTextHandler(&out, nil), place, how}))
				log.Info("plain")
				log.With("a", 1).Info("with")
				log.WithGroup("g").Info("grouped", "b", 2)
				lost := place == "Enabled" || place == "Handle"
				if got := strings.Count(out.String(), "\n"); lost && got > 2 || !lost && got != 3 {
					t.Errorf("%d lines were written:\n%s", got, out.String())
				}
			})
		}
	}
	if again := guard.Logger(nil); guard.Logger(again) != again {
		t.Error("a guarded logger is guarded again")
	}
}

func TestReports_WriteALineForEachSubjectNowAndThen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, nil))
		var r guard.Reports
		lines := func() string { defer out.Reset(); return out.String() }
		for range 5 {
			r.Report(log, "a", slog.LevelWarn, "about a")
			r.Report(log, "b", slog.LevelError, "about b")
		}
		if got := lines(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "level=ERROR") {
			t.Errorf("ten lines about two subjects:\n%s", got)
		}
		time.Sleep(10*time.Second - 1)
		if r.Report(log, "a", slog.LevelWarn, "about a"); lines() != "" {
			t.Error("a second line came within ten seconds")
		}
		time.Sleep(1)
		if r.Report(log, "a", slog.LevelWarn, "about a"); !strings.Contains(lines(), "left_out=5") {
			t.Error("the second line does not say that five were left out")
		}
		r.Flush(log, false)
		if got := lines(); !strings.Contains(got, "about=b left_out=4") || strings.Contains(got, "about=a") {
			t.Errorf("after ten seconds of silence about b:\n%s", got)
		}
		if r.Flush(log, true); lines() != "" {
			t.Error("lines were left out of which none was")
		}
		// A subject for each job: they share a line in the end.
		for i := range 2000 {
			r.Report(log, fmt.Sprint("subject ", i), slog.LevelWarn, "many")
		}
		if got := strings.Count(lines(), "many"); got != 1001 {
			t.Errorf("2000 subjects at once got %d lines, want 1001", got)
		}
		if r.Flush(log, true); !strings.Contains(lines(), "left_out=999") {
			t.Error("what the shared line left out is not told")
		}
	})
}
