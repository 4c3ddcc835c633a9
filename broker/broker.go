package broker

import (
	"context"
	"time"
)

// Broker stores jobs and hands them out under leases. It is the interface between
// the framework and a store. The package comment is its contract, cited below
// by section number. It has a part for each caller: a client needs a Producer, a
// server a Worker, an operator's tool an Operator.
//
// Any number of goroutines may call every method at once. A method keeps neither
// its request nor any slice in it after it returns, and what it returns belongs to
// the caller. A method returns when its context ends, with the context's error
// wrapped. Unless its error is one of this package's, such as ErrUnavailable, the
// call may have taken effect (see [MayHaveApplied]): such an error is called unclear
// below. No method repeats a call to the store by itself.
//
// A backend refuses what it cannot do with ErrUnsupported, and declares it in Limits.
// [As] finds what it can do beyond this interface.
type Broker interface {
	Producer
	Worker
	Operator

	// Ping reports whether the store answers, and the store's time, by which it judges
	// leases. If the store has several servers, it returns the latest of their times,
	// even together with an error if at least one of them answered.
	Ping(ctx context.Context) (now time.Time, err error)

	// Close releases what the broker itself opened (never a client or a pool that
	// it was given) and ends calls that wait. Afterwards every method answers
	// ErrClosed. Closing again does nothing. Close lets calls under way finish, but
	// returns after MaxClose at most. Calls that still wait for the store's answer
	// then end later.
	Close() error
}

// Producer is what a client needs of a store. A backend whose store has
// transactions offers one that enqueues inside the caller's.
type Producer interface {
	// Enqueue stores new jobs, in any mix of queues, and makes each claimable or
	// scheduled. Each job is accepted or refused on its own; the receipts are in
	// the order of req.Jobs.
	//
	// The caller sets Queue, ID and Body of each job. It need not check them: the
	// backend calls NewJob.Check. It may change the payloads once Enqueue has
	// returned. Several goroutines may enqueue at once, also jobs with the same ID.
	//
	// The call's own error is set only if nothing else is known about any job; if one
	// queue failed, the receipts of its jobs have the error. After an unclear error the
	// caller may send the same IDs again: for a job that the first call stored, the
	// receipt has ErrDuplicate. §1, §18 to §20, §39 to §41.
	Enqueue(ctx context.Context, req EnqueueRequest) ([]Receipt, error)

	// Limits says what the backend refuses. The zero value refuses nothing. The answer
	// never changes, and the method makes no call to the store.
	Limits() Limits
}

// Worker is what a server needs, besides Limits.
type Worker interface {
	// Claim leases at most Max jobs to a worker, and waits up to Wait for a first one.
	// It makes due jobs pending itself. Before it claims, it settles what req.Settle
	// carries.
	//
	// The caller has registered the worker by Renew. It may have any number of claims
	// under way, but only one of them with a Settle, and no call of Settle at the same
	// time as that one. If ctx ends while the claim waits, the caller holds nothing. If
	// ctx ends later, or the error is unclear, the worker may have leases that the caller
	// does not know: it finds them by Query.Worker and releases them.
	//
	// Jobs and verdicts are valid even with an error: a queue that fails does not keep
	// back what another queue gave. §6, §13, §14, §16, §17.
	Claim(ctx context.Context, req ClaimRequest) (Claimed, error)

	// Renew registers a worker (req.Register), or extends all its leases: one
	// small write for each of its queues, however many jobs it holds.
	//
	// The caller sends every queue that the worker serves, each time. It has one
	// renewal under way at a time, on a goroutine that does nothing else, and repeats
	// a renewal that failed. After Lost the ID has ended, and the caller registers
	// another ID. §6, §7, §8.
	Renew(ctx context.Context, req RenewRequest) (Renewed, error)

	// Retire ends a worker's ID, and returns the jobs that the worker still holds to the
	// front of their queues. The caller sends every queue that the worker served. It
	// may repeat the call after any error, and retire an unknown worker. §6, §12.
	Retire(ctx context.Context, req RetireRequest) (Retired, error)

	// Settle ends leases. Each item is fenced. It is one atomic step, together with what
	// follows from it (unique key, history, events). An item with Keep stores what a
	// handler kept and ends no lease. The verdicts are in the order of req.Items.
	//
	// The caller gives each request of a worker the next Number, and has one request
	// under way at a time. If the answer is lost, it sends the same request under the
	// same Number, and gets the answer of the first time. It leaves the items unchanged
	// until Settle has returned. §3, §9, §10, §30.
	Settle(ctx context.Context, req SettleRequest) ([]Verdict, error)

	// Reclaim ends workers whose leases ran out and leases their jobs to the calling
	// worker, which settles them at once and does not run them. Any number of workers
	// may reclaim at once: each job goes to one of them. After an unclear error the
	// caller does the same as after an unclear error of Claim. §8, §13.
	Reclaim(ctx context.Context, req ReclaimRequest) (Claimed, error)

	// Prune removes records, remembered IDs and whatever else has lapsed, and examines
	// at most Max records of each queue. Any number of servers may prune at once, and
	// repeat the call after any error. §23.
	Prune(ctx context.Context, req PruneRequest) (Pruned, error)

	// Mark reads, takes, extends, changes or drops a named mark, which has an owner, a
	// time to live and a fencing number. After an unclear error of MarkTake the owner
	// takes it again, and gets a higher fence. §24.
	Mark(ctx context.Context, req MarkRequest) (Marked, error)

	// Reconnect makes later calls use new connections: the open ones may lead to a
	// server that was demoted, for example. A Server calls it when no call has succeeded
	// for several leases. Calls under way go on. Reconnect makes no call to the store and
	// returns at once; a backend without connections does nothing.
	Reconnect()
}

