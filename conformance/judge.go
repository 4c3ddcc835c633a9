package conformance

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
)

// Result is how a rule ended.
type Result string

// How a rule can end.
const (
	Passed  Result = "pass"
	Refused Result = "refused" // the backend declares a limit, and its refusal was right
	Absent  Result = "absent"  // the Store lacks a function that the rule needs
	Skipped Result = "skipped" // the function that makes the store skipped the test
	Failed  Result = "FAIL"
)

// Verdict is the result of one rule.
type Verdict struct {
	Rule    string `json:"rule"`
	Section string `json:"section"`
	Result  Result `json:"result"`
	Limit   string `json:"limit,omitempty"`   // the declared limit, when Refused
	Failure string `json:"failure,omitempty"` // the failure's text
	Seed    uint64 `json:"seed,omitempty"`    // JOBS_SEED of the last random calls, if the rule makes any
}

// Judge checks rules without a test around them; the suite tests itself with it.
// A name is the ID of a rule, or a group such as "Lease/"; without names, all
// rules are checked. Verdicts come in the order of the names. A name that matches
// no rule gets a failed verdict, and these come first.
func Judge(newStore func(TB) *Store, rules ...string) []Verdict {
	var chosen []Rule
	var verdicts []Verdict
	all := Rules()
	for _, name := range rules {
		found := false
		for _, r := range all {
			if r.ID == name || strings.HasSuffix(name, "/") && strings.HasPrefix(r.ID, name) {
				chosen, found = append(chosen, r), true
			}
		}
		if !found {
			verdicts = append(verdicts, Verdict{Rule: name, Result: Failed, Failure: "no rule has this name"})
		}
	}
	if len(rules) == 0 {
		chosen = all
	}
	judged := make([]Verdict, len(chosen))
	slots := make(chan struct{}, 4*runtime.GOMAXPROCS(0)) // rules that wait need no processor
	var wg sync.WaitGroup
	for i, r := range chosen {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			judged[i] = judge(r, newStore)
		})
	}
	wg.Wait()
	return append(verdicts, judged...)
}

func judge(r Rule, newStore func(TB) *Store) (v Verdict) {
	ctx, cancel := context.WithCancel(context.Background())
	tb := &judgeTB{name: r.ID, ctx: ctx}
	tb.run(func() { v.run(tb, r, newStore) })
	cancel()
	for len(tb.cleanups) > 0 {
		last := len(tb.cleanups) - 1
		f := tb.cleanups[last]
		tb.cleanups = tb.cleanups[:last]
		tb.run(f)
	}
	if tb.Failed() {
		v.Result, v.Failure = Failed, tb.text.String()
	}
	return v
}

// run checks one rule and stores in v how it ended. It does not return if the
// rule fails.
func (v *Verdict) run(tb TB, r Rule, newStore func(TB) *Store) {
	tb.Helper()
	v.Rule, v.Section, v.Result = r.ID, r.Section, Skipped
	store := newStore(tb).forRule(r)
	if store.lacks(r) {
		v.Result = Absent
		return
	}
	v.Result = Failed
	c := newCheck(tb, r, store, v, nil)
	if c.limits.Shards > 1 && store.OneStore == nil && ofOneStore(r) {
		v.Result = Absent
		return
	}
	check, result := r.check, Passed
	if l := r.declined(c.limits); l != nil {
		v.Limit, check, result = l.name, l.refused, Refused
	}
	c.run(check)
	for _, f := range formsOf(r, c.limits) {
		newCheck(tb, r, newStore(tb).forRule(r), v, f).run(check)
	}
	if !tb.Failed() {
		v.Result = result
	}
}

// run checks the rule on its store, then audits the store.
func (c *check) run(check func(*check)) {
	c.tb.Helper()
	defer func() {
		if p := recover(); p != nil {
			c.failf("the rule ended with a panic: %v\n%s", p, debug.Stack())
		}
	}()
	check(c)
	c.plainly()
	c.audit()
	c.that(c.calls.stack() == "", "a call of the backend\ngot  a panic\nwant an answer")
}

// judgeTB is the TB of a rule that Judge runs.
type judgeTB struct {
	name     string
	ctx      context.Context
	cleanups []func()

	mu     sync.Mutex
	text   strings.Builder
	failed bool
}

// run calls f on a new goroutine, which FailNow can end, and waits for it.
func (t *judgeTB) run(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				t.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		f()
	}()
	<-done
}

func (t *judgeTB) Helper()                  {}
func (t *judgeTB) Name() string             { return t.name }
func (t *judgeTB) Context() context.Context { return t.ctx }
func (t *judgeTB) Cleanup(f func())         { t.cleanups = append(t.cleanups, f) }

// TempDir returns a new directory that is removed after the rule.
func (t *judgeTB) TempDir() string {
	dir, err := os.MkdirTemp("", "conformance")
	if err != nil {
		t.Fatalf("TempDir: %v", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("TempDir: %v", err)
		}
	})
	return dir
}

func (t *judgeTB) Logf(string, ...any) {}

func (t *judgeTB) Failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed
}

func (t *judgeTB) FailNow() {
	t.mu.Lock()
	t.failed = true
	t.mu.Unlock()
	runtime.Goexit()
}

func (t *judgeTB) Errorf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed = true
	fmt.Fprintf(&t.text, format+"\n", args...)
}

func (t *judgeTB) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	t.FailNow()
}

func (t *judgeTB) Skipf(string, ...any) { runtime.Goexit() }
