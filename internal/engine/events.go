package engine

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

const (
	maxEvents   = 256         // that wait: minutes of a heartbeat's
	LastEvents  = time.Second // for those that are left when the drain is over
	eventsAlarm = "jobs: the log or a hook is too slow, events of the heartbeat were dropped"
)

// events are what the heartbeat has to tell, to the log and to hooks. Another
// goroutine tells it, in order, so that one which is slow cannot make the
// heartbeat late. What finds no room is dropped, and counted.
type events struct {
	queue   chan func()
	dropped atomic.Int64
}

// later has f called, unless too many wait already.
func (s *Server) later(f func()) {
	select {
	case s.events.queue <- f:
	default:
		s.events.dropped.Add(1)
	}
}

// logLater writes a line to the log later.
func (s *Server) logLater(level slog.Level, text string, args ...any) {
	s.later(func() { s.log.Log(context.Background(), level, text, args...) })
}

// tellEvents calls what waits, until ctx ends and nothing is left.
func (s *Server) tellEvents(ctx context.Context) {
	tell := func(f func()) {
		f()
		if n := s.events.dropped.Swap(0); n > 0 {
			s.log.Error(eventsAlarm, "dropped", n)
		}
	}
	for {
		select {
		case f := <-s.events.queue:
			tell(f)
			continue
		case <-ctx.Done():
		}
		select {
		case f := <-s.events.queue:
			tell(f)
		default:
			return
		}
	}
}
