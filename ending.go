package jobs

import (
	"context"
	"time"

	"github.com/seed81422ce9/jobs/internal/engine"
	"github.com/seed81422ce9/jobs/internal/guard"
)

// How a run can end, as Ending.Outcome says.
const (
	EndedCompleted = "completed"
	EndedRetried   = "retried"   // after a charged failure; the job runs again
	EndedDead      = "dead"      // by SkipRetry, or because its retries are spent
	EndedExpired   = "expired"   // dead because its deadline passed
	EndedSnoozed   = "snoozed"   // the job runs again later, without a charge
	EndedCancelled = "cancelled" // by an operator or by the handler
	EndedReleased  = "released"  // without a charge, because the server ended the run
)

// Ending is the outcome for a job whose handler has returned.
type Ending struct {
	Outcome string // one of the Ended constants
	// Delay is the time until the next run if the error sets it, as Snooze and
	// RetryAfter do. Otherwise it is zero, and the retry policy decides later.
	Delay time.Duration
	// Decided says that the error itself sets the outcome, or was Classified. Outer
	// middleware should not change it.
	Decided bool
	Class   string // see Classification; empty without an error, and for Snooze
	Code    string // see Classification
}

// EndingOf returns the outcome that the server will choose for job when its handler
// returns err, for middleware that records or changes it. It can differ in three
// cases: Config.Classify is not called; a job of an unknown type that has reached
// Config.UnknownTypeLimit is dead, not snoozed; and the store refuses the outcome if
// the lease was lost.
func EndingOf(ctx context.Context, job *Job, err error) Ending {
	if err == nil {
		return Ending{Outcome: EndedCompleted}
	}
	var e Ending
	if failed := guard.Call(func() { e = endingOf(ctx, job, err) }); failed != nil { // a method of err panicked
		e = Ending{Outcome: EndedRetried, Class: ClassRetryable}
		if spent(job, 0) {
			e.Outcome = EndedDead
		}
	}
	return e
}

func endingOf(ctx context.Context, job *Job, err error) Ending {
	cause := engine.EndOf(ctx)
	given, classified := carriedBy(err)
	c := given.orClass(classOf(err, cause))
	v, delay := judge(c.verdict(err), cause)
	e := Ending{Class: c.Class, Code: c.Code, Decided: v != rulingRetry || classified}
	switch v {
	case rulingCancel:
		e.Outcome = EndedCancelled
	case rulingSkip:
		e.Outcome = EndedDead
	case rulingSnooze:
		e.Outcome, e.Delay, e.Class = EndedSnoozed, delay, ""
	case rulingUnknown:
		e.Outcome = EndedSnoozed
	case rulingExpired:
		e.Outcome = EndedExpired
	case rulingRelease:
		e.Outcome = EndedReleased
	default:
		e.Outcome, e.Delay = EndedRetried, delay
		if spent(job, c.Attempts) {
			e.Outcome, e.Delay = EndedDead, 0
		}
	}
	return e
}
