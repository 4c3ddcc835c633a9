package broker

import "time"

// OutcomeKind names how a lease ended.
type OutcomeKind uint8

// How a lease can end.
const (
	OutcomeNone OutcomeKind = iota
	OutcomeComplete
	OutcomeRetry
	OutcomeCrash
	OutcomeDie
	OutcomeSnooze
	OutcomeRelease
	OutcomeCancel
)

var outcomeNames = [...]string{"none", "complete", "retry", "crash", "dead", "snooze", "release", "cancel"}

func (k OutcomeKind) String() string {
	if int(k) < len(outcomeNames) {
		return outcomeNames[k]
	}
	return "invalid"
}

// Outcome is the end of one lease. The constructors make every legal one; the
// zero value is refused.
type Outcome struct {
	kind    OutcomeKind
	delay   time.Duration
	reason  DeadReason
	failure *Failure
	result  []byte
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
	}
	return StateNone
}

// IfCancelRequested is the outcome to apply to a job that an operator asked to
// cancel while it ran: one that would keep the job alive becomes Cancel, one
// that ends it stands.
func (o Outcome) IfCancelRequested() Outcome {
	if o.State().Final() {
		return o
	}
	return Outcome{kind: OutcomeCancel, failure: o.failure}
}

// Apply returns the head of a job after its lease ended with o at now. Every
// backend's settle stores exactly this; history is the cap of the error log.
func (o Outcome) Apply(h Head, now time.Time, history int) Head {
	h = o.Charge(h)
	h.Epoch++
	switch o.kind {
	case OutcomeComplete:
		h.Result = o.result
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
// snoozes.
func (o Outcome) Charge(h Head) Head {
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
// counts, a new epoch, the history kept.
func (h Head) Redriven() Head {
	return Head{Epoch: h.Epoch + 1, Deliveries: h.Deliveries, Errors: h.Errors, unknown: h.unknown, newer: h.newer}
}

// Moved returns the head after a transition that only raises the epoch.
func (h Head) Moved() Head {
	h.Epoch++
	return h
}
