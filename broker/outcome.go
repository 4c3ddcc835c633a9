package broker

import "time"

// OutcomeKind names how a lease ended, or that it did not.
type OutcomeKind uint8

// How a lease can end; OutcomeKeep alone does not end it.
const (
	OutcomeNone OutcomeKind = iota
	OutcomeComplete
	OutcomeRetry
	OutcomeCrash
	OutcomeDie
	OutcomeSnooze
	OutcomeRelease
	OutcomeCancel
	OutcomeKeep
)

var outcomeNames = [...]string{"none", "complete", "retry", "crash", "dead", "snooze", "release", "cancel", "keep"}

func (k OutcomeKind) String() string {
	if int(k) < len(outcomeNames) {
		return outcomeNames[k]
	}
	return "invalid"
}

// Outcome is the end of one lease, or Keep. The constructors make every legal one; the
// zero value is refused.
type Outcome struct {
	kind    OutcomeKind
	delay   time.Duration
	reason  DeadReason
	failure *Failure
	result  []byte
	kept    *Kept
}

// Complete ends a job that is done. The result is kept with its record, if
// the record is kept at all.
func Complete(result []byte) Outcome { return Outcome{kind: OutcomeComplete, result: result} }

// Retry charges a failure and makes the job due after delay, at once when
// delay is zero or less.
func Retry(delay time.Duration, f Failure) Outcome {
	return Outcome{kind: OutcomeRetry, delay: max(delay, 0), failure: &f}
}

// Crash charges the death of a job's worker. Without a delay the job goes to
// the front of its queue.
func Crash(delay time.Duration, f Failure) Outcome {
	return Outcome{kind: OutcomeCrash, delay: max(delay, 0), failure: &f}
}

// Die puts the job into the dead-letter queue. A reason of ReasonCrashes
// charges a crash; ReasonExpired, ReasonUnknownType and ReasonUndecodable
// charge nothing; the others charge a failure.
func Die(reason DeadReason, f Failure) Outcome {
	return Outcome{kind: OutcomeDie, reason: reason, failure: &f}
}

// Snooze makes the job due after delay, at once when that is zero or less,
// and charges nothing. A failure without a message leaves no entry in the
// history.
func Snooze(delay time.Duration, f Failure) Outcome {
	o := Outcome{kind: OutcomeSnooze, delay: max(delay, 0)}
	if f.Message != "" {
		o.failure = &f
	}
	return o
}

// Release puts the job back to the front of its queue and charges nothing.
func Release() Outcome { return Outcome{kind: OutcomeRelease} }

// Cancel ends a job that is not to be done. A failure without a message leaves
// no entry in the history.
func Cancel(f Failure) Outcome {
	o := Outcome{kind: OutcomeCancel}
	if f.Message != "" {
		o.failure = &f
	}
	return o
}

// Keep stores what a handler kept, in place of what it kept before, and leaves the
// lease and all else as it is (§30).
func Keep(k Kept) Outcome { return Outcome{kind: OutcomeKeep, kept: &k} }

// With returns o with what the handler kept last. Without it, an outcome leaves
// what the item's Head has, or what is stored.
func (o Outcome) With(k Kept) Outcome {
	o.kept = &k
	return o
}

// Kept is what Keep or With was given, or nil.
func (o Outcome) Kept() *Kept { return o.kept }

// Kind says which constructor made o.
func (o Outcome) Kind() OutcomeKind { return o.kind }

// Delay is how long after the settle the job is due; zero means at once.
func (o Outcome) Delay() time.Duration { return o.delay }

// Result is what Complete was given.
func (o Outcome) Result() []byte { return o.result }

// Reason is why the outcome makes the job dead, or ReasonNone.
func (o Outcome) Reason() DeadReason { return o.reason }

// Failure is the history entry the outcome adds, or nil.
func (o Outcome) Failure() *Failure { return o.failure }

// Front reports whether the job goes to the front of its queue.
func (o Outcome) Front() bool {
	return o.kind == OutcomeRelease || o.kind == OutcomeCrash && o.delay == 0
}

// State is where the outcome leads.
func (o Outcome) State() State {
	switch o.kind {
	case OutcomeComplete:
		return StateCompleted
	case OutcomeDie:
		return StateDead
	case OutcomeCancel:
		return StateCancelled
	case OutcomeRetry, OutcomeCrash, OutcomeSnooze:
		if o.delay > 0 {
			return StateRetry
		}
		return StatePending
	case OutcomeRelease:
		return StatePending
	case OutcomeKeep:
		return StateActive
	}
	return StateNone
}

// IfCancelRequested is the outcome to apply to a job that an operator asked to
// cancel while it ran: one that would keep the job alive becomes Cancel, one
// that ends it stands, and so does Keep, which leaves the request as it is.
func (o Outcome) IfCancelRequested() Outcome {
	if o.State().Final() || o.kind == OutcomeKeep {
		return o
	}
	return Outcome{kind: OutcomeCancel, failure: o.failure, kept: o.kept}
}

// Apply returns the head of a job after its lease ended with o at now, or after
// Keep. Every backend's settle stores exactly this; history is the cap of the error
// log.
func (o Outcome) Apply(h Head, now time.Time, history int) Head {
	if o.kept != nil {
		h.Kept = o.kept.orNone()
	}
	if o.kind == OutcomeKeep {
		return h
	}
	h = o.Charge(h)
	h.Epoch++
	switch o.kind {
	case OutcomeComplete:
		h.Result, h.Kept = o.result, h.Kept.done()
	case OutcomeDie:
		h.Reason = o.reason
	}
	if o.failure != nil {
		h.Errors = h.Errors.With(*o.failure, history)
	}
	if o.State().Final() {
		h.FinishedAt = now
	}
	return h
}

// Charge is the part of Apply that counts: deliveries, failures, crashes and
// snoozes. Keep charges nothing.
func (o Outcome) Charge(h Head) Head {
	if o.kind == OutcomeKeep {
		return h
	}
	h.Deliveries++
	switch o.kind {
	case OutcomeRetry:
		h.Failures++
	case OutcomeCrash:
		h.Crashes++
	case OutcomeSnooze:
		h.Snoozes++
	case OutcomeDie:
		switch o.reason {
		case ReasonCrashes:
			h.Crashes++
		case ReasonExpired, ReasonUnknownType, ReasonUndecodable:
		default:
			h.Failures++
		}
	}
	return h
}

// Redriven returns the head of a dead job sent back to its queue: fresh
// counts, a new epoch, the history and what its handler kept as they were.
func (h Head) Redriven() Head {
	return Head{Epoch: h.Epoch + 1, Deliveries: h.Deliveries, Errors: h.Errors, Kept: h.Kept, unknown: h.unknown, newer: h.newer}
}

// Moved returns the head after a transition that only raises the epoch.
func (h Head) Moved() Head {
	h.Epoch++
	return h
}
