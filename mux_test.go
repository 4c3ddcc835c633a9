package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed81422ce9/jobs/broker"
)

// jobOf is a job of a type, for handlers.
func jobOf(typ string, payload string) *Job {
	return NewJob(&broker.Job{Body: broker.Body{Type: typ, Payload: []byte(payload)}})
}

// named is a handler that returns its name as an error.
type named string

func (n named) Error() string                          { return string(n) }
func (n named) ProcessJob(context.Context, *Job) error { return n }

func TestServeMux_JobsGoToTheirExactPatternThenToTheLongest(t *testing.T) {
	t.Parallel()
	m := NewServeMux()
	for _, pattern := range []string{"email:*", "email:welcome", "email:welcome:*", "report"} {
		m.Handle(pattern, named(pattern))
	}
	for typ, want := range map[string]string{
		"email:welcome":       "email:welcome",
		"email:welcome:again": "email:welcome:*",
		"email:goodbye":       "email:*",
		"email:":              "email:*",
		"report":              "report",
		"email":               "",
		"reports":             "",
		"axb":                 "",
		"":                    "",
	} {
		h, pattern := m.Handler(typ)
		if pattern != want {
			t.Errorf("type %q matches pattern %q, want %q", typ, pattern, want)
		}
		for name, err := range map[string]error{"ProcessJob": m.ProcessJob(t.Context(), jobOf(typ, "")),
			"Handler": h.ProcessJob(t.Context(), jobOf(typ, ""))} {
			switch {
			case want != "" && err != named(want):
				t.Errorf("%s: type %q was handled by %v, want %q", name, typ, err, want)
			case want == "" && (!errors.Is(err, ErrUnknownType) || !strings.Contains(err.Error(), fmt.Sprintf("%q", typ))):
				t.Errorf("%s: type %q gave %v, want ErrUnknownType naming it", name, typ, err)
			}
		}
	}
	m.Handle("*", named("*"))
	if _, pattern := m.Handler("anything"); pattern != "*" {
		t.Errorf("with * registered, any type matches %q", pattern)
	}
	if got, want := m.Patterns(), []string{"*", "email:*", "email:welcome", "email:welcome:*", "report"}; !slices.Equal(got, want) {
		t.Errorf("Patterns are %q, want %q", got, want)
	}
}

func TestServeMux_MiddlewareOfTheMuxIsOutsideThatOfThePattern(t *testing.T) {
	t.Parallel()
	var log []string
	note := func(name string) Middleware {
		return func(next Handler) Handler {
			return HandlerFunc(func(ctx context.Context, job *Job) error {
				log = append(log, name)
				return next.ProcessJob(ctx, job)
			})
		}
	}
	handle := func(context.Context, *Job) error { log = append(log, "handler"); return nil }
	m := NewServeMux()
	m.Use(note("1"), nil)
	m.HandleFunc("a", handle, note("3"), nil, note("4"))
	m.HandleFunc("b", handle)
	_ = m.ProcessJob(t.Context(), jobOf("b", ""))
	m.Use(note("2"))
	log = nil
	_ = m.ProcessJob(t.Context(), jobOf("a", ""))
	_ = m.ProcessJob(t.Context(), jobOf("b", ""))
	_ = m.ProcessJob(t.Context(), jobOf("c", ""))
	if got, want := strings.Join(log, " "), "1 2 3 4 handler 1 2 handler"; got != want {
		t.Errorf("the order is %q, want %q and nothing for an unknown type", got, want)
	}
}

func TestServeMux_MiddlewareIsAppliedOncePerHandler(t *testing.T) {
	t.Parallel()
	applied := 0
	m := NewServeMux()
	m.Use(func(next Handler) Handler { applied++; return next })
	m.Handle("a", named("a"))
	m.Handle("b", named("b"))
	for range 10 {
		_ = m.ProcessJob(t.Context(), jobOf("a", ""))
	}
	if applied != 2 {
		t.Errorf("it was applied %d times to two handlers", applied)
	}
}

func TestServeMux_BadRegistrationPanicsWithThePatternsName(t *testing.T) {
	t.Parallel()
	m := NewServeMux()
	m.Handle("twice", named("x"))
	d := Define[int]("typed")
	for words, register := range map[string]func(){
		`("nil"): the handler is nil`:                      func() { m.Handle("nil", nil) },
		`("nil func"): the handler is nil`:                 func() { m.HandleFunc("nil func", nil) },
		`("typed"): the handler is nil`:                    func() { Handle(m, d, nil) },
		`("twice"): the pattern is registered already`:     func() { m.Handle("twice", named("y")) },
		`(""): jobs: pattern: invalid: is empty`:           func() { m.Handle("", named("x")) },
		`("a\nb"): jobs: pattern: invalid: contains a con`: func() { m.Handle("a\nb", named("x")) },
		`("a*b"): jobs: pattern: invalid: has a * before`:  func() { m.Handle("a*b", named("x")) },
		`("**"): jobs: pattern: invalid: has a * before`:   func() { m.Handle("**", named("x")) },
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, words) {
					t.Errorf("the panic says %q, want %q in it", got, words)
				}
			}()
			register()
		}()
	}
	if got := m.Patterns(); !slices.Equal(got, []string{"twice"}) {
		t.Errorf("after the panics the mux has %q", got)
	}
}

func TestServeMux_MuxMayChangeWhileItProcesses(t *testing.T) {
	t.Parallel()
	var m ServeMux
	m.Handle("*", named("all"))
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 50 {
				m.Handle(fmt.Sprintf("%d:%d", i, j), named("one"))
				if err := m.ProcessJob(t.Context(), jobOf(fmt.Sprintf("%d:%d", i, j), "")); err != named("one") {
					t.Errorf("a pattern was not seen by the goroutine that registered it: %v", err)
				}
			}
		})
	}
	wg.Wait()
}
