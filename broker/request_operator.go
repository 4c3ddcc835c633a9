package broker

import (
	"time"
)

// Query selects jobs of one queue: by IDs, which ignores the other fields, or else by
// State, Worker or Key; the other fields filter. Suppressed dead jobs are left out
// unless Suppressed is set.
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
	After      time.Time // at or after; the time is: due (scheduled, retry), finished (final states), created (others)
	Before     time.Time // before such a time
	Suppressed bool      // include suppressed dead jobs
	Newest     bool      // of a final state, the latest end first
	NoPayload  bool      // leave Payload and Result out
	Cursor     string    // of the page before; empty starts
	Limit      int       // records examined; 0 means 100, at most 5000
}

// Page is a part of a query's answer. It may be empty and still have a Cursor (§21).
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
	// OldestPending: for each priority that has pending jobs, the creation of the job
	// that is claimed next.
	OldestPending map[Priority]time.Time
	Suppressed    int64 // how many of the dead jobs in Counts are suppressed
	Bytes         int64 // what MaxBytes bounds, whether it is set or not; 0 with Limits.NoFlow

	Totals  Totals    // what happened in the queue so far
	AsOf    time.Time // when counts and totals were true
	Policy  Policy
	Workers []WorkerInfo
}

// Listed returns how many jobs of a state default lists show: all, except suppressed
// dead ones.
func (q *QueueInfo) Listed(state State) int64 {
	if state == StateDead {
		return q.Counts[state] - q.Suppressed
	}
	return q.Counts[state]
}

// Age returns how long, at now, the oldest job of a state has been there; see Oldest. It
// is zero without jobs, and for scheduled and retry ones while none is due.
func (q *QueueInfo) Age(state State, now time.Time) time.Duration {
	return age(q.Oldest[state], now)
}

// AgePending returns how long ago, at now, the next pending job of a priority was
// created. It is zero if none is pending.
func (q *QueueInfo) AgePending(p Priority, now time.Time) time.Duration {
	return age(q.OldestPending[p], now)
}

func age(at, now time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return max(now.Sub(at), 0)
}

// SetOldestPending sets the creation of the next pending job of a priority. Backends call
// it once for each priority that has pending jobs.
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
	OpSuppress                             // dead jobs leave default lists; QueueInfo.Suppressed counts them
	OpUnsuppress                           // suppressed dead jobs come back to the lists
	OpRemoveQueue                          // refs without ID: queues without jobs and live workers
	OpEdit                                 // one job gets another payload; see State.Editable
	OpHold                                 // pending, scheduled and retry jobs leave the queue, for Holder
	OpUnhold                               // held jobs come back in the state that they had
)

var operationNames = [...]string{
	"", "cancel", "delete", "redrive", "reschedule", "suppress", "unsuppress", "remove queue", "edit", "hold", "unhold",
}

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

	// Holder names the one for whom OpHold takes jobs, so that another run of the same
	// program finds them again. OpUnhold and OpDelete with a Holder refuse jobs that
	// another holder has. OpDelete with a Holder also says that the job has been moved
	// elsewhere, and may come back from there (NewJob.Restore).
	Holder string
}

// OperationResult answers one Ref.
type OperationResult struct {
	Ref    Ref
	State  State  // of the job now; StateNone when it is gone
	Holder string // with ErrDuplicate on a redrive: who holds the unique key; with ErrWrongState: who holds the job
	Err    error  // nil, ErrNotFound, ErrWrongState, ErrDuplicate; of OpEdit also ErrNewerForm, ErrMalformed
}

// KeysRequest asks for the keys of a queue.
type KeysRequest struct {
	Now    time.Time
	Queue  string
	Names  []string // only these, at most 1000, also those without jobs and policy; none means all
	Cursor string   // of the page before; empty starts
	Limit  int      // keys of a page; 0 means 100, at most 1000
}

// Check refuses a request outside the limits and sets the default Limit.
func (r *KeysRequest) Check(l Limits) error {
	err := CheckQueue(r.Queue)
	switch {
	case err != nil:
	case l.NoFlow:
		err = ErrUnsupported
	case r.Limit < 0 || r.Limit > 1000:
		err = Invalid("limit", "is %d; use 1 to 1000", r.Limit)
	case len(r.Names) > 1000:
		err = Invalid("names", "has %d, the limit is 1000; ask in parts", len(r.Names))
	default:
		err = checkNames("key", r.Names)
	}
	if r.Limit == 0 {
		r.Limit = 100
	}
	return About(err, "keys", r.Queue, "")
}

// KeysReply describes keys in the order of the request's Names, or else of their bytes.
// A queue that does not exist has none.
type KeysReply struct {
	Now    time.Time
	Keys   []KeyInfo
	Cursor string // of the next page; empty at the end
}

// KeyInfo describes a key of a queue. A backend may stop counting at MaxKeyCount.
type KeyInfo struct {
	Key     string
	Pending int64 // jobs
	Active  int64
	Depth   int64     // pending, scheduled, waiting and in retry
	Oldest  time.Time // creation of the next pending job; zero when none is pending
	Policy  Policy    // the key's own
	Block   Block     // why no job of the key may start now
	Until   time.Time // with BlockRate: when the next may
	Head    string    // of an ordered queue: the ID of the job that the others of the key wait for
}

// Block says why no job of a key may start.
type Block uint8

// The reasons. Of several, the first that applies is given. Reasons that concern the whole
// queue, such as its pause, are not among them.
const (
	BlockNone   Block = iota
	BlockPaused       // the key is paused
	BlockOrder        // its head is not pending
	BlockActive       // the limit of active jobs is reached
	BlockRate         // the rate is used up
)

var blockNames = [...]string{"", "paused", "order", "active", "rate"}

func (b Block) String() string {
	if int(b) < len(blockNames) {
		return blockNames[b]
	}
	return "invalid"
}

// MarshalText writes the reason's name.
func (b Block) MarshalText() ([]byte, error) { return []byte(b.String()), nil }
