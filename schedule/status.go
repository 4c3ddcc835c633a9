package schedule

import (
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Status says in one word how a schedule is.
type Status string

// How a schedule is. Those from StatusLate on need somebody to look.
const (
	StatusWaiting    Status = "waiting"    // for its next tick
	StatusPaused     Status = "paused"     // until Resume
	StatusEnded      Status = "ended"      // there is no further tick
	StatusLate       Status = "late"       // a tick has been due for more than Grace, and is not enqueued
	StatusFailing    Status = "failing"    // its last tick was not enqueued; Info.Error says why
	StatusStopped    Status = "stopped"    // its own job has ended or is held, so it does not tick
	StatusUnreadable Status = "unreadable" // this program cannot read its definition
)

// Statuses lists all of them, those that need somebody to look last.
func Statuses() []Status {
	return []Status{StatusWaiting, StatusPaused, StatusEnded, StatusLate, StatusFailing, StatusStopped, StatusUnreadable}
}

// Grace is how late a tick may be before its schedule counts as late. A server
// that dies, and a queue that is full for a moment, take less.
const Grace = 2 * time.Minute

// status is how a schedule is that can tick.
func (info *Info) status(st *state) Status {
	switch {
	case st.Paused != nil:
		return StatusPaused
	case !info.Due.IsZero() && info.Now.Sub(info.Due) > Grace:
		return StatusLate
	case info.Error != "":
		return StatusFailing
	case info.Next.IsZero() && st.Buffered.IsZero():
		return StatusEnded
	}
	return StatusWaiting
}

// stopped says why a schedule's job does not run any more; it is empty if the
// job goes on.
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
