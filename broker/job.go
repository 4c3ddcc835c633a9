package broker

import (
	"strconv"
	"time"
	"unicode/utf8"
)

// State is the state of a job. The numbers are part of the stored form.
type State uint8

// The states of a job. A job is in exactly one.
const (
	StateNone      State = iota // no job: the state before enqueue and after deletion
	StatePending                // waiting for a claim
	StateScheduled              // waiting for its time
	StateActive                 // leased to a worker
	StateRetry                  // failed or snoozed, waiting for its next time
	StateCompleted              // done; kept for its retention
	StateDead                   // in the dead-letter queue
	StateCancelled              // ended by a decision; kept for its retention
	StateWaiting                // held: out of the queue until its holder puts it back, or the job before it ends (§41)
)

var stateNames = [...]string{"none", "pending", "scheduled", "active", "retry", "completed", "dead", "cancelled", "waiting"}

// States lists the states a stored job can be in, in the order of a job's life.
func States() []State {
	return []State{StateWaiting, StateScheduled, StatePending, StateActive, StateRetry, StateCompleted, StateCancelled, StateDead}
}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "state(" + strconv.Itoa(int(s)) + ")"
}

// ParseState is the inverse of State.String.
func ParseState(name string) (State, error) {
	for i, n := range stateNames {
		if n == name && i != int(StateNone) {
			return State(i), nil
		}
	}
	return StateNone, Invalid("state", "%q is none of waiting, scheduled, pending, active, retry, completed, cancelled, dead", name)
}

// Final reports whether a job in s has ended: only an operator or Prune takes it out of s.
func (s State) Final() bool { return s == StateCompleted || s == StateDead || s == StateCancelled }

// Editable reports whether OpEdit may replace the payload of a job in s.
func (s State) Editable() bool {
	return s == StatePending || s == StateScheduled || s == StateRetry || s == StateDead
}

// MarshalText writes the state's name.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a state's name.
func (s *State) UnmarshalText(text []byte) (err error) {
	*s, err = ParseState(string(text))
	return err
}

// Priority orders jobs within a queue: 1 goes first, 4 last (§16).
type Priority uint8

// The priorities of a job within its queue. Zero means PriorityNormal.
const (
	PriorityUrgent Priority = 1
	PriorityNormal Priority = 2
	PriorityLow    Priority = 3
	PriorityBulk   Priority = 4

	Priorities = 4 // how many there are
)

// UniqueMode says what frees a unique key.
type UniqueMode uint8

// How long a job holds its unique key.
const (
	// UniqueUntilDone: until the job is completed, dead, cancelled or
	// deleted, at most Unique.TTL when that is set.
	UniqueUntilDone UniqueMode = iota
	// UniqueUntilStarted: until its first claim, or its end, at most Unique.TTL
	// when that is set.
	UniqueUntilStarted
	// UniqueWindow: for Unique.TTL from its enqueueing, whatever becomes of the job.
	UniqueWindow
)

// UniqueConflict says what happens to a job whose unique key another job holds.
type UniqueConflict uint8

// What happens to a job that meets a held key: §19, §39 to §41.
const (
	// ConflictRefuse: it is refused with ErrDuplicate.
	ConflictRefuse UniqueConflict = iota
	// ConflictReplace: its payload and headers replace those of the holder, which
	// has not started. Otherwise it is refused.
	ConflictReplace
	// ConflictDebounce: as ConflictReplace, and the holder waits for the time of the
	// new job, at most until Unique.Latest after the holder's creation. While the
	// holder is active, the new job is stored as with ConflictKeepLast. It excludes
	// UniqueWindow.
	ConflictDebounce
	// ConflictKeepLast: as ConflictReplace; but while the holder is active, the
	// job is stored and runs after it. It needs UniqueUntilDone.
	ConflictKeepLast
)

// Unique makes a job hold a key: meanwhile another job with the same key is refused, or
// treated as its own Conflict says. An empty Key means no uniqueness.
type Unique struct {
	Key      string
	Mode     UniqueMode
	TTL      time.Duration // required for UniqueWindow; otherwise 0 means unbounded
	Conflict UniqueConflict
	Latest   time.Duration // with ConflictDebounce only, and required there: how long a job waits at most after its creation
}

// Backoff is a job's own retry policy; the zero value leaves it to the server.
type Backoff struct {
	Kind BackoffKind
	Base time.Duration
	Max  time.Duration
}

// BackoffKind names the shape of a Backoff.
type BackoffKind uint8

// The shapes of a job's own retry policy.
const (
	BackoffDefault     BackoffKind = iota // the server's policy
	BackoffExponential                    // full jitter over Base·2ⁿ, at most Max
	BackoffLinear                         // Base·(n+1), at most Max
	BackoffConstant                       // Base
)

