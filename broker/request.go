package broker

import (
	"cmp"
	"time"
)

// Every request that depends on time has a Now. Zero means the store's own
// clock, which is what a production caller always sends; tests pass virtual
// time. A request with a Now never waits. Due times are rounded up to whole
// microseconds.

// EnqueueRequest asks for new jobs, in any mix of queues.
type EnqueueRequest struct {
	Now  time.Time
	Jobs []NewJob
}

// NewJob is one job to accept. Delay and RunAt exclude each other; with
// neither, or with a RunAt that has passed, it is pending at once.
type NewJob struct {
	Queue   string
	ID      string
	Body    Body
	Delay   time.Duration // from the store's clock at acceptance
	RunAt   time.Time
	Restore *Restored // what it was elsewhere; nil for a job without a past

	// Drawn is when, by [time.Now] of this process, the ID was drawn at random
	// for this job, if this is the first send: nobody has sent it before. Leave
	// Drawn zero when sending it again, because the answer was lost. A store need
	// not look for a record of the ID then, but may. A first send that comes after
	// its own repeat changes nothing as long as there is a record of the job; when
	// the job is done and left none, it may be stored, and run, once more.
	Drawn time.Time
}

// Receipt answers one NewJob. Err is nil when the job was accepted; otherwise
// it says why not and nothing was stored, unless MayHaveApplied(Err).
type Receipt struct {
	Queue  string
	ID     string
	State  State     // pending or scheduled when accepted; what it was made when restored
	RunAt  time.Time // when scheduled or retry
	Holder string    // with ErrDuplicate: the ID of the job that holds the ID or the unique key; with ErrWrongState: who holds the job
	Err    error
}

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
	Held        int       // leases the store counts for it (set by the broker)
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

// Retired lists the jobs that went back to the front of their queues.
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

// Settlement ends the lease under which Job was claimed: its Queue, ID, Epoch
// and Worker are the lease, its Head is what the outcome changes. Job is as it was
// claimed: a store may take the shorter way of jobs without options by its Body.
type Settlement struct {
	Job     *Job
	Outcome Outcome
}

// Verdict answers one settlement. State is where the job went; Err is
// ErrLeaseLost when the lease was over and nothing changed.
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
	Other                      int // remembered IDs, unique windows, ended workers
	More                       bool
}

// Query selects jobs of one queue. IDs, when given, selects exactly those and
// ignores the rest; otherwise State, Worker or Key selects and the other
// fields filter. Suppressed dead jobs are left out unless asked for.
type Query struct {
	Now        time.Time
	Queue      string
	IDs        []string
	State      State
	Worker     string // active jobs held by this worker
	Key        string
	Type       string
	Reason     DeadReason
	ErrorText  string    // a part of the last error's message
	After      time.Time // at or after; the time is: due (scheduled, retry), finished (completed, cancelled, dead), created (others)
	Before     time.Time // before
	Suppressed bool      // include suppressed dead jobs
	NoPayload  bool      // leave Payload and Result out
	Cursor     string    // of the page before; empty starts
	Limit      int       // records examined; 0 means 100, at most 1000
}

// Page is a part of a query's answer. A job that matches throughout is shown
// at least once over all pages; a page may be empty and still have a Cursor.
type Page struct {
	Now    time.Time
	Jobs   []Job
	Cursor string // of the next page; empty at the end
}

// QueuesRequest asks for descriptions; no Names means every queue.
type QueuesRequest struct {
	Now     time.Time
	Names   []string
	Workers bool // include the live workers
}

// QueuesReply describes queues, sorted by name. Queues asked for by name that
// do not exist are left out.
type QueuesReply struct {
	Now    time.Time
	Queues []QueueInfo
}

// QueueInfo describes one queue.
type QueueInfo struct {
	Name   string
	Counts map[State]int64
	// Oldest: pending: the earliest of OldestPending; scheduled, retry: the
	// earliest due time; dead, completed, cancelled: the earliest end.
	Oldest map[State]time.Time
	// OldestPending: of each priority that has pending jobs, the creation of the
	// one next in turn.
	OldestPending map[Priority]time.Time

	AsOf    time.Time // when the counts were true
	Policy  Policy
	Workers []WorkerInfo
}

// Age is how long, at now, the oldest job of a state has been there; see Oldest.
// It is zero where there is no job, and for scheduled and retried ones while
// none is due.
func (q *QueueInfo) Age(state State, now time.Time) time.Duration {
	return age(q.Oldest[state], now)
}

// AgePending is how long ago, at now, the pending job of a priority that is next
// in turn was created. It is zero where there is none.
func (q *QueueInfo) AgePending(p Priority, now time.Time) time.Duration {
	return age(q.OldestPending[p], now)
}

func age(at, now time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return max(now.Sub(at), 0)
}

