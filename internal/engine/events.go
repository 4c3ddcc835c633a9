package engine

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

const (
	maxEvents = 256 // that wait: as many as a heartbeat sends in many minutes
	// LastEvents is how long the drain waits at its end for events that are left.
	LastEvents = time.Second
)

// events calls hooks and writes log lines for the heartbeat in another goroutine, in
// order, so that a slow hook or log cannot make the heartbeat late. Further events are
// dropped and counted while maxEvents wait.
type events struct {
	log     *slog.Logger
	queue   chan func()
	dropped atomic.Int64
}

func newEvents(log *slog.Logger) *events {
	return &events{log: log, queue: make(chan func(), maxEvents)}
}

// call has f called later, unless too many events wait.
func (e *events) call(f func()) {
	select {
	case e.queue <- f:
	default:
		e.dropped.Add(1)
	}
}

// line writes a line to the log later.
func (e *events) line(level slog.Level, text string, args ...any) {
	e.call(func() { e.log.Log(context.Background(), level, text, args...) })
}

// run calls the events, until ctx has ended and none is left.
func (e *events) run(ctx context.Context) {
	for {
		select {
		case f := <-e.queue:
			e.one(f)
			continue
		case <-ctx.Done():
		}
		select {
		case f := <-e.queue:
			e.one(f)
		default:
			return
		}
	}
}

func (e *events) one(f func()) {
	f()
	if n := e.dropped.Swap(0); n > 0 {
		e.log.Error("jobs: the log or a hook is too slow, events of the heartbeat were dropped", "dropped", n)
	}
}
