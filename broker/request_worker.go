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

// ClaimRequest asks for jobs. The shares are served in order until Max jobs
// are leased; a queue may stand several times, so that weights and leftovers
// fit one call.
type ClaimRequest struct {
	Now    time.Time
	Worker string
	Queues []Share
	Max    int
	Bytes  int           // no further job once these are reached (§13); 0 means DefaultClaimBytes
	Wait   time.Duration // how long to wait for a first job; needs an empty Settle

	// Settle, when it has items, is settled before the claim, in the same
	// round trip where the backend can. Its Worker is this Worker.
	Settle SettleRequest
}

// ByteLimit is Bytes with its default applied.
func (r *ClaimRequest) ByteLimit() int { return cmp.Or(r.Bytes, DefaultClaimBytes) }

// Claimed is what a claim or a reclaim gave.
type Claimed struct {
	Now     time.Time // the store's clock (or the request's Now)
	Jobs    []Job     // under leases of the calling worker
	More    bool      // something claimable was left: asking again at once can help
	NextDue time.Time // the earliest scheduled or retry job of these queues; zero when none
	// Verdicts answer ClaimRequest.Settle.Items. SettleErr is the error of
	// that settle alone; the claim may have succeeded beside it.
	Verdicts  []Verdict
	SettleErr error
}

// RenewRequest is a worker's heartbeat.
type RenewRequest struct {
	Now      time.Time
	Worker   string
	Queues   []string      // every queue that the worker serves
	Lease    time.Duration // its leases hold until now + Lease
	Register bool          // first call of a new worker; needs an ID never used before
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
	Longest     []Running // what it has run for longest when it last said so, the longest first
	Until       time.Time // its leases hold until then (set by the broker)
	Held        int       // leases the store counts for it, or counted up to a minute ago (set by the broker, §23)
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
	Lost   bool           // some queue has ended this worker's ID; it must start anew under another
	Held   map[string]int // leases the store counts, by queue; nil when it did not count this time (§7)
	Cancel []Ref          // held jobs whose cancelling an operator asked for

	// NextLapse is when, in these queues, the first leases run out of those that
	// stand now, this worker's included; Now or earlier where a Reclaim has something
	// to do. Until then nobody need call one. Zero when it is not known.
	NextLapse time.Time
}

// RetireRequest ends a worker in the queues it served.
type RetireRequest struct {
	Now    time.Time
	Worker string
	Queues []string
}

// Retired lists the jobs that went back to the front of their queues, by the
// epochs that they have there.
type Retired struct {
	Released []Ref
}

// SettleRequest ends leases of one worker. Number rises with every new
// request of the worker, from 1, and a request sent again keeps it; one
// request at a time is in flight.
type SettleRequest struct {
	Now     time.Time
	Worker  string
	Number  int64
	Items   []Settlement
	History int // entries kept in a job's error log; 0 means DefaultErrorHistory
}

// Settlement ends the lease under which Job was claimed, or keeps something under
// it: its Queue, ID, Epoch and Worker are the lease, its Head is what the outcome
// changes. Job is as it was claimed: a store may take the shorter way of jobs
// without options by its Body.
//
// Waited and Ran are for the queue's Totals (§43): how long the job waited for its
// first run, and how long this run took, in whole microseconds rounded up. Zero is
// no wait, or no run, that counts.
type Settlement struct {
	Job     *Job
	Outcome Outcome
	Waited  time.Duration
	Ran     time.Duration
}

// Verdict answers one settlement. State is where the job went, StateActive after
// Keep; Err is ErrLeaseLost when the lease was over and nothing changed.
type Verdict struct {
	Queue string
	ID    string
	State State
	Err   error
}

// ReclaimRequest takes over jobs of workers that ran out.
type ReclaimRequest struct {
	Now    time.Time
	Worker string // a live worker: it holds the new leases
	Queues []string
	Max    int
	Bytes  int // no further job once these are reached (§13); 0 means DefaultClaimBytes
}

// ByteLimit is Bytes with its default applied.
func (r *ReclaimRequest) ByteLimit() int { return cmp.Or(r.Bytes, DefaultClaimBytes) }

// PruneRequest removes what is past its retention.
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
