package jobs

import (
	"slices"
	"strings"

	"github.com/seed81422ce9/jobs/broker"
)

// patternTable finds what belongs to a type: an exact pattern before the longest
// prefix. It is changed by add alone.
type patternTable[V any] struct {
	exact   map[string]V
	prefix  map[string]V // without the *
	lengths []int        // of the prefixes, longest first, each once
}

func (t *patternTable[V]) add(pattern string, v V) {
	prefix, any := strings.CutSuffix(pattern, "*")
	if !any {
		if t.exact == nil {
			t.exact = make(map[string]V)
		}
		t.exact[pattern] = v
		return
	}
	if t.prefix == nil {
		t.prefix = make(map[string]V)
	}
	t.prefix[prefix] = v
	t.lengths = append(t.lengths, len(prefix))
	slices.Sort(t.lengths)
	t.lengths = slices.Compact(t.lengths)
	slices.Reverse(t.lengths)
}

// find returns what belongs to a type, and its pattern.
func (t *patternTable[V]) find(typ string) (v V, pattern string, ok bool) {
	if v, ok = t.exact[typ]; ok {
		return v, typ, true
	}
	for _, n := range t.lengths {
		if n <= len(typ) {
			if v, ok = t.prefix[typ[:n]]; ok {
				return v, typ[:n] + "*", true
			}
		}
	}
	return v, "", false
}

// checkPattern refuses a pattern that cannot be, and one whose * is not at its end:
// there it would stand for itself, and no type is called so.
func checkPattern(pattern string) error {
	if err := broker.CheckName("pattern", pattern); err != nil {
		return err
	}
	if i := strings.IndexByte(pattern, '*'); i >= 0 && i < len(pattern)-1 {
		return broker.Invalid("pattern", "has a * before its end; a * stands for the rest of a type, as in %q", pattern[:i+1])
	}
	return nil
}

// patternsMeet reports whether some type matches both patterns.
func patternsMeet(a, b string) bool {
	a, anyA := strings.CutSuffix(a, "*")
	b, anyB := strings.CutSuffix(b, "*")
	switch {
	case anyA && anyB:
		return strings.HasPrefix(a, b) || strings.HasPrefix(b, a)
	case anyA:
		return strings.HasPrefix(b, a)
	case anyB:
		return strings.HasPrefix(a, b)
	}
	return a == b
}
