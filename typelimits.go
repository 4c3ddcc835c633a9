package jobs

import (
	"maps"
	"slices"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/engine"
)

// TypeLimit is a limit of Config.TypeConcurrency and the jobs of a server under it.
type TypeLimit struct {
	Pattern string
	Max     int
	Running int // handlers that have not returned
	Waiting int // claimed jobs that wait for one of these handlers to return
}

// checkTypeConcurrency refuses a value of Config.TypeConcurrency with a bad pattern or
// a limit below 1.
func checkTypeConcurrency(limits map[string]int) error {
	for pattern, n := range limits {
		if err := checkPattern(pattern); err != nil {
			return broker.Invalid("TypeConcurrency", "has an invalid pattern: %v", err)
		}
		if n < 1 {
			return broker.Invalid("TypeConcurrency",
				"lets %d jobs of %q run at once; use 1 or more, or leave the pattern out", n, pattern)
		}
	}
	return nil
}

// typeLimits converts Config.TypeConcurrency for the engine. It returns the limits and
// a function that finds the index of the limit for a type, -1 if there is none.
func typeLimits(max map[string]int) (limits []engine.TypeLimit, of func(typ string) int) {
	var table patternTable[int]
	for i, pattern := range slices.Sorted(maps.Keys(max)) {
		limits = append(limits, engine.TypeLimit{Pattern: pattern, Max: max[pattern]})
		table.add(pattern, i)
	}
	return limits, func(typ string) int {
		if i, _, ok := table.find(typ); ok {
			return i
		}
		return -1
	}
}

// checkTypesKnown refuses a limit whose pattern matches no type of the handler: the
// pattern is probably mistyped. known has the patterns of the handler, and is empty if
// the handler does not list them.
func checkTypesKnown(limits map[string]int, known []string) error {
	if len(known) == 0 {
		return nil
	}
	for _, pattern := range slices.Sorted(maps.Keys(limits)) {
		if !slices.ContainsFunc(known, func(k string) bool { return patternsOverlap(pattern, k) }) {
			return broker.Invalid("TypeConcurrency", "names %q, and no handler is registered for such a type; "+
				"correct the pattern, register a handler, or remove the entry", pattern)
		}
	}
	return nil
}
