package jobs

import (
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/engine"
)

// Hooks report what a server does, for metrics and alerts. Each may be nil.
// The server's loops call them, and several calls can run at once. So hooks must
// return quickly and must not call the server. They must not change the data of an
// event, or keep it after they have returned. If a hook panics or calls
// runtime.Goexit, that is logged, and the server goes on.
//
// Renew and Worker are called in another goroutine, in order, so that a slow hook
// does not delay the heartbeat. If 256 events wait, further ones are dropped, and
// the log says how many.
type Hooks struct {
	Claim   func(ClaimEvent)   // after each claim, successful or not
	Settle  func(SettleEvent)  // after each attempt to settle
	Renew   func(RenewEvent)   // after each attempt to renew the leases
	Reclaim func(ReclaimEvent) // after each attempt to reclaim jobs of dead servers
	Worker  func(WorkerEvent)  // when a worker has started or ended
	Stuck   func(StuckEvent)   // once for each stuck handler
	Unstuck func(StuckEvent)   // once for each stuck handler that has returned
}

// JoinHooks returns hooks that call the hooks of all arguments in order: the
// application's own and those of middleware, for example. If a hook panics, the later
// ones are still called.
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
	Now    time.Time    // the store's clock; zero with an error
	Jobs   []broker.Job // can be present together with an error
	Asked  int          // the maximum number of jobs that the claim asked for
	Waited bool         // the claim could wait for a job
	Took   time.Duration
	Err    error
}

// SettleEvent reports an attempt to settle outcomes. Verdicts has one entry
// for each item. It is empty if the attempt failed; the attempt is then repeated.
// If Err is ErrLeaseLost or broker.ErrWorkerGone, the attempt is not repeated, and
// none of the items was applied. If the attempt failed for some queues only, Err says
// why; their items are left out of the event and are sent again. An item of kind
// broker.OutcomeKeep is something that a running handler stored (see
// Job.SetCheckpoint): its job goes on.
type SettleEvent struct {
	Items    []broker.Settlement
	Verdicts []broker.Verdict
	Took     time.Duration
	Err      error
}

// RenewEvent reports a heartbeat. Margin is how much of the lease was left when the
// attempt ended. If it is near zero, other workers will soon reclaim the jobs. It is
// zero until the worker has been registered.
type RenewEvent struct {
	Worker string
	Margin time.Duration
	Took   time.Duration
	Lost   bool // the leases had run out, and other workers have reclaimed the jobs
	Err    error
}

// ReclaimEvent reports an attempt to reclaim jobs of dead servers.
type ReclaimEvent struct {
	Jobs []broker.Job
	Took time.Duration
	Err  error
}

// WorkerEvent reports the start or the end of a worker: a registration of a server
// with the store. A server that lost its worker starts another one.
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
	WorkerLost    = WorkerEventKind(engine.WorkerLost)    // it was not renewed in time, or other workers have its jobs
	WorkerDrained = WorkerEventKind(engine.WorkerDrained) // its server was drained
)

// StuckEvent reports a handler that has not returned although its context ended,
// with cause Cause. Stack is the handler's stack now, or empty once the handler has
// returned.
type StuckEvent struct {
	Job     *Job
	Cause   error
	Overdue time.Duration // since the context ended
	Stack   string
}
