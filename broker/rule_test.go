package broker

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

// numbers counts the plain fields of a struct.
func numbers(t reflect.Type) (n int) {
	for f := range t.Fields() {
		if f.Type.Kind() == reflect.Struct {
			n += numbers(f.Type)
			continue
		}
		n++
	}
	return n
}

func TestRules_DescribeEveryFieldOfAPolicy(t *testing.T) {
	t.Parallel()
	if got, want := len(Rules()), numbers(reflect.TypeFor[Policy]()); got != want {
		t.Fatalf("there are %d rules for %d fields", got, want)
	}
	seen := make(map[string]bool)
	for i, rule := range Rules() {
		if seen[rule.Name] || rule.Name == "" || rule.Label == "" || rule.Help == "" || rule.Zero == "" {
			t.Errorf("rule %d: a name of its own, a label, help and the meaning of zero are needed: %+v", i, rule)
		}
		seen[rule.Name] = true
		var p Policy
		rule.Set(&p, 1)
		if rule.Of(&p) != 1 || p == (Policy{}) {
			t.Errorf("%s: set to 1, it is %d", rule.Name, rule.Of(&p))
		}
		for _, other := range Rules() {
			if other != rule && other.Of(&p) != 0 {
				t.Errorf("%s changes %s", rule.Name, other.Name)
			}
		}
	}
}

// A request tells what it changes, and only that.
func TestPolicyRequest_EachRuleByItself(t *testing.T) {
	t.Parallel()
	for _, rule := range Rules() {
		n := max(1, rule.Least)
		var now, wanted Policy
		rule.Set(&wanted, n)
		for _, r := range []PolicyRequest{PolicyFrom("q", now, wanted), PolicyFrom("q", wanted, now)} {
			if err := r.Check(); err != nil {
				t.Errorf("%s: %v", rule.Name, err)
			}
			found := false
			for _, c := range r.Changes() {
				found = found || c.Rule == rule
			}
			if !found || len(r.Changes()) > 2 { // a retention is two numbers
				t.Errorf("%s: the request changes %v", rule.Name, r.Changes())
			}
		}
		r := PolicyFrom("q", now, wanted)
		r.Apply(&now)
		if now != wanted {
			t.Errorf("%s: applied, the policy is %+v, want %+v", rule.Name, now, wanted)
		}
	}
	if r := PolicyFrom("q", Policy{MaxDepth: 1}, Policy{MaxDepth: 1}); len(r.Changes()) != 0 {
		t.Errorf("nothing differs, and the request changes %v", r.Changes())
	}
	part := PolicyRequest{Queue: "q", DuplicateSpan: new(time.Microsecond + time.Nanosecond)}
	if c := part.Changes(); len(c) != 1 || c[0].Value != 2 {
		t.Errorf("a span is not rounded up to microseconds: %v", c)
	}
}

func TestPolicyRequest_RefusesNumbersOutsideTheLimits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		r     PolicyRequest
		field string
	}{
		{PolicyRequest{Queue: "q", MaxDepth: new(int64(-1))}, "max depth"},
		{PolicyRequest{Queue: "q", RetainCompleted: &Retention{Age: -1}}, "keep completed"},
		{PolicyRequest{Queue: "q", RetainCompleted: &Retention{Count: -1}}, "keep completed count"},
		{PolicyRequest{Queue: "q", RetainDead: &Retention{Age: MaxDelay + 1}}, "keep dead"},
		{PolicyRequest{Queue: "q", RetainDead: &Retention{Count: -1}}, "keep dead count"},
		{PolicyRequest{Queue: "q", DuplicateSpan: new(time.Duration(-1))}, "duplicate span"},
		{PolicyRequest{Queue: "q", PriorityRound: new(int64(3))}, "priority round"},
		{PolicyRequest{Queue: "q", PriorityRound: new(int64(MaxPriorityRound + 1))}, "priority round"},
		{PolicyRequest{MaxDepth: new(int64(1))}, "queue"},
	} {
		err := c.r.Check()
		var e *Error
		if !errors.Is(err, ErrInvalid) || !errors.As(err, &e) || !strings.HasPrefix(e.Field, c.field) {
			t.Errorf("want a refusal of %s, got %v", c.field, err)
		}
	}
}
