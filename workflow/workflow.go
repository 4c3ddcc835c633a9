package workflow

import (
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

// Queue is the reserved queue whose jobs are workflows and their letters.
const Queue = broker.ReservedPrefix + "workflows"

// Workflow is a graph of nodes. Set its fields before Start; afterwards they have
// no effect.
type Workflow struct {
	// ID is unique in the store: 1 to 100 bytes, without "/". It can be used again
	// when the record of the workflow is gone.
	ID string
	// Deadline is when a workflow that has not ended fails: running nodes are
	// cancelled, and compensations run. Zero means none.
	Deadline time.Time
	// Retention is how long the workflow and its nodes, with their results, are
	// kept after it was completed or cancelled. Failed ones are kept until Retry or
	// Delete. Zero means 24 hours.
	Retention time.Duration

	// OnSuccess starts when the workflow has completed, OnFailure when it failed or was cancelled, and
	// OnEnd in all these cases. The workflow does not wait for them. Each starts at most once, even
	// after Retry. Each may be nil.
	OnSuccess, OnFailure, OnEnd *jobs.Task

	parts []Part
}

// New returns a workflow without nodes.
func New(id string) *Workflow { return &Workflow{ID: id} }

// Add adds nodes and returns the workflow. Start checks them.
func (w *Workflow) Add(parts ...Part) *Workflow {
	w.parts = append(w.parts, parts...)
	return w
}

// State is the state of a workflow or a node.
type State string

// States of workflows and nodes. A node's job that is queued or runs has the
// state of the job: pending, active, retry or scheduled.
const (
	StateStarting     State = "starting"     // of a workflow: its client has not stored all of it
	StateRunning      State = "running"      // of a workflow, or a node that is a workflow
	StateStopping     State = "stopping"     // of a workflow: no more nodes start, and it waits for running ones
	StateCompensating State = "compensating" // of a workflow
	StateFailed       State = "failed"       // of a workflow
	StateCompleted    State = "completed"
	StateCancelled    State = "cancelled"

	StateWaiting State = "waiting" // of a node: for other nodes, a signal or a time
	StateStarted State = "started" // of a node: its job was let go, and is queued, runs or has ended
	StateDead    State = "dead"    // of a node
	StateGone    State = "gone"    // of a node: its job was deleted
	StateExpired State = "expired" // of a node: its signal did not come in time
	StateSkipped State = "skipped" // of a node
	StateUnknown State = "unknown" // of a node: a newer program wrote its state
)

// States returns the states that a workflow can be in, in the order of its life. Those of
// nodes are not among them.
func States() []State {
	return []State{StateStarting, StateRunning, StateStopping, StateCompensating, StateCompleted, StateFailed, StateCancelled}
}

// Ended reports whether the state is final: only Retry can still change it.
func (s State) Ended() bool {
	switch s {
	case StateFailed, StateCompleted, StateCancelled, StateDead, StateGone, StateExpired, StateSkipped:
		return true
	}
	return false
}
