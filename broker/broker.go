package broker

import (
	"context"
	"time"
)

// Broker stores jobs and hands them out under leases. It is the seam between
// the framework and a store; the package comment is its contract, cited below
// by section number. It has a part for each caller: a client needs a Producer, a
// server a Worker, an operator's tool an Operator.
//
// Every method may be called by any number of goroutines at once. A method
// keeps neither its request nor any slice in it after it returns, and what it
// returns belongs to the caller. A method returns when its context ends, with
// the context's error wrapped; unless the error is ErrUnavailable (or another
// refusal, see the errors of this package), the call may then have taken
// effect. No method repeats a call to the store by itself.
//
// What a backend cannot do it refuses with ErrUnsupported, and says so in Limits.
// What it can do beyond this interface is found with [As].
type Broker interface {
	Producer
	Worker
	Operator

	// Ping reports whether the store answers, and its time, by which leases are
	// judged. Of several servers it is the latest time, valid beside an error if one
	// of them answered.
	Ping(ctx context.Context) (now time.Time, err error)

	// Close releases what the broker itself opened (never a client or a pool
	// that was handed to it) and ends calls that wait. Afterwards every method
	// answers ErrClosed. Closing again does nothing. It lets calls under way
	// finish, and returns after MaxClose at most: what does not end by then, since
	// the store does not answer, ends by itself later.
	Close() error
}

// Producer is what a client needs of a store. A backend whose store has
// transactions offers one that enqueues inside the caller's.
type Producer interface {
	// Enqueue stores new jobs, in any mix of queues, and makes each claimable or
	// scheduled. Each job is accepted or refused on its own; the receipts stand in
	// the order of req.Jobs.
	//
	// The caller sets Queue, ID and Body of each job, and checks none of it: the
	// backend does, by NewJob.Check. It may change the payloads once Enqueue has
	// returned. Several goroutines may enqueue at once, also jobs with the same ID.
	//
	// The call's own error is set only when it is all that is known of every job;
	// where one queue's part failed, its receipts have the error. After an unclear
	// error the caller may send the same IDs again: a job that the first call
	// stored answers ErrDuplicate. §2, §18, §19, §20.
	Enqueue(ctx context.Context, req EnqueueRequest) ([]Receipt, error)

	// Limits says what the backend refuses. The zero value refuses nothing. It is
	// the same at all times, and makes no call to the store.
	Limits() Limits
}

// Worker is what a server needs, beside Limits.
type Worker interface {
	// Claim leases at most Max jobs to a worker, promoting due jobs itself, and
	// waits up to Wait for a first one. Before it claims it settles what
	// req.Settle carries.
	//
	// The caller has registered the worker by Renew. It has any number of claims
	// under way, but only one that carries a Settle or a call of Settle. When ctx
	// ends while the claim waits, the caller holds nothing; when it ends later, or
	// the error is unclear, the store may hold leases that nobody knows of: the
	// caller finds them by Query.Worker and releases them.
	//
	// Jobs and verdicts count even beside an error: what one queue gave is never
	// withheld because another failed. §6, §13, §14, §16, §17.
	Claim(ctx context.Context, req ClaimRequest) (Claimed, error)

	// Renew registers a worker (req.Register), or extends all its leases: one
	// small write for each of its queues, however many jobs it holds.
	//
	// The caller sends every queue that the worker serves, each time. It has one
	// renewal under way at a time, on a goroutine that nothing else holds up, and
	// repeats one that failed. After Lost the ID is dead and the caller registers
	// another one. §6, §7, §8.
	Renew(ctx context.Context, req RenewRequest) (Renewed, error)

	// Retire ends a worker's ID and puts back what it still holds, to the
	// front of the queues. The caller sends every queue that the worker served.
	// Repeating it, and retiring a worker that nobody knows, does no harm. §6, §12.
	Retire(ctx context.Context, req RetireRequest) (Retired, error)

	// Settle ends leases, each with its outcome, each fenced, each atomic with its
	// follow-ups (unique key, history, events); an item with Keep stores what a
	// handler kept and ends nothing. The verdicts stand in the order of
	// req.Items.
	//
	// The caller gives each request of a worker the next Number, has one under way
	// at a time, and sends it again under the same Number, unchanged, when its
	// answer was lost: it is answered as the first time. It keeps the items
	// unchanged until Settle has returned. §3, §9, §10, §30.
	Settle(ctx context.Context, req SettleRequest) ([]Verdict, error)

	// Reclaim ends workers whose time ran out and leases what they held to the
	// calling worker, which settles it at once and does not run it. Any number of
	// workers may do so at once: each job goes to one of them. After an unclear
	// error it is as with Claim. §8, §13.
	Reclaim(ctx context.Context, req ReclaimRequest) (Claimed, error)

	// Prune removes records, remembered IDs and whatever else has lapsed, and
	// examines at most Max records a queue. Any number of servers may do so at once.
	// It may be repeated after any error. §23.
	Prune(ctx context.Context, req PruneRequest) (Pruned, error)

	// Mark reads, takes, extends, changes or drops a named mark, which has an
	// owner, a time to live and a fencing number. After an unclear error of
	// MarkTake the owner takes it again; the fence is then a higher one. §24.
	Mark(ctx context.Context, req MarkRequest) (Marked, error)

	// Reconnect has calls that begin from now on use new connections: those that
	// are open may be of no use, to a server that was demoted for example. A Server
	// calls it when nothing has worked for several leases. Calls under way are left
	// alone. It makes no call to the store and returns at once; a store without
	// connections does nothing.
	Reconnect()
}

