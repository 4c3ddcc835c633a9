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
	// Enqueue accepts new jobs, each on its own: the receipts stand in the
	// order of the request, and a refusal of one says nothing about another.
	// The call's own error is set only when it is all that is known of every job:
	// where one call of the store failed and another was not even sent, each
	// receipt has its own.
	// Calling again with the same IDs after an unclear error creates no second
	// job: a job that the first call stored answers ErrDuplicate. §2, §20.
	Enqueue(ctx context.Context, req EnqueueRequest) ([]Receipt, error)

	// Limits says what the backend refuses. The zero value refuses nothing. It is
	// the same at all times.
	Limits() Limits
}

// Worker is what a server needs, beside Limits.
type Worker interface {
	// Claim leases at most Max jobs to a registered worker, promoting due jobs
	// itself, and waits up to Wait when there are none. Before claiming it
	// settles what req.Settle carries. Jobs and verdicts are valid even beside
	// an error: what one queue gave is never withheld because another failed.
	// §6, §16, §18, §19.
	Claim(ctx context.Context, req ClaimRequest) (Claimed, error)

	// Renew registers a worker (req.Register) or extends all its leases with
	// one small write per queue's store, however many it holds. §6, §7, §8.
	Renew(ctx context.Context, req RenewRequest) (Renewed, error)

	// Retire puts whatever the worker still holds back to the front of its
	// queues and ends the worker's ID for good. Repeating it is harmless. §6.
	Retire(ctx context.Context, req RetireRequest) (Retired, error)

	// Settle ends leases, each with its outcome, each fenced and atomic with
	// its follow-ups; the verdicts stand in the order of the request. A repeat
	// of the worker's last number is answered as the first time. §3, §10.
	Settle(ctx context.Context, req SettleRequest) ([]Verdict, error)

	// Reclaim takes over jobs of workers that ran out, under fresh leases of
	// the calling worker, which settles them at once and never runs them. §8.
	Reclaim(ctx context.Context, req ReclaimRequest) (Claimed, error)

	// Prune removes what retention no longer keeps, a bounded amount a call,
	// at any number of servers at once. §23.
	Prune(ctx context.Context, req PruneRequest) (Pruned, error)

	// Mark takes, extends, changes or drops a named marker with an owner, a
	// time to live and a fencing number. §24.
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
	// Find returns one page of jobs. Cost is bounded by the page, never by the
	// size of the queue. §23.
	Find(ctx context.Context, q Query) (Page, error)

	// Queues describes queues: counts, oldest times, policy, workers. Cost is
	// bounded by the number of queues (and of workers, when asked for). §23.
	Queues(ctx context.Context, req QueuesRequest) (QueuesReply, error)

	// Operate applies an operator's decision to jobs named by ID; each is
	// decided on its own, results stand in the order of the request. §23.
	Operate(ctx context.Context, op Operation) ([]OperationResult, error)

	// Policy changes the fields of a queue's policy that the request sets, in
	// one step, and returns the whole; a request that sets none only reads.
	Policy(ctx context.Context, req PolicyRequest) (Policy, error)

	// Watch delivers events until ctx ends; it returns once it is listening.
	// The channel is closed afterwards. Events are hints: lost ones are
	// counted, none is promised. §25.
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
