package broker

import "time"

// Policy is a queue's record of rules, honoured inside the atomic step of the
// call they concern.
type Policy struct {
	Paused          bool          // claims get nothing
	MaxDepth        int64         // pending, scheduled and waiting jobs; 0 means unbounded
	RetainCompleted Retention     // and cancelled; the zero value keeps none
	RetainDead      Retention     // the zero value keeps all
	DuplicateSpan   time.Duration // how long a caller's own ID outlives its job; 0 means DefaultDuplicateSpan

	// PriorityRound has jobs of low priority go out while more urgent ones are
	// pending: of so many jobs in a row that claims take, at least one is of each
	// priority that has pending jobs. From 4 (each in turn) to MaxPriorityRound; 0
	// means that urgent jobs go first, whatever waits.
	PriorityRound int64
}

// Turn is the priority that the n-th job (from 0) that claims take is to be of, if
// one of that priority is pending; otherwise, and when it is 0, the most urgent
// job goes. The last three jobs of a round are those of the lower priorities.
func (p *Policy) Turn(n int64) Priority {
	if p.PriorityRound > 0 {
		if last := n%p.PriorityRound - p.PriorityRound; last >= -3 {
			return Priority(int64(PriorityBulk) + 1 + last)
		}
	}
	return 0
}

// Retention bounds kept records by age and by count; 0 in Count means no
// bound by count. For completed jobs an Age of 0 keeps none, unless the job
// asked for a retention of its own; for dead ones it means no bound by age.
type Retention struct {
	Age   time.Duration
	Count int64
}

// PolicyRequest changes the fields that are set.
type PolicyRequest struct {
	Queue           string
	Paused          *bool
	MaxDepth        *int64
	RetainCompleted *Retention
	RetainDead      *Retention
	DuplicateSpan   *time.Duration
	PriorityRound   *int64
}

// PolicyFrom is the request that makes a queue's policy the one given, wherever
// it differs from now. What now has the same stays as it is in the store.
func PolicyFrom(queue string, now, wanted Policy) PolicyRequest {
	r := PolicyRequest{Queue: queue}
	change(&r.Paused, now.Paused, wanted.Paused)
	change(&r.MaxDepth, now.MaxDepth, wanted.MaxDepth)
	change(&r.RetainCompleted, now.RetainCompleted, wanted.RetainCompleted)
	change(&r.RetainDead, now.RetainDead, wanted.RetainDead)
	change(&r.DuplicateSpan, now.DuplicateSpan, wanted.DuplicateSpan)
	change(&r.PriorityRound, now.PriorityRound, wanted.PriorityRound)
	return r
}

func change[T comparable](field **T, now, wanted T) {
	if now != wanted {
		*field = &wanted
	}
}

// Apply sets in p what the request changes. Spans are rounded up to microseconds,
// as stores keep them.
func (r *PolicyRequest) Apply(p *Policy) {
	r.set(p)
	for _, rule := range Rules() {
		rule.Set(p, rule.Of(p))
	}
}

func (r *PolicyRequest) set(p *Policy) {
	set(&p.Paused, r.Paused)
	set(&p.MaxDepth, r.MaxDepth)
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

// Changes are the rules that the request sets, with their new values.
func (r *PolicyRequest) Changes() (changes []RuleValue) {
	var some, others Policy
	for _, rule := range Rules() {
		rule.Set(&others, 1)
	}
	r.Apply(&some)
	r.Apply(&others)
	for _, rule := range Rules() {
		if v := rule.Of(&some); v == rule.Of(&others) { // it was set, whatever it was before
			changes = append(changes, RuleValue{rule, v})
		}
	}
	return changes
}

// Check refuses rules outside their limits.
func (r *PolicyRequest) Check() error {
	err := CheckQueue(r.Queue)
	var p Policy
	r.set(&p)
	for _, rule := range Rules() {
		if err == nil {
			err = rule.check(&p)
		}
	}
	return About(err, "policy", r.Queue, "")
}
