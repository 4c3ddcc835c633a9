package broker

import "time"

// Every request that depends on time has a Now. Zero means the store's own
// clock, which is what a production caller always sends; tests pass virtual
// time. A request with a Now never waits. Due times are rounded up to whole
// microseconds.

// EnqueueRequest asks for new jobs, in any mix of queues.
type EnqueueRequest struct {
	Now  time.Time
	Jobs []NewJob
}

// NewJob is one job to accept. Delay and RunAt exclude each other. With neither, or with
// a RunAt that has passed, the job is pending at once.
type NewJob struct {
	Queue   string
	ID      string
	Body    Body
	Delay   time.Duration // from the store's clock at acceptance
	RunAt   time.Time
	Restore *Restored // its past elsewhere; nil for a fresh job

	// FirstSend says that the client generated the ID for this job and has not sent it
	// before. Leave it false when resending. If it is true, a store need not look for a
	// record of the ID, but may. A first send that arrives after its own repeat changes
	// nothing while the job has a record. Once the job is done and has none, the job may
	// be stored, and run, once more.
	FirstSend bool
}

// Receipt answers one NewJob. Err is nil if the job was accepted, or replaced the content
// of another one. Otherwise it says why not, and nothing was stored unless
// MayHaveApplied(Err).
type Receipt struct {
	Queue string
	ID    string    // of the NewJob; with Replaced, of the job that has its payload now
	State State     // pending or scheduled; waiting behind Holder; of a restored job its state
	RunAt time.Time // due time of a scheduled or retry job, also behind Holder
	// Holder depends on Err. With ErrDuplicate it is the ID of the job that has the ID
	// or holds the unique key. With ErrNewerForm or ErrMalformed it is the ID of the job
	// that cannot be replaced. With ErrWrongState it is the holder of the job. Without an
	// error it is the ID of the job that was replaced, or behind which this one waits.
	Holder   string
	Replaced bool // the job ID has the payload now, and no job was stored (§39)
	Err      error
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
	Value  []byte        // MarkTake stores it if the mark was free; MarkSet stores it
}

// Marked is the mark after the request.
type Marked struct {
	Held  bool   // the request's owner holds it; after MarkRead: somebody does; after MarkDrop: it was dropped
	Owner string // the holder; empty when nobody holds it
	Fence int64  // of the holder; every later holder has a higher one
	Value []byte
	Until time.Time
}

// EventKind names what happened.
type EventKind uint8

// What can be watched.
const (
	EventSettled EventKind = iota + 1 // a settle, a Retire or an OpCancel took a job to State
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
