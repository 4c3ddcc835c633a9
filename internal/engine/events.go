package engine

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

const (
	maxEvents = 256 // that wait: minutes of a heartbeat's
	// LastEvents is how long those have that are left when the drain is over.
	LastEvents = time.Second
)

// events are what the heartbeat has to tell, to the log and to hooks. Another
// goroutine tells it, in order, so that one which is slow cannot make the
// heartbeat late. What finds no room is dropped, and counted.
type events struct {
	log     *slog.Logger
	queue   chan func()
	dropped atomic.Int64
}

func newEvents(log *slog.Logger) *events {
	return &events{log: log, queue: make(chan func(), maxEvents)}
}

// call has f called later, unless too many wait already.
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

// tell calls what waits, until ctx ends and nothing is left.
func (e *events) tell(ctx context.Context) {
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
