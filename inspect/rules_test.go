package inspect

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

func ruleNamed(t *testing.T, name string) *broker.Rule {
	t.Helper()
	for _, rule := range broker.Rules() {
		if rule.Name == name {
			return rule
		}
	}
	t.Fatalf("there is no rule %q", name)
	return nil
}

func TestParseRule_ReadsWhatPeopleWrite(t *testing.T) {
	t.Parallel()
	day := (24 * time.Hour).Microseconds()
	for _, c := range []struct {
		rule, text string
		want       int64
		refused    string
	}{
		{"max_depth", "1,500", 1500, ""},
		{"max_depth", "none", 0, ""},
		{"max_depth", "", 0, ""},
		{"max_depth", "0", 0, "write none for no limit"},
		{"max_active", "-3", 0, "whole number from 1 on"},
		{"rate", "0", 0, "write none for no limit"},
		{"rate_burst", "0", 0, ""},
		{"rate_per", "90s", 90_000_000, ""},
		{"keep_dead", "1w2d", 9 * day, ""},
		{"keep_dead", "3d12h", 3*day + day/2, ""},
		{"keep_dead", "soon", 0, "not a time span"},
		{"ordered", "skip", int64(broker.OrderSkip), ""},
		{"ordered", "none", 0, ""},
		{"ordered", "yes", 0, "none, stop, skip"},
		{"paused", "yes", 1, ""},
		{"paused", "perhaps", 0, "neither yes nor no"},
	} {
		rule := ruleNamed(t, c.rule)
		n, err := ParseRule(rule, c.text)
		if c.refused == "" && (err != nil || n != c.want) {
			t.Errorf("%s %q is %d, %v; want %d", c.rule, c.text, n, err, c.want)
		}
		if c.refused != "" && (!errors.Is(err, broker.ErrInvalid) || !strings.Contains(err.Error(), c.refused) ||
			!strings.Contains(err.Error(), strings.ReplaceAll(c.rule, "_", " "))) {
			t.Errorf("%s %q: %v, want a refusal with %q", c.rule, c.text, err, c.refused)
		}
		if n > 0 {
			if again, err := ParseRule(rule, RuleText(rule, n)); err != nil || again != n {
				t.Errorf("%s: %d is written %q, which reads %d, %v", c.rule, n, RuleText(rule, n), again, err)
			}
		}
	}
}

func TestChange_TakesARateAwayAsAWhole(t *testing.T) {
	t.Parallel()
	p := Policy{Rate: broker.Rate{Jobs: 3, Per: time.Minute, Burst: 2}, KeyRate: broker.Rate{Jobs: 1, Per: time.Second}}
	got, err := Change(p, map[string]string{"rate": None, "key_rate_burst": "4"})
	if want := (Policy{KeyRate: broker.Rate{Jobs: 1, Per: time.Second, Burst: 4}}); err != nil || got != want {
		t.Errorf("the policy is %+v, %v; want %+v", got, err, want)
	}
	lone, err := Change(Policy{}, map[string]string{"rate_burst": "5"})
	if err != nil {
		t.Fatal(err)
	}
	request := broker.PolicyFrom("q", "", Policy{}, lone)
	if err := request.Check(broker.Limits{}); !errors.Is(err, broker.ErrInvalid) || !strings.Contains(err.Error(), "rate") {
		t.Errorf("a burst without a rate: %v, want a refusal", err)
	}
}