// Body is what the producer decided. It is written with the job; only OpEdit and a
// replacing job change it (§28, §39).
type Body struct {
	Type        string
	TypeVersion int // of the payload's form; 0 when unused
	Payload     []byte
	Headers     map[string]string // values may be any bytes

	Priority    Priority
	MaxRetries  int           // retries after the first run; 0 runs once
	CrashBudget int           // crashes survived; 0 means the server's default
	Timeout     time.Duration // of one run; 0 means the server's default, NoTimeout none
	Deadline    time.Time     // no run starts at or after this time
	Retention   time.Duration // of the completed or cancelled record; 0 means the queue's policy
	Backoff     Backoff
	// DueAfter is how long after its acceptance the job was to run first, for measuring
	// its wait; zero for at once. Stores schedule by NewJob.Delay and RunAt alone.
	DueAfter time.Duration

	Unique  Unique
	Key     string // a tenant, an account, an API: the keys of a queue take turns, and may have limits (§33 to §36)
	GivenID bool   // the caller chose the ID: it is refused for Policy.DuplicateSpan after the job is gone

	CorrelationID  string
	IdempotencyKey string // of the business effect, for the handler and the dedup middleware
	PayloadRef     string // where the payload is, when it is stored elsewhere
	Source         string // what enqueued the job: a schedule, a workflow, an application's name

	newer bool // the stored form has fields that this version does not know
}

// Newer reports whether a newer version of this module wrote b with fields that
// this one does not know: a copy of b would lack them, so Enqueue refuses it
// with ErrNewerForm.
func (b *Body) Newer() bool { return b.newer }

// Head is what transitions write. A fresh job has the zero Head.
type Head struct {
	Epoch      int64 // raised by every transition but claim and due
	Deliveries int   // leases that ended
	Failures   int   // errors of its handler that were charged
	Crashes    int   // workers that died holding it
	Snoozes    int
	Reason     DeadReason // why it is dead
	Suppressed bool       // an operator took it out of default lists; see QueueInfo.Suppressed
	FinishedAt time.Time  // when it reached a final state
	Result     []byte
	Errors     ErrorLog
	Kept       *Kept    // what its handler stored while it ran; nil for most jobs. Replace it, do not change it
	PutOffs    []PutOff // nil for most jobs, and also kept after they are over: see PutOffFor. Replace it, do not change it

	unknown []byte // fields of the tail that a newer version wrote
	newer   bool   // unknown is the whole tail, which this version cannot read
}

// DeadReason says why a job is dead.
type DeadReason uint8

// Why a job is dead.
const (
	ReasonNone        DeadReason = iota
	ReasonRetries                // retries spent
	ReasonSkipRetry              // the handler asked for no retry
	ReasonCrashes                // crash budget spent
	ReasonExpired                // its deadline passed before it was done
	ReasonUnknownType            // for a long time, no worker that claimed it knew its type
	ReasonUndecodable            // its stored form could not be read
)

var reasonNames = [...]string{"", "retries_spent", "skip_retry", "crashes_spent", "expired", "unknown_type", "undecodable"}

func (r DeadReason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return "reason(" + strconv.Itoa(int(r)) + ")"
}

// MarshalText writes the reason's name.
func (r DeadReason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// Job is a task that a broker has accepted.
type Job struct {
	Queue string
	ID    string
	Body
	Head
	State     State
	CreatedAt time.Time // by the store's clock
	RunAt     time.Time // scheduled and retry, also while held: when it is due; otherwise zero
	Worker    string    // active: who holds the lease
	Holder    string    // waiting: who holds it, and for what; see Behind
	HeldFrom  State     // waiting: pending, scheduled or retry; OpUnhold restores it

	// CancelRequested: an operator cancelled the job while it was active.
	CancelRequested bool
	// Broken is set if the body could not be read (ErrNewerForm or ErrMalformed);
	// Body then has only the fields of its index.
	Broken error
}

// Ref returns a Ref to the job at the epoch of this copy.
func (j *Job) Ref() Ref { return Ref{Queue: j.Queue, ID: j.ID, Epoch: j.Epoch} }

// AnyEpoch in a Ref matches every epoch.
const AnyEpoch int64 = -1

// Ref names a job. An operation with an epoch applies only if no transition
// has happened to the job since.
type Ref struct {
	Queue string
	ID    string
	Epoch int64
}

// Failure is one entry of a job's error history.
type Failure struct {
	At      time.Time
	Attempt int    // failures before this one
	Code    string // short and machine-readable, as the classifier gave it
	Class   string // retryable, permanent, rate_limited, crash, …
	Message string // cut to MaxErrorBytes
	Stack   string // of a panic, cut to MaxErrorBytes
	Worker  string
	Version string // of the handler's program
}

// ErrorLog is a job's error history, oldest first. The oldest entries beyond the cap are
// dropped and counted.
type ErrorLog struct {
	Dropped int
	Entries []Failure
}

// Last returns the newest entry, or the zero Failure.
func (l ErrorLog) Last() Failure {
	if n := len(l.Entries); n > 0 {
		return l.Entries[n-1]
	}
	return Failure{}
}

// With returns the log with f added and cut to the newest max entries
// (DefaultErrorHistory when max is not positive). It leaves l unchanged.
func (l ErrorLog) With(f Failure, max int) ErrorLog {
	if max <= 0 {
		max = DefaultErrorHistory
	}
	f.Message, f.Stack = cut(f.Message), cut(f.Stack)
	keep := l.Entries
	if over := len(keep) + 1 - max; over > 0 {
		keep, l.Dropped = keep[over:], l.Dropped+over
	}
	entries := make([]Failure, 0, len(keep)+1)
	l.Entries = append(append(entries, keep...), f)
	return l
}

func cut(s string) string {
	if len(s) <= MaxErrorBytes {
		return s
	}
	end := MaxErrorBytes - len("…")
	for range utf8.UTFMax - 1 { // not in the middle of a character
		if !utf8.RuneStart(s[end]) {
			end--
		}
	}
	return s[:end] + "…"
}
