package engine

import (
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Hooks tell what the server does; package jobs describes them. Each may be nil.
type Hooks struct {
	Claim   func(ClaimEvent)
	Settle  func(SettleEvent)
	Renew   func(RenewEvent)
	Reclaim func(ReclaimEvent)
	Worker  func(WorkerEvent)
	Stuck   func(StuckEvent)
	Unstuck func(StuckEvent)
}

// ClaimEvent tells what a claim gave.
type ClaimEvent struct {
	Now    time.Time
	Jobs   []broker.Job
	Asked  int
	Waited bool
	Took   time.Duration
	Err    error
}

// SettleEvent tells what became of outcomes.
type SettleEvent struct {
	Items    []broker.Settlement
	Verdicts []broker.Verdict
	Took     time.Duration
	Err      error
}

// RenewEvent tells of a heartbeat.
type RenewEvent struct {
	Worker string
	Margin time.Duration
	Took   time.Duration
	Lost   bool
	Err    error
}

// ReclaimEvent tells which jobs of dead servers were taken over.
type ReclaimEvent struct {
	Jobs []broker.Job
	Took time.Duration
	Err  error
}

// WorkerEvent tells that a worker began or ended.
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

// StuckEvent tells of a handler that goes on although its context ended.
type StuckEvent struct {
	Job     *broker.Job
	Cause   error
	Overdue time.Duration
	Stack   string

	since time.Time
}
