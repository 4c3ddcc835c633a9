package jobs

import (
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/engine"
)

// Hooks report what a server does, for metrics and alerts. Each may be nil.
// The server's own loops call them, several at once. So they must return
// quickly and must not call the server. The data of an event must not be
// changed, and must not be kept after the hook has returned. If a hook panics,
// or ends its goroutine, that is logged and does no harm.
type Hooks struct {
	Claim   func(ClaimEvent)   // after each claim, successful or not
	Settle  func(SettleEvent)  // after each attempt to settle
	Renew   func(RenewEvent)   // after each attempt to renew the leases; called later, dropped if very late
	Reclaim func(ReclaimEvent) // after each attempt to reclaim jobs of dead servers
	Worker  func(WorkerEvent)  // when a worker has started or ended; called later, in order with Renew
	Stuck   func(StuckEvent)   // once for each stuck handler
	Unstuck func(StuckEvent)   // once for each stuck handler that has returned
}

// JoinHooks returns hooks that call, for each event, the hooks of all
// arguments in order: the application's own and those of middleware.
func JoinHooks(hooks ...Hooks) Hooks {
	var all Hooks
	for _, h := range hooks {
		all.Claim = joinHook(all.Claim, h.Claim)
		all.Settle = joinHook(all.Settle, h.Settle)
		all.Renew = joinHook(all.Renew, h.Renew)
		all.Reclaim = joinHook(all.Reclaim, h.Reclaim)
		all.Worker = joinHook(all.Worker, h.Worker)
		all.Stuck = joinHook(all.Stuck, h.Stuck)
		all.Unstuck = joinHook(all.Unstuck, h.Unstuck)
	}
	return all
}

func joinHook[E any](first, second func(E)) func(E) {
	if first == nil || second == nil {
		if first == nil {
			return second
		}
		return first
	}
	return func(e E) {
		defer second(e) // also when the first one panics
		first(e)
	}
}

// ClaimEvent reports a claim.
type ClaimEvent struct {
	Now    time.Time    // the store's clock; zero beside an error
	Jobs   []broker.Job // can be present beside an error
	Asked  int          // the maximum number of jobs that was asked for
	Waited bool         // it could wait for a job
	Took   time.Duration
	Err    error
}

// SettleEvent reports an attempt to settle outcomes. Verdicts has one entry
// for each item. It is empty if the attempt failed, which will then be
// repeated. If the attempt failed for some queues only, their items are left
// out, Err says why, and they will be repeated. With an Err that is
// ErrLeaseLost or broker.ErrWorkerGone nothing is repeated: none of the items
// was applied. An item of kind broker.OutcomeKeep is what a running handler
// stored, see Job.SetCheckpoint: its job goes on.
type SettleEvent struct {
	Items    []broker.Settlement
	Verdicts []broker.Verdict
	Took     time.Duration
	Err      error
}

// RenewEvent reports a heartbeat. Margin is the time that was left of the
// lease when it ended. Near zero, other workers will soon reclaim the jobs.
// Margin is zero beside the Err of an attempt to register, until one has
// succeeded.
type RenewEvent struct {
	Worker string
	Margin time.Duration
	Took   time.Duration
	Lost   bool // the worker's leases had run out, and other workers have its jobs
	Err    error
}

// ReclaimEvent reports which jobs of dead servers were reclaimed.
type ReclaimEvent struct {
	Jobs []broker.Job
	Took time.Duration
	Err  error
}

// WorkerEvent reports a worker: one registration of a server with the store. A
// server that lost its worker starts another one.
type WorkerEvent struct {
	Kind        WorkerEventKind
	Worker      string
	Concurrency int           // of its server
	Lease       time.Duration // of its server
	Err         error         // why a drained worker could not be retired
}

// WorkerEventKind says what happened to a worker.
type WorkerEventKind uint8

// What happens to workers.
const (
	WorkerStarted = WorkerEventKind(engine.WorkerStarted) // it was registered
	WorkerLost    = WorkerEventKind(engine.WorkerLost)    // it could not be renewed in time, or other workers have its jobs
	WorkerDrained = WorkerEventKind(engine.WorkerDrained) // its server was drained
)

// StuckEvent reports a handler that has not returned after its context ended
// for Cause. Stack is where it is now; it is empty once the handler has
// returned.
type StuckEvent struct {
	Job     *Job
	Cause   error
	Overdue time.Duration // since the context ended
	Stack   string
}
