package broker

import (
	"cmp"
	"time"
)

// Policy has the rules of a queue, or of one of its keys (§33). A backend applies each
// rule in the atomic step of the call that the rule concerns. A key has the rules from
// Paused to Weight; those that are not zero replace the queue's rules for each key.
type Policy struct {
	Paused    bool  // claims get nothing
	MaxDepth  int64 // pending, scheduled and waiting jobs; for a key also those in retry; 0 means unbounded
	MaxActive int64 // active jobs over all workers; 0 means unbounded
	Rate      Rate  // of the jobs that claims lease, over all workers
	Weight    int64 // of a key only: its turns for each turn of a key of weight 1; 0 means 1

	MaxBytes     int64 // of the bodies of pending, scheduled, waiting and retry jobs; 0 means unbounded
	KeyMaxDepth  int64 // MaxDepth of each key
	KeyMaxActive int64 // MaxActive of each key
	KeyRate      Rate  // Rate of each key
	RetryRate    Rate  // of the jobs in retry that become pending
	Ordered      Order // whether the jobs of a key run one after the other

	RetainCompleted Retention     // and cancelled; the zero value keeps none
	RetainDead      Retention     // the zero value keeps all
	DuplicateSpan   time.Duration // how long a caller's own ID outlives its job; 0 means DefaultDuplicateSpan

	// PriorityRound lets claims lease jobs of low priority while more urgent ones are
	// pending: of that many jobs in a row, at least one is of each priority that has
	// pending jobs. From 4 (each in turn) to MaxPriorityRound; 0 means that urgent jobs
	// always go first.
	PriorityRound int64
}

// OfKey returns the rules from Paused to Weight that hold for a key. own is the key's own
// policy, which may be zero.
func (p *Policy) OfKey(own Policy) Policy {
	of := Policy{Paused: own.Paused, MaxDepth: cmp.Or(own.MaxDepth, p.KeyMaxDepth), MaxActive: cmp.Or(own.MaxActive, p.KeyMaxActive),
		Rate: cmp.Or(own.Rate, p.KeyRate), Weight: cmp.Or(own.Weight, 1)}
	if p.Ordered != OrderNone {
		of.MaxActive = 1
	}
	return of
}

// Rate bounds starts: in any span of Per there are at most Jobs + Burst. Starts are
// Per / Jobs apart. Unused ones are saved up: at most Burst more may start at once. The
// zero Rate bounds nothing.
type Rate struct {
	Jobs  int64
	Per   time.Duration
	Burst int64
}

// Order says whether the jobs of a key run one after the other (§36).
type Order uint8

// The orders of a key's jobs.
const (
	OrderNone Order = iota // at once, within the limits of the key
	OrderStop              // one after the other; a dead job stops its key until it is redriven or deleted
	OrderSkip              // one after the other; after a dead job the next one runs
)

// NoLimit in a PolicyRequest removes a limit. Zero is refused there, since a reader could
// take it for "run nothing", which is Paused.
const NoLimit = -1

// Turn returns the priority that the n-th claimed job, counted from 0, should have. If it
// is 0, or no job of that priority is pending, the most urgent job is claimed. The last
// three jobs of a round are those of the lower priorities.
func (p *Policy) Turn(n int64) Priority {
	if p.PriorityRound > 0 {
		if last := n%p.PriorityRound - p.PriorityRound; last >= -3 {
			return Priority(int64(PriorityBulk) + 1 + last)
		}
	}
	return 0
}

// Retention bounds kept records by age and by count. A Count of 0 means no bound by
// count. An Age of 0 keeps no completed jobs, except those with a retention of their
// own; for dead jobs it means no bound by age.
type Retention struct {
	Age   time.Duration
	Count int64
}

// PolicyRequest changes the rules that it sets, in the policy of a queue or of one of its
// keys. NoLimit removes a limit; to remove a Rate, set its Jobs to NoLimit.
type PolicyRequest struct {
	Queue string
	Key   string // empty for the policy of the queue

	Paused          *bool
	MaxDepth        *int64
	MaxActive       *int64
	Rate            *Rate
	Weight          *int64
	MaxBytes        *int64
	KeyMaxDepth     *int64
	KeyMaxActive    *int64
	KeyRate         *Rate
	RetryRate       *Rate
	Ordered         *Order
	RetainCompleted *Retention
	RetainDead      *Retention
	DuplicateSpan   *time.Duration
	PriorityRound   *int64
}

// limits and rates return the fields in which NoLimit stands for zero.
func (r *PolicyRequest) limits() map[string]*int64 {
	return map[string]*int64{"max depth": r.MaxDepth, "max active": r.MaxActive, "weight": r.Weight, "max bytes": r.MaxBytes,
		"key max depth": r.KeyMaxDepth, "key max active": r.KeyMaxActive}
}

func (r *PolicyRequest) rates() map[string]*Rate {
	return map[string]*Rate{"rate": r.Rate, "key rate": r.KeyRate, "retry rate": r.RetryRate}
}

