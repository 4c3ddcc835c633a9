package engine

import (
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Hooks report what the server does; package jobs describes them. Each may be nil.
type Hooks struct {
	Claim   func(ClaimEvent)
	Settle  func(SettleEvent)
	Renew   func(RenewEvent)
	Reclaim func(ReclaimEvent)
	Worker  func(WorkerEvent)
	Stuck   func(StuckEvent)
	Unstuck func(StuckEvent)
}

// ClaimEvent reports a claim.
type ClaimEvent struct {
	Now    time.Time
	Jobs   []broker.Job
	Asked  int
	Waited bool
	Took   time.Duration
	Err    error
}

// SettleEvent reports an attempt to settle outcomes.
type SettleEvent struct {
	Items    []broker.Settlement
	Verdicts []broker.Verdict
	Took     time.Duration
	Err      error
}

// RenewEvent reports a heartbeat.
type RenewEvent struct {
	Worker string
	Margin time.Duration
	Took   time.Duration
	Lost   bool
	Err    error
}

// ReclaimEvent reports an attempt to reclaim jobs of dead servers.
type ReclaimEvent struct {
	Jobs []broker.Job
	Took time.Duration
	Err  error
}

// WorkerEvent reports the start or the end of a worker.
type WorkerEvent struct {
	Kind   WorkerEventKind
	Worker string
	Err    error
}

// WorkerEventKind says what happened to a worker.
type WorkerEventKind uint8

// What happens to workers.
const (
	WorkerStarted WorkerEventKind = iota + 1
	WorkerLost
	WorkerDrained
)

// StuckEvent reports a handler that goes on although its context ended.
type StuckEvent struct {
	Job     *broker.Job
	Cause   error
	Overdue time.Duration
	Stack   string

	since time.Time
}
