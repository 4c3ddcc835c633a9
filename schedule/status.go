package schedule

import (
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Status says whether a schedule ticks as it should.
type Status string

// The statuses of a schedule. Those from StatusLate on need an operator.
const (
	StatusWaiting    Status = "waiting"    // for its next tick
	StatusPaused     Status = "paused"     // until Resume
	StatusEnded      Status = "ended"      // there is no further tick
	StatusLate       Status = "late"       // a tick has been due for more than Grace and is not enqueued, or it sleeps past the next one
	StatusFailing    Status = "failing"    // its last tick was not enqueued; Info.Error says why
	StatusStopped    Status = "stopped"    // its own job has ended or is held, so it does not tick
	StatusUnreadable Status = "unreadable" // this program cannot read its definition
)

// Statuses returns all of them; those that need an operator come last.
func Statuses() []Status {
	return []Status{StatusWaiting, StatusPaused, StatusEnded, StatusLate, StatusFailing, StatusStopped, StatusUnreadable}
}

// Grace is how late a tick may be before its schedule counts as late. A server's
// death, or a queue that is full for a moment, causes a shorter delay.
const Grace = 2 * time.Minute

// status returns the status of a schedule that is not stopped. ahead says that it decides no ticks until a
// time far ahead. Its own job is due at runAt, which is zero if the job is due already.
func (info *Info) status(st *state, ahead bool, runAt time.Time) Status {
	// No schedule sleeps for so long. The store's clock was ahead or is behind, or somebody put the job off.
	oversleeps := ahead || runAt.Sub(info.Now) > maxNap+Grace
	switch {
	case st.Paused != nil:
		return StatusPaused
	case !info.Due.IsZero() && (info.Now.Sub(info.Due) > Grace || oversleeps):
		return StatusLate
	case info.Error != "":
		return StatusFailing
	case info.Next.IsZero() && st.Buffered.IsZero():
		return StatusEnded
	}
	return StatusWaiting
}

// stopped returns why a schedule's job no longer runs, or "" if it does.
func stopped(job *broker.Job) string {
	switch job.State {
	case broker.StateDead:
		return "its job is dead: " + job.Reason.String() + ": " + job.Errors.Last().Message
	case broker.StateCompleted, broker.StateCancelled:
		return "its job is " + job.State.String()
	case broker.StateWaiting:
		return "its job is held by " + job.Holder
	}
	return ""
}
