package broker

import (
	"slices"
	"strings"
	"time"
)

// Rule describes one rule of a [Policy], which is a number with a name. Stores keep rules,
// and tools show and change them, by the table that [Rules] returns: a new rule needs code
// only where it takes effect.
type Rule struct {
	Name  string // in a store and in JSON: max_depth
	Unit  RuleUnit
	Label string // for a person: Maximum depth
	Help  string // what it does, in one line
	Zero  string // what 0 means: no limit

	// Least and Most bound a count that is not 0; a Most of 0 is no bound.
	Least, Most int64

	Queue, Key bool // which policies have it
	Limit      bool // 0 is no limit, and a request that sets it is refused: see NoLimit
	Flow       bool // Limits.NoFlow declines it

	field func(*Policy) any
}

// words returns the rule's name as errors write it.
func (r *Rule) words() string { return strings.ReplaceAll(r.Name, "_", " ") }

// RuleUnit says what the number of a rule means.
type RuleUnit uint8

// The units of rules.
const (
	RuleFlag  RuleUnit = iota // 0 or 1
	RuleCount                 // of jobs or records
	RuleSpan                  // of time, in microseconds
	RuleOrder                 // an Order
)

// RuleValue is a rule and its number.
type RuleValue struct {
	Rule  *Rule
	Value int64
}

var rules = slices.Concat([]*Rule{
	{Name: "paused", Unit: RuleFlag, Label: "Paused", Help: "whether claims get nothing", Zero: "no", Queue: true, Key: true,
		field: func(p *Policy) any { return &p.Paused }},
	{Name: "max_depth", Unit: RuleCount, Label: "Maximum depth", Limit: true, Zero: "no limit", Queue: true, Key: true,
		Help:  "maximum number of pending, scheduled and waiting jobs; more are refused",
		field: func(p *Policy) any { return &p.MaxDepth }},
	{Name: "max_bytes", Unit: RuleCount, Label: "Maximum bytes", Limit: true, Zero: "no limit", Queue: true, Flow: true,
		Help:  "maximum size of all jobs that neither run nor ended; more are refused",
		field: func(p *Policy) any { return &p.MaxBytes }},
	{Name: "max_active", Unit: RuleCount, Label: "Maximum active", Limit: true, Zero: "no limit", Queue: true, Key: true, Flow: true,
		Help:  "maximum number of jobs that run at once, over all workers",
		field: func(p *Policy) any { return &p.MaxActive }},
}, rateRules("rate", "Rate", "jobs may start", func(p *Policy) *Rate { return &p.Rate }, true), []*Rule{
	{Name: "weight", Unit: RuleCount, Label: "Weight", Limit: true, Zero: "1", Key: true, Flow: true, Most: MaxWeight, Least: 1,
		Help:  "turns of the key for each turn of a key without a weight",
		field: func(p *Policy) any { return &p.Weight }},
	{Name: "key_max_depth", Unit: RuleCount, Label: "Maximum depth of a key", Limit: true, Zero: "no limit", Queue: true, Flow: true,
		Help:  "maximum number of jobs of each key that neither run nor ended; more are refused",
		field: func(p *Policy) any { return &p.KeyMaxDepth }},
	{Name: "key_max_active", Unit: RuleCount, Label: "Maximum active of a key", Limit: true, Zero: "no limit", Queue: true, Flow: true,
		Help:  "maximum number of jobs of each key that run at once, over all workers",
		field: func(p *Policy) any { return &p.KeyMaxActive }},
}, rateRules("key_rate", "Rate of a key", "jobs of each key may start", func(p *Policy) *Rate { return &p.KeyRate }, false),
	rateRules("retry_rate", "Rate of retries", "retries may go back to the queue", func(p *Policy) *Rate { return &p.RetryRate }, false),
	[]*Rule{
		{Name: "ordered", Unit: RuleOrder, Label: "Order of a key's jobs", Zero: "none", Queue: true, Flow: true, Most: int64(OrderSkip),
			Least: 1,
			Help:  "have the jobs of a key run one after the other, and stop or skip at a dead one",
			field: func(p *Policy) any { return &p.Ordered }},
		{Name: "keep_completed", Unit: RuleSpan, Label: "Keep completed for", Zero: "none, unless a job asks for it", Queue: true,
			Help:  "how long to keep records of completed and cancelled jobs",
			field: func(p *Policy) any { return &p.RetainCompleted.Age }},
		{Name: "keep_completed_count", Unit: RuleCount, Label: "Keep completed, at most", Zero: "no limit", Queue: true,
			Help:  "how many of these records to keep",
			field: func(p *Policy) any { return &p.RetainCompleted.Count }},
		{Name: "keep_dead", Unit: RuleSpan, Label: "Keep dead for", Zero: "always", Queue: true,
			Help:  "how long to keep dead jobs",
			field: func(p *Policy) any { return &p.RetainDead.Age }},
		{Name: "keep_dead_count", Unit: RuleCount, Label: "Keep dead, at most", Zero: "no limit", Queue: true,
			Help:  "how many dead jobs to keep",
			field: func(p *Policy) any { return &p.RetainDead.Count }},
		{Name: "duplicate_span", Unit: RuleSpan, Label: "Refuse a given ID again for", Zero: "1h", Queue: true,
			Help:  "how long to refuse a given ID after its job is gone",
			field: func(p *Policy) any { return &p.DuplicateSpan }},
		{Name: "priority_round", Unit: RuleCount, Label: "Jobs in a row, one of each priority", Zero: "urgent jobs first",
			Least: Priorities, Most: MaxPriorityRound, Queue: true,
			Help:  "of so many jobs in a row, at least one is of each priority that has pending jobs",
			field: func(p *Policy) any { return &p.PriorityRound }},
	})

