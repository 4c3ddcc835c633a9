package engine

import (
	"errors"
	"fmt"
	"time"
)

// Ready returns nil while the server works; Server.Ready of package jobs says what that
// means. Otherwise the error says what is wrong. It makes no call to the store.
func (s *Server) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	switch {
	case !s.started:
		return errors.New("jobs: not ready: the server was not started")
	case s.isDrain:
		select {
		case <-s.done:
			return errors.New("jobs: not ready: the server has ended")
		default:
			return errors.New("jobs: not ready: the server is draining")
		}
	case s.worker == nil || !s.worker.registered:
		if away := &s.unregistered; away.failures > 0 {
			return fmt.Errorf("jobs: not ready: no worker is registered with the store, tried %d times in %v: %w",
				away.failures, now.Sub(away.since).Round(time.Millisecond), away.err)
		}
		return errors.New("jobs: not ready: no worker is registered with the store")
	case 2*s.stuck.count >= s.opts.Concurrency:
		return fmt.Errorf("jobs: not ready: stuck handlers hold %d of %d slots", s.stuck.count, s.opts.Concurrency)
	}
	if away := &s.unrenewed; away.failures > 0 && now.Sub(away.since) > s.opts.ReadinessWindow {
		return fmt.Errorf("jobs: not ready: no renewal of the leases has succeeded for %v: %w",
			now.Sub(away.since).Round(time.Millisecond), away.err)
	}
	last := s.fetcher.succeeded
	if s.fetcher.state == fetchFull { // it has no reason to claim
		last = s.worker.renewed
	}
	if s.settler.unsettled > maxUnsettled { // it does not claim until the store takes these
		last = s.settler.answered
	}
	if age := now.Sub(last); age > s.opts.ReadinessWindow {
		return fmt.Errorf("jobs: not ready: the last successful exchange with the store was %v ago", age.Round(time.Millisecond))
	}
	return nil
}

// Stats says what the server does at a moment.
type Stats struct {
	Worker      string // its ID in the store
	Draining    bool
	Running     int // handlers that have not returned
	Stuck       int // of these
	Prefetched  int // jobs that wait for a slot
	Unsettled   int // outcomes without an answer of the store
	LastClaim   time.Time
	LastRenewal time.Time
}

// Stats returns what the server does now. It makes no call to the store.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Stats{
		Draining: s.isDrain, Running: s.slots.active, Stuck: s.stuck.count, Prefetched: s.slots.ready.len(),
		Unsettled: s.settler.unsettled, LastClaim: s.fetcher.succeeded,
	}
	if s.worker != nil {
		st.Worker, st.LastRenewal = s.worker.id, s.worker.renewed
	}
	return st
}

// Types returns the jobs under each TypeLimit.
func (s *Server) Types() []TypeStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.slots.typeStats()
}

// StoreNow estimates the store's time now.
func (s *Server) StoreNow() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock.at(time.Now())
}
