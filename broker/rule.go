package broker

import (
	"strings"
	"time"
)

// Rule describes one rule of a [Policy], which is a number under a name. Stores
// keep rules, and tools show and change them, by what [Rules] tells: a rule that
// is new there needs no line of theirs, but where it acts.
type Rule struct {
	Name  string // in a store and in JSON: max_depth
	Unit  RuleUnit
	Label string // for a person: Maximum depth
	Help  string // what it does, in one line
	Zero  string // what 0 means: no limit

	// Least and Most bound a count that is not 0; a Most of 0 is no bound.
	Least, Most int64

	field func(*Policy) any
}

// RuleUnit says what the number of a rule is.
type RuleUnit uint8

// The units of rules.
const (
	RuleFlag  RuleUnit = iota // 0 or 1
	RuleCount                 // of jobs or records
	RuleSpan                  // of time, in microseconds
)

// RuleValue is a rule and its number.
type RuleValue struct {
	Rule  *Rule
	Value int64
}

var rules = []*Rule{
	{Name: "paused", Unit: RuleFlag, Label: "Paused", Help: "whether claims get nothing", Zero: "no",
		field: func(p *Policy) any { return &p.Paused }},
	{Name: "max_depth", Unit: RuleCount, Label: "Maximum depth", Zero: "no limit",
		Help:  "maximum number of pending, scheduled and waiting jobs; more are refused",
		field: func(p *Policy) any { return &p.MaxDepth }},
	{Name: "keep_completed", Unit: RuleSpan, Label: "Keep completed for", Zero: "none, unless a job asks for it",
		Help:  "how long to keep records of completed and cancelled jobs",
		field: func(p *Policy) any { return &p.RetainCompleted.Age }},
	{Name: "keep_completed_count", Unit: RuleCount, Label: "Keep completed, at most", Zero: "no limit",
		Help:  "how many of these records to keep",
		field: func(p *Policy) any { return &p.RetainCompleted.Count }},
	{Name: "keep_dead", Unit: RuleSpan, Label: "Keep dead for", Zero: "always",
		Help:  "how long to keep dead jobs",
		field: func(p *Policy) any { return &p.RetainDead.Age }},
	{Name: "keep_dead_count", Unit: RuleCount, Label: "Keep dead, at most", Zero: "no limit",
		Help:  "how many dead jobs to keep",
		field: func(p *Policy) any { return &p.RetainDead.Count }},
	{Name: "duplicate_span", Unit: RuleSpan, Label: "Refuse a given ID again for", Zero: "1h",
		Help:  "how long to refuse a given ID after its job is gone",
		field: func(p *Policy) any { return &p.DuplicateSpan }},
	{Name: "priority_round", Unit: RuleCount, Label: "Jobs in a row, one of each priority", Zero: "urgent jobs first",
		Least: Priorities, Most: MaxPriorityRound,
		Help:  "of so many jobs in a row, at least one is of each priority that has pending jobs",
		field: func(p *Policy) any { return &p.PriorityRound }},
}

// Rules are those of a policy, in a fixed order. The slice is not to be changed.
func Rules() []*Rule { return rules }

// Of is the rule's number in a policy. A span that is no whole number of
// microseconds is rounded up.
func (r *Rule) Of(p *Policy) int64 {
	switch f := r.field(p).(type) {
	case *int64:
		return *f
	case *time.Duration:
		return DurationMicros(*f)
	case *bool:
		if *f {
			return 1
		}
	}
	return 0
}

// Set gives the rule a number in a policy.
func (r *Rule) Set(p *Policy, n int64) {
	switch f := r.field(p).(type) {
	case *int64:
		*f = n
	case *time.Duration:
		*f = time.Duration(n) * time.Microsecond
	case *bool:
		*f = n != 0
	}
}

func (r *Rule) check(p *Policy) error {
	name := strings.ReplaceAll(r.Name, "_", " ")
	switch f := r.field(p).(type) {
	case *time.Duration:
		return CheckDuration(name, *f)
	case *int64:
		switch n := *f; {
		case n != 0 && r.Most > 0 && (n < r.Least || n > r.Most):
			return Invalid(name, "is %d; use 0 (%s) or %d to %d", n, r.Zero, r.Least, r.Most)
		case n < 0:
			return Invalid(name, "is %d; use 0 (%s) or more", n, r.Zero)
		}
	}
	return nil
}