// rateRules returns the rules of the three numbers of a rate.
func rateRules(name, label, what string, of func(*Policy) *Rate, key bool) []*Rule {
	rule := func(suffix string, unit RuleUnit, label, help, zero string, field func(*Rate) any) *Rule {
		return &Rule{Name: name + suffix, Unit: unit, Label: label, Help: help, Zero: zero, Queue: true, Key: key, Flow: true,
			Limit: suffix == "", field: func(p *Policy) any { return field(of(p)) }}
	}
	return []*Rule{
		rule("", RuleCount, label, "how many "+what+" in a period", "no limit", func(r *Rate) any { return &r.Jobs }),
		rule("_per", RuleSpan, label+", per", "period over which the "+strings.ToLower(label)+" is counted", "none",
			func(r *Rate) any { return &r.Per }),
		rule("_burst", RuleCount, label+", burst", "how many more may start at once after an idle period", "none",
			func(r *Rate) any { return &r.Burst }),
	}
}

// Rules returns all rules in a fixed order. Callers do not change the slice.
func Rules() []*Rule { return rules }

// Of returns the rule's number in a policy. It rounds spans up to microseconds.
func (r *Rule) Of(p *Policy) int64 {
	switch f := r.field(p).(type) {
	case *int64:
		return *f
	case *time.Duration:
		return DurationMicros(*f)
	case *Order:
		return int64(*f)
	case *bool:
		if *f {
			return 1
		}
	}
	return 0
}

// Set sets the rule's number in a policy.
func (r *Rule) Set(p *Policy, n int64) {
	switch f := r.field(p).(type) {
	case *int64:
		*f = n
	case *time.Duration:
		*f = time.Duration(n) * time.Microsecond
	case *Order:
		*f = Order(n)
	case *bool:
		*f = n != 0
	}
}

func (r *Rule) check(p *Policy) error {
	if f, ok := r.field(p).(*time.Duration); ok {
		return CheckDuration(r.words(), *f)
	}
	switch n := r.Of(p); {
	case n != 0 && r.Most > 0 && (n < r.Least || n > r.Most):
		return Invalid(r.words(), "is %d; use 0 (%s) or %d to %d", n, r.Zero, r.Least, r.Most)
	case n < 0:
		return Invalid(r.words(), "is %d; use 0 (%s) or more", n, r.Zero)
	}
	return nil
}