// PolicyFrom returns the request that changes a policy from now to wanted. It sets only
// rules that differ. The policy is the queue's if key is empty.
func PolicyFrom(queue, key string, now, wanted Policy) PolicyRequest {
	r := PolicyRequest{Queue: queue, Key: key}
	change(&r.Paused, now.Paused, wanted.Paused)
	change(&r.MaxDepth, now.MaxDepth, wanted.MaxDepth)
	change(&r.MaxActive, now.MaxActive, wanted.MaxActive)
	change(&r.Rate, now.Rate, wanted.Rate)
	change(&r.Weight, now.Weight, wanted.Weight)
	change(&r.MaxBytes, now.MaxBytes, wanted.MaxBytes)
	change(&r.KeyMaxDepth, now.KeyMaxDepth, wanted.KeyMaxDepth)
	change(&r.KeyMaxActive, now.KeyMaxActive, wanted.KeyMaxActive)
	change(&r.KeyRate, now.KeyRate, wanted.KeyRate)
	change(&r.RetryRate, now.RetryRate, wanted.RetryRate)
	change(&r.Ordered, now.Ordered, wanted.Ordered)
	change(&r.RetainCompleted, now.RetainCompleted, wanted.RetainCompleted)
	change(&r.RetainDead, now.RetainDead, wanted.RetainDead)
	change(&r.DuplicateSpan, now.DuplicateSpan, wanted.DuplicateSpan)
	change(&r.PriorityRound, now.PriorityRound, wanted.PriorityRound)
	for _, n := range r.limits() {
		if n != nil && *n == 0 {
			*n = NoLimit
		}
	}
	for _, rate := range r.rates() {
		if rate != nil && *rate == (Rate{}) {
			rate.Jobs = NoLimit
		}
	}
	return r
}

func change[T comparable](field **T, now, wanted T) {
	if now != wanted {
		*field = &wanted
	}
}

// Apply sets in p what the request changes. It rounds spans up to microseconds, as
// stores keep them.
func (r *PolicyRequest) Apply(p *Policy) {
	r.set(p)
	for _, rule := range Rules() {
		rule.Set(p, rule.Of(p))
	}
}

func (r *PolicyRequest) set(p *Policy) {
	set(&p.Paused, r.Paused)
	setLimit(&p.MaxDepth, r.MaxDepth)
	setLimit(&p.MaxActive, r.MaxActive)
	setRate(&p.Rate, r.Rate)
	setLimit(&p.Weight, r.Weight)
	setLimit(&p.MaxBytes, r.MaxBytes)
	setLimit(&p.KeyMaxDepth, r.KeyMaxDepth)
	setLimit(&p.KeyMaxActive, r.KeyMaxActive)
	setRate(&p.KeyRate, r.KeyRate)
	setRate(&p.RetryRate, r.RetryRate)
	set(&p.Ordered, r.Ordered)
	set(&p.RetainCompleted, r.RetainCompleted)
	set(&p.RetainDead, r.RetainDead)
	set(&p.DuplicateSpan, r.DuplicateSpan)
	set(&p.PriorityRound, r.PriorityRound)
}

func set[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}

func setLimit(field, value *int64) {
	if set(field, value); *field == NoLimit {
		*field = 0
	}
}

func setRate(field, value *Rate) {
	if set(field, value); field.Jobs == NoLimit {
		*field = Rate{}
	}
}

// Changes returns the rules that the request sets, with their new values.
func (r *PolicyRequest) Changes() (changes []RuleValue) {
	var some, others Policy
	for _, rule := range Rules() {
		rule.Set(&others, 1)
	}
	r.Apply(&some)
	r.Apply(&others)
	for _, rule := range Rules() {
		if v := rule.Of(&some); v == rule.Of(&others) { // the request sets it: the result does not depend on the value before
			changes = append(changes, RuleValue{rule, v})
		}
	}
	return changes
}

// Check refuses rules outside their limits, rules that a queue or a key does not have,
// and rules that the backend declines.
func (r *PolicyRequest) Check(l Limits) error {
	err := cmp.Or(CheckQueue(r.Queue), checkOptional("key", r.Key))
	for name, n := range r.limits() {
		if n != nil && *n < 1 && *n != NoLimit {
			err = cmp.Or(err, Invalid(name, "is %d; use 1 or more, or NoLimit (%d) for none", *n, NoLimit))
		}
	}
	for name, rate := range r.rates() {
		if rate != nil {
			err = cmp.Or(err, rate.check(name))
		}
	}
	var p Policy
	r.set(&p)
	for _, rule := range Rules() {
		err = cmp.Or(err, rule.check(&p))
	}
	for _, c := range r.Changes() {
		switch of := c.Rule; {
		case err != nil:
		case l.NoFlow && (of.Flow || r.Key != ""):
			err = &Error{Field: of.words(), Err: ErrUnsupported}
		case r.Key == "" && !of.Queue:
			err = Invalid(of.words(), "is a rule of a key; name the key")
		case r.Key != "" && !of.Key:
			err = Invalid(of.words(), "is a rule of a queue; leave the key out")
		}
	}
	return About(err, "policy", r.Queue, "")
}

// check refuses a rate that bounds nothing, and one that stores could not count exactly.
// (Jobs + Burst + 1) spans of Per, in microseconds, must be less than 2^53: up to there, a
// double holds every whole number exactly.
func (r *Rate) check(name string) error {
	if r.Jobs == NoLimit && r.Per == 0 && r.Burst == 0 {
		return nil
	}
	switch per := DurationMicros(r.Per); {
	case r.Jobs == NoLimit:
		return Invalid(name, "has NoLimit jobs and a time or a burst, too; leave those out to remove it")
	case r.Jobs < 1:
		return Invalid(name, "has %d jobs; use 1 or more, or NoLimit (%d) for none, or pause", r.Jobs, NoLimit)
	case r.Per <= 0:
		return Invalid(name+" per", "is %v; use the time in which %d jobs may start", r.Per, r.Jobs)
	case r.Burst < 0:
		return Invalid(name+" burst", "is %d; use 0 or more", r.Burst)
	case r.Jobs >= 1<<53/per || r.Burst >= 1<<53/per-r.Jobs-1:
		return Invalid(name, "has %d jobs and a burst of %d per %v, which is too many to count; use a shorter time", r.Jobs, r.Burst, r.Per)
	}
	return nil
}
