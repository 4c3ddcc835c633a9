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
		key := map[bool]string{false: "k"}[rule.Queue]
		var now, wanted Policy
		if rate, _, ok := strings.Cut(rule.Name, "rate_"); ok { // the parts of a rate need each other
			for _, r := range Rules() {
				if strings.HasPrefix(r.Name, rate+"rate") {
					r.Set(&now, 1)
					r.Set(&wanted, 1)
				}
			}
			n = 2
		} else if strings.HasSuffix(rule.Name, "rate") {
			for _, r := range Rules() {
				if r.Name == rule.Name+"_per" {
					r.Set(&wanted, 1)
				}
			}
		}
		rule.Set(&wanted, n)
		before := now
		for _, r := range []PolicyRequest{PolicyFrom("q", key, now, wanted), PolicyFrom("q", key, wanted, now)} {
			if err := r.Check(Limits{}); err != nil {
				t.Errorf("%s: %v", rule.Name, err)
			}
			found := false
			for _, c := range r.Changes() {
				found = found || c.Rule == rule
			}
			if !found || len(r.Changes()) > 3 { // a retention is two numbers, a rate three
				t.Errorf("%s: the request changes %v", rule.Name, r.Changes())
			}
		}
		for _, to := range []Policy{wanted, before} {
			r := PolicyFrom("q", key, now, to)
			if r.Apply(&now); now != to {
				t.Errorf("%s: applied, the policy is %+v, want %+v", rule.Name, now, to)
			}
		}
	}
	if r := PolicyFrom("q", "", Policy{MaxDepth: 1}, Policy{MaxDepth: 1}); len(r.Changes()) != 0 {
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
		{PolicyRequest{Queue: "q", MaxDepth: new(int64(-2))}, "max depth"},
		{PolicyRequest{Queue: "q", MaxDepth: new(int64(0))}, "max depth"},
		{PolicyRequest{Queue: "q", MaxBytes: new(int64(0))}, "max bytes"},
		{PolicyRequest{Queue: "q", MaxActive: new(int64(0))}, "max active"},
		{PolicyRequest{Queue: "q", KeyMaxDepth: new(int64(-7))}, "key max depth"},
		{PolicyRequest{Queue: "q", KeyMaxActive: new(int64(0))}, "key max active"},
		{PolicyRequest{Queue: "q", Rate: &Rate{}}, "rate"},
		{PolicyRequest{Queue: "q", Rate: &Rate{Burst: 5}}, "rate"},
		{PolicyRequest{Queue: "q", Rate: &Rate{Jobs: -3, Per: 1}}, "rate"},
		{PolicyRequest{Queue: "q", KeyRate: &Rate{Jobs: 3}}, "key rate per"},
		{PolicyRequest{Queue: "q", RetryRate: &Rate{Jobs: 3, Per: time.Second, Burst: -1}}, "retry rate burst"},
		{PolicyRequest{Queue: "q", Rate: &Rate{Jobs: 1 << 50, Per: time.Second}}, "rate"},
		{PolicyRequest{Queue: "q", Rate: &Rate{Jobs: 1, Per: 24 * time.Hour, Burst: 1 << 40}}, "rate"},
		{PolicyRequest{Queue: "q", Rate: &Rate{Jobs: 1, Per: MaxDelay + 1}}, "rate"},
		{PolicyRequest{Queue: "q", Ordered: new(OrderSkip + 1)}, "ordered"},
		{PolicyRequest{Queue: "q", Weight: new(int64(1))}, "weight"},
		{PolicyRequest{Queue: "q", Key: "k", Weight: new(int64(0))}, "weight"},
		{PolicyRequest{Queue: "q", Key: "k", Weight: new(int64(MaxWeight + 1))}, "weight"},
		{PolicyRequest{Queue: "q", Key: "k", KeyMaxActive: new(int64(1))}, "key max active"},
		{PolicyRequest{Queue: "q", Key: "k", Ordered: new(OrderStop)}, "ordered"},
		{PolicyRequest{Queue: "q", Key: strings.Repeat("k", 1<<20), MaxActive: new(int64(1))}, "key"},
		{PolicyRequest{Queue: "q", RetainCompleted: &Retention{Age: -1}}, "keep completed"},
		{PolicyRequest{Queue: "q", RetainCompleted: &Retention{Count: -1}}, "keep completed count"},
		{PolicyRequest{Queue: "q", RetainDead: &Retention{Age: MaxDelay + 1}}, "keep dead"},
		{PolicyRequest{Queue: "q", RetainDead: &Retention{Count: -1}}, "keep dead count"},
		{PolicyRequest{Queue: "q", DuplicateSpan: new(time.Duration(-1))}, "duplicate span"},
		{PolicyRequest{Queue: "q", PriorityRound: new(int64(3))}, "priority round"},
		{PolicyRequest{Queue: "q", PriorityRound: new(int64(MaxPriorityRound + 1))}, "priority round"},
		{PolicyRequest{MaxDepth: new(int64(1))}, "queue"},
	} {
		err := c.r.Check(Limits{})
		var e *Error
		if !errors.Is(err, ErrInvalid) || !errors.As(err, &e) || !strings.HasPrefix(e.Field, c.field) {
			t.Errorf("want a refusal of %s, got %v", c.field, err)
		}
	}
}
