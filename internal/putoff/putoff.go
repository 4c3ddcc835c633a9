// Package putoff snoozes jobs for a cause, for delays that can grow.
package putoff

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Snooze is the error of a handler that snoozes its job. With a cause, the job counts
// its snoozes that have this cause (broker.PutOff).
type Snooze struct {
	Delay time.Duration
	Cause string
}

func (e *Snooze) Error() string { return fmt.Sprintf("snoozed for %v", e.Delay) }

// Growing returns an error that snoozes a job for min the first time that it has this cause, and for half as
// much again each further time before it runs, up to max. The delay varies by a tenth, so that waiting jobs do
// not return together.
func Growing(j *broker.Job, cause string, min, max time.Duration) *Snooze {
	delay := min
	for range j.PutOffFor(cause).Times {
		if delay += delay / 2; delay >= max {
			delay = max
			break
		}
	}
	return &Snooze{Delay: delay*9/10 + rand.N(delay/5+1), Cause: cause}
}

// Outcome returns the outcome for an error that wraps a Snooze. now is the store's time.
func Outcome(err error, delay time.Duration, now time.Time) broker.Outcome {
	o := broker.Snooze(delay, broker.Failure{})
	if s, ok := errors.AsType[*Snooze](err); ok && s.Cause != "" {
		o = o.Because(s.Cause, now)
	}
	return o
}

// Recorded returns the outcome that snoozes a job for a cause at f.At. The first such snooze since
// the job was last charged for something else leaves f in its history. Later ones do not: they would
// drop older entries.
func Recorded(j *broker.Job, cause string, delay time.Duration, f broker.Failure) broker.Outcome {
	at := f.At
	if j.PutOffFor(cause).Times > 0 {
		f = broker.Failure{}
	}
	return broker.Snooze(delay, f).Because(cause, at)
}
