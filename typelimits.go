package jobs

import (
	"maps"
	"slices"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/engine"
)

// TypeLimit is what a server does under a limit of Config.TypeConcurrency.
type TypeLimit struct {
	Pattern string
	Max     int
	Running int // handlers that have not returned
	Waiting int // jobs that are claimed and wait for one of these to return
}

// TypeLimits tells what the server does now under each limit of
// Config.TypeConcurrency, by pattern; nothing once it has ended. It makes no call
// to the store.
func (s *Server) TypeLimits() []TypeLimit {
	select {
	case <-s.engine.Done():
		return nil
	default:
	}
	stats := s.engine.Types()
	limits := make([]TypeLimit, len(stats))
	for i, l := range stats {
		limits[i] = TypeLimit{Pattern: l.Pattern, Max: l.Max, Running: l.Running, Waiting: l.Waiting}
	}
	return limits
}

// checkTypeConcurrency refuses limits that cannot be.
func (cfg *Config) checkTypeConcurrency() error {
	for pattern, n := range cfg.TypeConcurrency {
		if err := checkPattern(pattern); err != nil {
			return broker.Invalid("TypeConcurrency", "has a pattern that cannot be: %v", err)
		}
		if n < 1 {
			return broker.Invalid("TypeConcurrency",
				"lets %d jobs of %q run at once; use 1 or more, or leave the pattern out", n, pattern)
		}
	}
	return nil
}

// typeLimits are the limits as the engine has them, and what finds, by its index,
// the one that holds for a type; -1 is none.
func (cfg *Config) typeLimits() (limits []engine.TypeLimit, of func(typ string) int) {
	var table patternTable[int]
	for i, pattern := range slices.Sorted(maps.Keys(cfg.TypeConcurrency)) {
		limits = append(limits, engine.TypeLimit{Pattern: pattern, Max: cfg.TypeConcurrency[pattern]})
		table.add(pattern, i)
	}
	return limits, func(typ string) int {
		if i, _, ok := table.find(typ); ok {
			return i
		}
		return -1
	}
}

// checkTypesKnown refuses a limit that no type of the handler can meet: its pattern
// was probably mistyped. Patterns are those of a handler that names them.
func (cfg *Config) checkTypesKnown(patterns []string) error {
	if len(patterns) == 0 {
		return nil
	}
	for _, pattern := range slices.Sorted(maps.Keys(cfg.TypeConcurrency)) {
		meets := func(known string) bool { return patternsMeet(pattern, known) }
		if !slices.ContainsFunc(patterns, meets) {
			return broker.Invalid("TypeConcurrency", "names %q, and no handler is registered for such a type; "+
				"correct the pattern, register a handler, or remove the entry", pattern)
		}
	}
	return nil
}

// checkBatches refuses a mux one of whose batches could never be full.
func (m *ServeMux) checkBatches(cfg *Config) error {
	limits, limitOf := cfg.typeLimits()
	m.mu.Lock()
	defer m.mu.Unlock()
	for pattern, r := range m.route {
		b, ok := r.handler.(batching)
		if !ok {
			continue
		}
		if b.maxBatch() > cfg.Concurrency {
			return broker.Invalid("Concurrency", "is %d, and the batch handler of %q takes up to %d jobs, each of which needs a slot; "+
				"set at least that, or a lower ManyConfig.Max", cfg.Concurrency, pattern, b.maxBatch())
		}
		if i := limitOf(pattern); i >= 0 && b.maxBatch() > limits[i].Max {
			return broker.Invalid("TypeConcurrency", "lets %d jobs of %q run at once, and its batch handler takes up to %d; "+
				"set at least that, or a lower ManyConfig.Max", limits[i].Max, limits[i].Pattern, b.maxBatch())
		}
	}
	return nil
}
