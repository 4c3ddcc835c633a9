package broker

import "time"

// OutcomeKind names an outcome.
type OutcomeKind uint8

// The kinds of outcomes. All but OutcomeKeep end the lease.
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

// Outcome says how a lease ends, or what is kept under it. Make it by a constructor; the
// zero value is refused.
type Outcome struct {
	kind    OutcomeKind
	delay   time.Duration
	reason  DeadReason
	failure *Failure
	result  []byte
	kept    *Kept
	putOff  *PutOff // the cause and the time of a snooze
}

// Complete ends a job that is done. If the job's record is kept, the result is kept with
// it.
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

// Keep stores what a handler kept, in place of what it kept before, and changes nothing
// else (§30).
func Keep(k Kept) Outcome { return Outcome{kind: OutcomeKeep, kept: &k} }

// With returns o with what the handler kept last. Without it, an outcome leaves what the
// item's Head has, or what is stored (§31).
func (o Outcome) With(k Kept) Outcome {
	o.kept = &k
	return o
}

// Kept returns the argument of Keep or With, or nil.
func (o Outcome) Kept() *Kept { return o.kept }

// Kind returns which constructor made o.
func (o Outcome) Kind() OutcomeKind { return o.kind }

// Delay returns how long after the settle the job is due; zero means at once.
func (o Outcome) Delay() time.Duration { return o.delay }

// Result returns the argument of Complete.
func (o Outcome) Result() []byte { return o.result }

// Reason returns why the outcome makes the job dead, or ReasonNone.
func (o Outcome) Reason() DeadReason { return o.reason }

// Failure returns the entry that the outcome adds to the history, or nil.
func (o Outcome) Failure() *Failure { return o.failure }

// Front reports whether the job goes to the front of its queue.
func (o Outcome) Front() bool {
	return o.kind == OutcomeRelease || o.kind == OutcomeCrash && o.delay == 0
}

// State returns the state that the outcome leads to.
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

// IfCancelRequested returns the outcome to apply to a job that was asked to cancel while
// it ran. An outcome after which the job would run again becomes Cancel. One that ends
// the job stays, and so does Keep, which leaves the request as it is.
func (o Outcome) IfCancelRequested() Outcome {
	if o.State().Final() || o.kind == OutcomeKeep {
		return o
	}
	return Outcome{kind: OutcomeCancel, failure: o.failure, kept: o.kept, putOff: o.putOff}
}

// Apply returns the head of a job after its lease ended with o at now, or after Keep. A
// backend's Settle stores exactly this head. History bounds the error log.
func (o Outcome) Apply(h Head, now time.Time, history int) Head {
	if o.kept != nil {
		h.Kept = o.kept.orNone()
	}
	if o.kind == OutcomeKeep {
		return h
	}
	if o.putOff != nil {
		h.PutOffs = o.putOff.again(&h)
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

// Charge returns h with what Apply counts: deliveries, failures, crashes and snoozes.
// Keep charges nothing.
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

// Redriven returns the head of a dead job that goes back to its queue: with fresh counts,
// a new epoch, and the history and Kept that it had.
func (h Head) Redriven() Head {
	return Head{Epoch: h.Epoch + 1, Deliveries: h.Deliveries, Errors: h.Errors, Kept: h.Kept, unknown: h.unknown, newer: h.newer}
}

// Moved returns the head after a transition that only raises the epoch.
func (h Head) Moved() Head {
	h.Epoch++
	return h
}
