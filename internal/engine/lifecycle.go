package engine

import (
	"context"
	"fmt"
)

// Start begins to run jobs by a policy. Their contexts have the values of values, and
// do not end with it. It returns false if the server was started or shut down before.
func (s *Server) Start(values context.Context, p Policy) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started {
		return false
	}
	s.started = true
	s.policy, s.values = p, context.WithoutCancel(values)
	go s.supervise()
	return true
}

// Drain begins the drain, if it has not begun. It does not wait.
func (s *Server) Drain() { s.drain(nil) }

// Hurry skips the drain's wait for handlers.
func (s *Server) Hurry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isForced {
		s.isForced = true
		close(s.forced)
	}
}

// Draining is closed when the drain begins.
func (s *Server) Draining() <-chan struct{} { return s.draining }

// Done is closed when the drain is over.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err says what was left when the drain was over, or why the server could not go
// on. Call it after Done is closed.
func (s *Server) Err() error { return s.err }

// Shutdown drains the server, waits for the end and returns Err. If ctx ends first, it
// hurries the drain and returns the context's error. A server that was not started
// ends at once.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	if !s.started {
		s.started = true
		close(s.done)
	}
	s.mu.Unlock()
	s.Drain()
	select {
	case <-s.done:
		return s.err
	case <-ctx.Done():
	}
	select {
	case <-s.done: // both ends came; the one of the drain tells more
		return s.err
	default:
		s.Hurry()
		return fmt.Errorf("jobs: shutdown: %w", ctx.Err())
	}
}

// drain begins the drain. err says why the server cannot go on; it is nil when the
// caller asked for the drain.
func (s *Server) drain(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drainLocked(err)
}

func (s *Server) drainLocked(err error) {
	if !s.isDrain {
		s.isDrain, s.fatal = true, err
		s.slots.close()
		close(s.draining)
	}
}

// over reports whether the drain has begun.
func (s *Server) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isDrain
}
