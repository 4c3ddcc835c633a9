package broker

import "time"

// Limits says what a backend cannot do. The zero value declares no limits. A backend
// refuses what it declares with ErrUnsupported, and changes nothing. InProcess is advice
// to servers and no limit. Limits is a struct, not a set of optional interfaces, so
// that it survives any wrapping of a broker.
type Limits struct {
	NoPriority bool // one priority only; other priorities are refused
	NoUnique   bool // unique keys are refused
	NoWait     bool // Claim does not wait; it answers at once
	NoWatch    bool // Watch is refused
	NoMark     bool // Mark is refused
	NoExamine  bool // Examine is refused
	// NoMove refuses moving and editing (§27 to §29) and what builds on it: OpHold,
	// OpUnhold, OpEdit, an OpDelete with a Holder, and new jobs with Restore or with a
	// Unique.Conflict (§39 to §41). No job is waiting then.
	NoMove bool
	// NoFlow refuses limits, keys and order (§32 to §38): the rules of a Policy with
	// Rule.Flow, the policy of a key, and Keys. Jobs of all keys share one order.
	NoFlow bool
	// Shards is the number of stores over which the jobs of a queue are spread; 0 means
	// one. §44 says what several stores cannot keep together.
	Shards int
	// MaxPayload is the largest payload in bytes; 0 means DefaultMaxPayload.
	MaxPayload int
	// TimeStep is the resolution of stored times, when coarser than 1 µs.
	TimeStep time.Duration
	// InProcess says that the store lives and dies with this process, and loses no
	// wake-up. Servers then have long leases and long waits by default. A wrapper that
	// loses calls or answers sets it to false. It is false for a store that outlives its
	// process, because the jobs of a process that died would wait for the end of a long
	// lease. That also holds for a store that only one process at a time can open, such
	// as a locked file.
	InProcess bool
}

// PayloadLimit is MaxPayload with its default applied, in bytes.
func (l Limits) PayloadLimit() int {
	if l.MaxPayload > 0 {
		return l.MaxPayload
	}
	return DefaultMaxPayload
}

// The framework's defaults and bounds, in one place.
const (
	DefaultMaxPayload    = 1 << 20          // bytes of one payload
	DefaultMaxRetries    = 25               // retries of a job after its first run
	DefaultCrashBudget   = 3                // crashes of its workers a job survives
	DefaultTimeout       = 30 * time.Minute // of one run
	DefaultLease         = 15 * time.Second // from a worker's renewal to the end of its leases
	DefaultErrorHistory  = 10               // error entries kept on a job
	DefaultDuplicateSpan = time.Hour        // a caller's own ID is remembered after its job left
	EndedWorkerSpan      = 24 * time.Hour   // an ended worker's ID is refused; longer than any call takes

	MaxNameLen      = 255      // bytes of a queue name, a type, an ID, a key
	MaxHeaders      = 64       // headers of one job
	MaxHeaderBytes  = 64 << 10 // keys and values of all headers of one job
	MaxErrorBytes   = 4 << 10  // bytes kept of one error message
	MaxResult       = 1 << 20  // bytes of one result
	MaxKept         = 64 << 10 // bytes of a checkpoint and the results of steps; each keep writes all of them
	MaxProgressNote = 256      // bytes: one line of a list
	MaxBatch        = 10_000   // items in one request
	MaxClaim        = 1_000    // jobs in one claim
	// DefaultClaimBytes bounds the answer to a claim whose request has no Bytes.
	DefaultClaimBytes = 8 << 20
	MaxWait           = 12 * time.Hour  // of one Claim
	MaxClose          = 2 * time.Second // of a backend's Close, whatever its store does
	MaxDelay          = 100 * 365 * 24 * time.Hour
	MaxPriorityRound  = 1000 // jobs
	MaxWeight         = 1000 // of a key
	// MaxKeyCount is where a backend may stop counting the jobs of one key for Keys.
	MaxKeyCount   = 10_000
	MaxRetriesCap = 1_000_000
	NoTimeout     = MaxDelay // as a Timeout: none
)

// MaxTime bounds due times: before it, the sort keys of every store hold microseconds exactly.
var MaxTime = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
