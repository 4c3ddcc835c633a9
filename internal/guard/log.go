package guard

import (
	"context"
	"errors"
	"log/slog"
)

// Logger returns a logger that guards the handler of l: if the handler fails, the record is lost. For
// nil it uses slog.Default().
func Logger(l *slog.Logger) *slog.Logger {
	if l == nil {
		l = slog.Default()
	}
	if _, ok := l.Handler().(logHandler); ok {
		return l
	}
	return slog.New(logHandler{l.Handler()})
}

type logHandler struct{ slog.Handler }

// Enabled returns false if the handler fails.
func (h logHandler) Enabled(ctx context.Context, level slog.Level) (enabled bool) {
	Call(func() { enabled = h.Handler.Enabled(ctx, level) })
	return enabled
}

func (h logHandler) Handle(ctx context.Context, r slog.Record) (err error) {
	if failed := Call(func() { err = h.Handler.Handle(ctx, r) }); failed != nil {
		return errors.New(failed.Error())
	}
	return err
}

// WithAttrs returns h unchanged if the handler fails.
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.with(func() slog.Handler { return h.Handler.WithAttrs(attrs) })
}

func (h logHandler) WithGroup(name string) slog.Handler {
	return h.with(func() slog.Handler { return h.Handler.WithGroup(name) })
}

func (h logHandler) with(change func() slog.Handler) slog.Handler {
	var changed slog.Handler
	if Call(func() { changed = change() }) != nil || changed == nil {
		return h
	}
	return logHandler{changed}
}
