package conformance

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// check is one rule being checked on one store. Its helpers end the rule at the
// first fault; call them only on the rule's own goroutine.
type check struct {
	tb      TB
	rule    Rule
	store   *Store
	verdict *Verdict
	calls   *history
	ctx     context.Context
	limits  broker.Limits
	b       broker.Broker // the first handle
	q       string        // the rule's queue

	// now is the virtual time that helpers send; zero means the store's own clock.
	now     time.Time
	tick    time.Duration // the resolution of the store's times
	audited bool          // whether the whole store is checked after the rule

	heavyJobs int // made by heavy

	form *formState // nil when the rule runs as written
}

// starts are the virtual times at which rules begin. Two are far from any real
// clock, so that a store that reads its own clock fails. Microseconds are odd, so
// that lost digits show.
var starts = [...]time.Time{
	time.Date(2026, 3, 4, 5, 6, 7, 123_457_000, time.UTC),
	time.Date(2001, 9, 9, 1, 46, 39, 987_653_000, time.UTC),
	time.Date(2150, 12, 31, 23, 59, 58, 999_999_000, time.UTC),
}

// patience bounds every wait for something that must happen; a slow machine
// needs a JOBS_PATIENCE above 1.
var patience = func() time.Duration {
	scale, err := strconv.ParseFloat(os.Getenv("JOBS_PATIENCE"), 64)
	if err != nil || scale <= 0 {
		scale = 1
	}
	return time.Duration(scale * float64(10*time.Second))
}()

func newCheck(tb TB, r Rule, store *Store, v *Verdict, f *form) *check {
	h := fnv.New32a()
	h.Write([]byte(r.ID))
	start := starts[h.Sum32()%uint32(len(starts))]
	ctx, cancel := context.WithTimeout(tb.Context(), 6*patience+stressing)
	tb.Cleanup(cancel)
	c := &check{tb: tb, rule: r, store: store, verdict: v, ctx: ctx,
		q: "q", now: start, audited: true, calls: &history{start: start}}
	c.b = c.open()
	c.limits = c.b.Limits()
	c.tick = max(time.Microsecond, c.limits.TimeStep)
	c.now = c.up(c.now)
	c.inForm(f)
	return c
}

// open returns another handle on the store, as another process would have.
func (c *check) open() broker.Broker {
	c.tb.Helper()
	b := c.opened()
	if c.form != nil {
		b = c.form.through(b)
	}
	return b
}

// opened returns a handle that does not apply the rule's form.
func (c *check) opened() broker.Broker {
	c.tb.Helper()
	b := c.calls.record(c.store.Open(c.tb))
	c.tb.Cleanup(func() { b.Close() })
	return b
}

// real makes the rule use the store's own clock from here on.
func (c *check) real() { c.now = time.Time{} }

// pass advances virtual time by d.
func (c *check) pass(d time.Duration) { c.now = c.now.Add(d) }

// up returns t rounded up to the resolution of the store.
func (c *check) up(t time.Time) time.Time {
	t = broker.FromMicros(broker.Micros(t))
	if down := t.Truncate(c.tick); down.Before(t) {
		t = down.Add(c.tick)
	}
	return t
}

// failf ends the rule with a report of everything known about it.
func (c *check) failf(format string, args ...any) {
	c.tb.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "rule %s (broker/doc.go, %s): %s\n", c.rule.ID, c.rule.Section, c.rule.Text)
	if c.form != nil {
		fmt.Fprintf(&b, "  in this form of the rule, although the rule holds as written: %s\n", c.form.name)
	}
	fmt.Fprintf(&b, "  %s\n", strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "\n  "))
	if stack := c.calls.stack(); stack != "" {
		fmt.Fprintf(&b, "  panic: %s\n", strings.ReplaceAll(strings.TrimSpace(stack), "\n", "\n    "))
	}
	fmt.Fprintf(&b, "  virtual time starts at %s\n  calls, with their Now:\n%s", c.calls.start.Format(time.RFC3339Nano), c.calls)
	if c.calls.seed != 0 {
		fmt.Fprintf(&b, "  seed: set JOBS_SEED=%d to make the same calls\n", c.calls.seed)
	}
	if c.store.Dump != nil {
		fmt.Fprintf(&b, "  store:\n    %s\n", strings.ReplaceAll(strings.TrimSpace(c.store.Dump()), "\n", "\n    "))
	}
	fmt.Fprintf(&b, "  rerun, in the backend's directory: go test -run '^%s$' .", strings.ReplaceAll(c.tb.Name(), "/", "$/^"))
	c.verdict.Failure = b.String()
	c.tb.Fatalf("%s", b.String())
}

// same requires got to be want.
func (c *check) same(what string, got, want any) {
	c.tb.Helper()
	if !reflect.DeepEqual(got, want) {
		c.failf("%s\ngot  %s\nwant %s", what, show(got), show(want))
	}
}

// that requires ok.
func (c *check) that(ok bool, format string, args ...any) {
	c.tb.Helper()
	if !ok {
		c.failf(format, args...)
	}
}

// ok requires that err is nil.
func (c *check) ok(what string, err error) {
	c.tb.Helper()
	if err != nil {
		c.failf("%s\ngot  error %v\nwant none", what, err)
	}
}

// ask makes a call, which must not fail, and returns the answer.
func ask[Request, Answer any](c *check, what string, call func(context.Context, Request) (Answer, error), req Request) Answer {
	c.tb.Helper()
	answer, err := call(c.ctx, req)
	c.ok(what, err)
	return answer
}

// is requires errors.Is(err, target).
func (c *check) is(what string, err, target error) {
	c.tb.Helper()
	if !errors.Is(err, target) {
		c.failf("%s\ngot  error %v\nwant errors.Is(err, %q)", what, err, target)
	}
}

// event waits for an event that match accepts.
func (c *check) event(what string, events <-chan broker.Event, match func(broker.Event) bool) broker.Event {
	c.tb.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		select {
		case e, open := <-events:
			c.that(open, "%s\ngot  a closed channel\nwant the event", what)
			if match(e) {
				return e
			}
		case <-timeout.C:
			c.failf("%s\ngot  no such event within %v\nwant one", what, patience)
		}
	}
}

// together runs f n times concurrently, all released at the same moment, and
// requires that none fails. f runs on goroutines of its own, so it returns errors
// and does not call the helpers of check.
func (c *check) together(n int, f func(i int) error) {
	c.tb.Helper()
	start, done := make(chan struct{}), make(chan error, n)
	for i := range n {
		go func() {
			defer func() {
				if p := recover(); p != nil {
					done <- fmt.Errorf("panic: %v", p)
				}
			}()
			<-start
			done <- f(i)
		}()
	}
	close(start)
	var failures []error
	for range n {
		failures = append(failures, <-done)
	}
	c.ok("calls made at once", errors.Join(failures...))
}

// shown is a value in the message of a failure. It is formatted only if there is one.
type shown struct{ value any }

func show(v any) shown { return shown{v} }

// String cuts long values. Times are exact.
func (v shown) String() (s string) {
	switch v := v.value.(type) {
	case []byte:
		s = fmt.Sprintf("%d bytes %.80q", len(v), v)
	case string:
		s = strconv.Quote(v)
	case time.Time:
		s = v.Format(time.RFC3339Nano)
	case fmt.Stringer:
		s = v.String()
	default:
		s = fmt.Sprintf("%+v", v)
	}
	if len(s) > 2000 {
		s = s[:2000] + "…"
	}
	return s
}

func sorted(s []string) []string {
	s = slices.Clone(s)
	slices.Sort(s)
	return s
}