// Operator is what an operator's tool needs, besides the Limits and, to move jobs,
// the Enqueue of a Producer.
type Operator interface {
	// Find returns one page of the jobs that a query selects. Its cost depends on the
	// records that it examines, at most Limit, and not on the size of the queue. To get
	// the next page, the caller passes the page's Cursor unchanged, at any later time,
	// to this or another broker of the same store. §21.
	Find(ctx context.Context, q Query) (Page, error)

	// Queues describes queues: counts, oldest times, policy, workers. Its cost depends on
	// the number of queues (and of workers, if they are asked for), and not on their
	// sizes. §23.
	Queues(ctx context.Context, req QueuesRequest) (QueuesReply, error)

	// Operate applies one decision to jobs named by ID. Each job is decided on its
	// own; the results are in the order of op.Refs. The caller may repeat the call
	// after an unclear error: a decision that was applied then answers ErrWrongState,
	// or success again. §22, §27, §28.
	Operate(ctx context.Context, op Operation) ([]OperationResult, error)

	// Policy changes the policy of a queue, or of one of its keys, and returns the whole
	// policy. It changes the rules that the request sets, in one step. A request that sets
	// no rule only reads. The change counts for calls that begin after Policy has
	// returned. The caller may repeat the call after any error. §1, §33.
	Policy(ctx context.Context, req PolicyRequest) (Policy, error)

	// Keys describes one page of the keys of a queue, by name: those that have a policy
	// of their own, or jobs that have not ended. Its cost depends on the keys that it
	// shows. To get the next page, the caller passes the page's Cursor unchanged. §33.
	Keys(ctx context.Context, req KeysRequest) (KeysReply, error)

	// Watch returns once it is listening, and delivers events until ctx ends or Close
	// is called; then it closes the channel. Events are hints: some may be lost, and
	// lost ones are counted. The caller must receive until the channel is closed. §25.
	Watch(ctx context.Context, req WatchRequest) (<-chan Event, error)

	// Examine makes one bounded step of a search for faults in the store: keys or rows
	// that contradict each other, and settings that lose jobs. A store may be examined
	// while it is in use: a finding was true at one instant, or during the whole step,
	// and is never an unfinished change of another call.
	//
	// Without Fix nothing is written. With Fix a finding is repaired in the same atomic
	// step that found it, or left and marked so. A repair never removes a job that can
	// still be run or shown. Steps may be repeated, and several examinations may run at
	// once.
	//
	// The error is ErrUnavailable, ErrInvalid, ErrUnsupported or ErrClosed if the step
	// did nothing; after any other error repairs may have been made. Findings are valid
	// even with an error.
	Examine(ctx context.Context, req ExamineRequest) (Examined, error)
}