// Operator is what an operator's tool needs, beside the Limits and, to move jobs,
// the Enqueue of a Producer.
type Operator interface {
	// Find returns one page of the jobs that a query selects. It costs as much as
	// the records that it examines, at most Limit, whatever the size of the queue.
	// The caller passes the page's Cursor, unchanged, to go on; it may do so at any
	// later time, with another broker of the same store. §21.
	Find(ctx context.Context, q Query) (Page, error)

	// Queues describes queues: counts, oldest times, policy, workers. It costs as
	// much as there are queues asked for (and workers, if they are), whatever their
	// sizes. §23.
	Queues(ctx context.Context, req QueuesRequest) (QueuesReply, error)

	// Operate applies one decision to jobs named by ID. Each job is decided on its
	// own; the results stand in the order of op.Refs. The caller may repeat it after
	// an unclear error: what was done is then refused as not fitting, or done
	// already. §22, §27, §28.
	Operate(ctx context.Context, op Operation) ([]OperationResult, error)

	// Policy changes the fields of a queue's policy, or of that of one of its keys,
	// that the request sets, in one step, and returns the whole; a request that sets
	// none only reads. It counts for calls that begin after it has returned. It may be
	// repeated. §1, §33.
	Policy(ctx context.Context, req PolicyRequest) (Policy, error)

	// Keys describes one page of the keys of a queue, by name: those that have jobs
	// which have not ended, or a policy of their own. It costs as much as the keys that
	// it shows. The caller passes the page's Cursor, unchanged, to go on. §33.
	Keys(ctx context.Context, req KeysRequest) (KeysReply, error)

	// Watch returns once it is listening, and delivers events until ctx ends or
	// Close is called; the channel is closed then. Events are hints: one may be
	// lost, and lost ones are counted. The caller receives steadily. §25.
	Watch(ctx context.Context, req WatchRequest) (<-chan Event, error)

	// Examine makes one bounded step of a search for what is wrong in the store:
	// keys or rows that contradict each other, and settings that lose jobs. A store
	// may be examined while it is in use: what a step reports was wrong at one
	// instant, or during the whole of what it looked at, and is never the half of
	// somebody's change.
	//
	// Without Fix nothing is written. With Fix a finding is repaired in the
	// same atomic step that found it, or left and marked so; repeating a step
	// is harmless, and several examinations at once are too. A repair never
	// removes a job that can still be run or looked at.
	//
	// The error is ErrUnavailable, ErrInvalid, ErrUnsupported or ErrClosed when the
	// step did nothing; after another one repairs may have been made. Findings are
	// valid beside an error.
	Examine(ctx context.Context, req ExamineRequest) (Examined, error)
}
