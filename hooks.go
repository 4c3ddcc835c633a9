package jobs

import (
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Hooks tell what a server does: for metrics and alerts. Each may be nil. They
// are called by the server's own loops, several at once, so they must return
// quickly and must not call the server. What an event refers to must neither
// be changed nor be kept after the hook has returned.
type Hooks struct {
	Claim   func(ClaimEvent)   // after each claim, successful or not
	Settle  func(SettleEvent)  // after each attempt to settle
	Renew   func(RenewEvent)   // after each attempt to renew the leases
	Reclaim func(ReclaimEvent) // after each search for jobs of dead servers
	Stuck   func(StuckEvent)   // once for each stuck handler
}

// ClaimEvent tells what a claim gave.
type ClaimEvent struct {
	Now    time.Time    // the store's clock; zero beside an error
	Jobs   []broker.Job // may be there beside an error
	Asked  int          // how many jobs would have been taken
	Waited bool         // it was to wait until there is a job
	Took   time.Duration
	Err    error
}

// SettleEvent tells what became of outcomes. Verdicts has one for each item,
// or none when the attempt failed; it will be repeated then. Items of queues in
// which alone it failed are left out, Err says why, and they are repeated too.
type SettleEvent struct {
	Items    []broker.Settlement
	Verdicts []broker.Verdict
	Took     time.Duration
	Err      error
}

// RenewEvent tells of a heartbeat. Margin is how much of the lease was left
// when it ended: near zero, jobs are about to be taken away.
type RenewEvent struct {
	Worker string
	Margin time.Duration
	Took   time.Duration
	Lost   bool // the worker had run out, and its jobs are others' now
	Err    error
}

// ReclaimEvent tells which jobs of dead servers were taken over.
type ReclaimEvent struct {
	Jobs []broker.Job
	Took time.Duration
	Err  error
}

// StuckEvent tells of a handler that goes on although its context ended for
// Cause; Stack is where it is.
type StuckEvent struct {
	Job     *Job
	Cause   error
	Overdue time.Duration // since the context ended
	Stack   string
}
