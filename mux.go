package jobs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/seed81422ce9/jobs/broker"
)

// ErrUnknownType is the error of a job whose type no pattern of a ServeMux
// matches. A server does not charge it as a failure: it snoozes the job, so that a
// worker that knows the type can run it. After Config.UnknownTypeLimit the job is
// dead.
var ErrUnknownType = errors.New("no handler is registered for the job's type")

// ServeMux is a Handler that routes jobs by their type. A pattern is a type,
// or a prefix of types followed by *: "email:welcome" matches that type
// alone, "email:*" every type that begins with "email:", and "*" all. If several
// patterns match a type, the type itself comes first, then the longest pattern.
//
// The zero value is an empty mux. Its methods may be called from any number of
// goroutines, also while it processes jobs.
type ServeMux struct {
	mu    sync.Mutex
	chain []Middleware
	route map[string]muxRoute // by pattern

	compiled atomic.Pointer[routeTable] // nil after a change
}

type muxRoute struct {
	handler Handler
	chain   []Middleware
}

// routeTable finds the handler of a type, wrapped in all its middleware.
type routeTable = patternTable[Handler]

// NewServeMux makes an empty mux.
func NewServeMux() *ServeMux { return new(ServeMux) }

// Use adds middleware around every handler of the mux, registered before or
// later. The first is outermost, and all of it is outside the middleware passed
// to Handle. Nil entries are skipped. Each middleware is called once for each
// handler, and again after the mux was changed. Jobs of unknown types do not pass
// through it.
func (m *ServeMux) Use(chain ...Middleware) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.chain = append(m.chain, chain...)
	m.compiled.Store(nil)
}

// Handle registers the handler of pattern, wrapped in chain, whose first entry
// is outermost. It panics if h is nil, if the pattern is registered already, or if
// the pattern is invalid: it has a * before its end, is empty, is longer than 255
// bytes, is not UTF-8 or contains control characters.
func (m *ServeMux) Handle(pattern string, h Handler, chain ...Middleware) {
	if err := checkPattern(pattern); err != nil {
		panic(fmt.Sprintf("jobs: ServeMux.Handle(%q): %v", pattern, err))
	}
	if f, ok := h.(HandlerFunc); h == nil || ok && f == nil {
		panic(fmt.Sprintf("jobs: ServeMux.Handle(%q): the handler is nil", pattern))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.route[pattern]; ok {
		panic(fmt.Sprintf("jobs: ServeMux.Handle(%q): the pattern is registered already", pattern))
	}
	if m.route == nil {
		m.route = make(map[string]muxRoute)
	}
	m.route[pattern] = muxRoute{handler: h, chain: slices.Clone(chain)}
	m.compiled.Store(nil)
}

// HandleFunc registers a function as Handle does a Handler.
func (m *ServeMux) HandleFunc(pattern string, f func(ctx context.Context, job *Job) error, chain ...Middleware) {
	m.Handle(pattern, HandlerFunc(f), chain...)
}

// ProcessJob passes the job to the handler of its type. If there is none, it returns
// an error that is ErrUnknownType.
func (m *ServeMux) ProcessJob(ctx context.Context, job *Job) error {
	if h, _, ok := m.table().find(job.Type()); ok {
		return h.ProcessJob(ctx, job)
	}
	return unknownType(ctx, job)
}

// Handler returns the handler for jobs of type typ, wrapped in its middleware, and
// the pattern for which it is registered. For an unknown type the pattern is
// empty, and the handler returns ErrUnknownType.
func (m *ServeMux) Handler(typ string) (h Handler, pattern string) {
	h, pattern, ok := m.table().find(typ)
	if !ok {
		h = HandlerFunc(unknownType)
	}
	return h, pattern
}

// Patterns returns the registered patterns, sorted. Operators see them as the
// types that a worker knows.
func (m *ServeMux) Patterns() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.route))
}

func unknownType(_ context.Context, job *Job) error {
	return fmt.Errorf("%w: %q; register one with ServeMux.Handle", ErrUnknownType, job.Type())
}

// table returns the current routes. After a change it compiles them first.
func (m *ServeMux) table() *routeTable {
	if t := m.compiled.Load(); t != nil {
		return t
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.compiled.Load(); t != nil {
		return t
	}
	t := new(routeTable)
	outer := Chain(m.chain...)
	for pattern, r := range m.route {
		t.add(pattern, outer(Chain(r.chain...)(r.handler)))
	}
	m.compiled.Store(t)
	return t
}

// patternTable finds the value for a type: the value of the type itself, or else that of
// the longest matching prefix.
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

// find returns the value of a type, and its pattern.
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

// checkPattern refuses an invalid pattern, and one with a * before its end: only a * at
// the end stands for other characters, so such a pattern is probably a mistake.
func checkPattern(pattern string) error {
	if err := broker.CheckName("pattern", pattern); err != nil {
		return err
	}
	if i := strings.IndexByte(pattern, '*'); i >= 0 && i < len(pattern)-1 {
		return broker.Invalid("pattern", "has a * before its end; a * stands for the rest of a type, as in %q", pattern[:i+1])
	}
	return nil
}

// patternsOverlap reports whether some type matches both patterns.
func patternsOverlap(a, b string) bool {
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
