package broker

import (
	"cmp"
	"time"
)

// Share is one step of a claim: up to Max jobs of Queue.
type Share struct {
	Queue string
	Max   int
}

// ClaimRequest asks for jobs. The shares are served in order until Max jobs are leased. A
// queue may have several shares: a weighted one first, say, and later one for the rest.
type ClaimRequest struct {
	Now    time.Time
	Worker string
	Queues []Share
	Max    int
	Bytes  int           // no further job once the answer has this many (§13); 0 means DefaultClaimBytes
	Wait   time.Duration // how long to wait for a first job; needs an empty Settle

	// Settle, when it has items, is settled before the claim, in the same
	// round trip where the backend can. Its Worker is this Worker.
	Settle SettleRequest
}

// ByteLimit returns Bytes with its default applied.
func (r *ClaimRequest) ByteLimit() int { return cmp.Or(r.Bytes, DefaultClaimBytes) }

// Claimed is the answer to a claim or a reclaim.
type Claimed struct {
	Now     time.Time // the store's clock (or the request's Now)
	Jobs    []Job     // under leases of the calling worker
	More    bool      // something claimable may be left: asking again at once can help
	NextDue time.Time // the earliest scheduled or retry job of these queues; zero when none
	// Verdicts answer ClaimRequest.Settle.Items. SettleErr is the error of
	// that settle alone; the claim may have succeeded nevertheless.
	Verdicts  []Verdict
	SettleErr error
}

// RenewRequest is a worker's heartbeat.
type RenewRequest struct {
	Now      time.Time
	Worker   string
	Queues   []string      // every queue that the worker serves
	Lease    time.Duration // its leases hold until now + Lease
	Register bool          // first call of a new worker, under an ID that was never used
	Describe bool          // of a worker that is alive: replaces its Info
	Info     WorkerInfo    // stored with Register or Describe
}

// WorkerInfo describes a worker to operators.
type WorkerInfo struct {
	ID          string
	Host        string
	PID         int
	Program     string // name and version of the program
	Concurrency int
	Queues      []string
	Types       []string // the patterns its handlers are registered for
	StartedAt   time.Time
	Longest     []Running // its longest runs when it last described itself, longest first
	Until       time.Time // its leases hold until then (set by the broker)
	Held        int       // its leases as the store counts them, or counted up to a minute ago (set by the broker, §23)
}

// Running is a job that a handler runs.
type Running struct {
	Queue string
	ID    string
	Since time.Time
}

// Renewed answers a renewal.
type Renewed struct {
	Now    time.Time
	Lost   bool           // some queue has ended this worker's ID; the caller registers another
	Held   map[string]int // the worker's leases as the store counts them, by queue; nil if it did not count (§7)
	Cancel []Ref          // held jobs that an operator asked to cancel

	// NextLapse is when the first leases of these queues run out, this worker's
	// included; it can be earlier (§8). Before that time no Reclaim is needed. If it is
	// not after Now, a Reclaim may find something. Zero means unknown.
	NextLapse time.Time
}

// RetireRequest ends a worker in the queues it served.
type RetireRequest struct {
	Now    time.Time
	Worker string
	Queues []string
}

// Retired lists the jobs that went back to the front of their queues, with their new
// epochs.
type Retired struct {
	Released []Ref
}

// SettleRequest ends leases of one worker. Number rises with every new request of the
// worker, from 1; a request that is sent again keeps it. One request at a time is under
// way.
type SettleRequest struct {
	Now     time.Time
	Worker  string
	Number  int64
	Items   []Settlement
	History int // entries kept in a job's error log; 0 means DefaultErrorHistory
}

// Settlement ends the lease under which Job was claimed, or keeps something under it. The
// job's Queue, ID, Epoch and Worker identify the lease, and the outcome changes its
// Head. Job is as it was claimed, since a store may use its Body to choose a fast path.
//
// Waited and Ran are for the queue's Totals (§43): how long the job waited for its first
// run, and how long this run took, in whole microseconds rounded up. Zero counts
// nothing.
type Settlement struct {
	Job     *Job
	Outcome Outcome
	Waited  time.Duration
	Ran     time.Duration
}

// Verdict answers one settlement. State is the job's new state, StateActive after Keep.
// Err is ErrLeaseLost if the lease was void and nothing changed.
type Verdict struct {
	Queue string
	ID    string
	State State
	Err   error
}

// ReclaimRequest asks for the jobs of workers that ran out.
type ReclaimRequest struct {
	Now    time.Time
	Worker string // a live worker, which gets the new leases
	Queues []string
	Max    int
	Bytes  int // no further job once the answer has this many (§13); 0 means DefaultClaimBytes
}

// ByteLimit returns Bytes with its default applied.
func (r *ReclaimRequest) ByteLimit() int { return cmp.Or(r.Bytes, DefaultClaimBytes) }

// PruneRequest asks to remove what is past its retention.
type PruneRequest struct {
	Now    time.Time
	Queues []string
	Max    int // records examined per queue
}

// Pruned counts what a Prune removed.
type Pruned struct {
	Completed, Cancelled, Dead int
	Other                      int // remembered IDs, unique windows, ended workers, marks
	More                       bool
}