// SetOldestPending notes the creation of the pending job of a priority that is
// next in turn. Backends call it once for each priority that has pending jobs.
func (q *QueueInfo) SetOldestPending(p Priority, created time.Time) {
	if q.OldestPending == nil {
		q.OldestPending = make(map[Priority]time.Time, Priorities)
	}
	q.OldestPending[p] = created
	if first := q.Oldest[StatePending]; first.IsZero() || created.Before(first) {
		q.Oldest[StatePending] = created
	}
}

// OperationKind names an operator's decision.
type OperationKind uint8

// What an operator can decide.
const (
	OpCancel      OperationKind = iota + 1 // active jobs are asked to cancel, others are cancelled
	OpDelete                               // any job that is not active
	OpRedrive                              // dead jobs go back to their queue with fresh counts
	OpReschedule                           // scheduled, retry and pending jobs get a new time
	OpSuppress                             // dead jobs leave default lists; they are counted as ever
	OpUnsuppress                           // and come back to the lists
	OpRemoveQueue                          // refs without ID: empty queues that nobody serves
	OpEdit                                 // one job gets another payload; not an active, held or finished one
	OpHold                                 // pending, scheduled and retry jobs leave the queue, for Holder
	OpUnhold                               // and come back as what they were
)

var operationNames = [...]string{"", "cancel", "delete", "redrive", "reschedule", "suppress", "unsuppress", "remove queue", "edit", "hold", "unhold"}

func (k OperationKind) String() string {
	if int(k) < len(operationNames) {
		return operationNames[k]
	}
	return "invalid"
}

// Operation applies one decision to jobs.
type Operation struct {
	Now   time.Time
	Kind  OperationKind
	Refs  []Ref
	Delay time.Duration // OpReschedule: due after Delay, or at RunAt; with neither at once
	RunAt time.Time

	Payload []byte // OpEdit: the new one

	// Holder is for whom OpHold takes jobs, in words that another run of the
	// same program finds again. OpUnhold and OpDelete with a Holder leave jobs
	// alone that another holds; and OpDelete with one says that the job is
	// elsewhere now, from where it may come back (NewJob.Restore).
	Holder string
}

// OperationResult answers one Ref.
type OperationResult struct {
	Ref    Ref
	State  State  // where the job is now; StateNone when it is gone
	Holder string // with ErrDuplicate on a redrive: who holds the unique key; with ErrWrongState: who holds the job
	Err    error  // nil, ErrNotFound, ErrWrongState, ErrDuplicate; of OpEdit also ErrNewerForm, ErrMalformed
}

// Policy is a queue's record of rules, honoured inside the atomic step of the
// call they concern.
type Policy struct {
	Paused          bool          // claims get nothing
	MaxDepth        int64         // pending, scheduled and waiting jobs; 0 means unbounded
	RetainCompleted Retention     // and cancelled; the zero value keeps none
	RetainDead      Retention     // the zero value keeps all
	DuplicateSpan   time.Duration // how long a caller's own ID outlives its job; 0 means DefaultDuplicateSpan
}

// Retention bounds kept records by age and by count; 0 in Count means no
// bound by count. For completed jobs an Age of 0 keeps none, unless the job
// asked for a retention of its own; for dead ones it means no bound by age.
type Retention struct {
	Age   time.Duration
	Count int64
}

// PolicyRequest changes the fields that are set.
type PolicyRequest struct {
	Queue           string
	Paused          *bool
	MaxDepth        *int64
	RetainCompleted *Retention
	RetainDead      *Retention
	DuplicateSpan   *time.Duration
}

// MarkAction says what a MarkRequest does.
type MarkAction uint8

// What can be done with a mark.
const (
	MarkRead MarkAction = iota
	MarkTake            // hold it under a new fence, if it is free or already the owner's
	MarkKeep            // extend it, if Owner and Fence hold it
	MarkSet             // change its value and extend it, if Owner and Fence hold it
	MarkDrop            // free it, if Owner and Fence hold it
)

// MarkRequest concerns one named mark: a dedup marker, a lock, a leadership.
type MarkRequest struct {
	Now    time.Time
	Action MarkAction
	Name   string
	Owner  string
	Fence  int64
	TTL    time.Duration // from now
	Value  []byte        // MarkTake: stored if the mark was free; MarkSet: stored
}

// Marked is the mark after the request.
type Marked struct {
	Held  bool   // the request's owner holds it (MarkRead: anybody does; MarkDrop: it was dropped)
	Owner string // who holds it, empty when nobody does
	Fence int64  // of that holder; every new holder of a name has a higher one
	Value []byte
	Until time.Time
}

// EventKind names what happened.
type EventKind uint8

// What can be watched.
const (
	EventSettled EventKind = iota + 1 // a job reached State
	EventCancel                       // an active job was asked to cancel
	EventMissed                       // Missed events were lost to this watcher
)

// WatchRequest selects events.
type WatchRequest struct {
	Queues []string
	Kinds  []EventKind // none means all
}

// Event is a hint that something happened.
type Event struct {
	Kind   EventKind
	Queue  string
	ID     string
	State  State
	Missed int64
}
