package broker

import "time"

// Limits says what a backend cannot do. The zero value claims everything: a
// declared limit is a promise to refuse cleanly, with ErrUnsupported and
// nothing changed. InProcess is no limit but advice. Being a plain value it
// survives any wrapping of a broker.
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
	// NoFlow refuses limits, keys and order (§32 to §38): the rules of a Policy that
	// are new there, the policy of a key, and Keys. Jobs of all keys go out in one order.
	NoFlow bool
	// Shards is over how many stores the jobs of a queue are spread; 0 means one. What
	// several stores cannot keep together the package comment says at its end.
	Shards int
	// MaxPayload is the largest payload in bytes; 0 means DefaultMaxPayload.
	MaxPayload int
	// TimeStep is the resolution of stored times, when coarser than 1 µs.
	TimeStep time.Duration
	// InProcess says that the store lives and dies with this process, and that
	// none of its wake-ups is lost. Servers then have long leases and wait for
	// long, unless they are told otherwise. A wrapper that loses calls or answers
	// clears it. A store that outlives its process leaves it false, also when one
	// process at a time can open it, as with a locked file: the jobs of a process
	// that died would wait for the end of a long lease.
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
	DefaultLease         = 15 * time.Second // a worker's leases last after a renewal
	DefaultErrorHistory  = 10               // error entries kept on a job
	DefaultDuplicateSpan = time.Hour        // a caller's own ID is remembered after its job left
	EndedWorkerSpan      = 24 * time.Hour   // an ended worker's ID is refused: longer than any call of it is under way

	MaxNameLen      = 255      // bytes of a queue name, a type, an ID, a key
	MaxHeaders      = 64       // headers of one job
	MaxHeaderBytes  = 64 << 10 // keys and values of all headers of one job
	MaxErrorBytes   = 4 << 10  // bytes kept of one error message
	MaxResult       = 1 << 20  // bytes of one result
	MaxKept         = 64 << 10 // bytes of a checkpoint and the results of steps: each keep writes all of them
	MaxProgressNote = 256      // bytes: a line that is read in passing
	MaxBatch        = 10_000   // items in one request
	MaxClaim        = 1_000    // jobs in one claim
	// DefaultClaimBytes is where the answer to a claim ends whose request does not say.
	DefaultClaimBytes = 8 << 20
	MaxWait           = 12 * time.Hour  // of one Claim
	MaxClose          = 2 * time.Second // of a backend's Close, whatever its store does
	MaxDelay          = 100 * 365 * 24 * time.Hour
	MaxPriorityRound  = 1000 // jobs of a Policy.PriorityRound
	MaxWeight         = 1000 // of a key
	// MaxKeyCount is where a backend may stop counting the jobs of one key for Keys.
	MaxKeyCount   = 10_000
	MaxRetriesCap = 1_000_000
	NoTimeout     = MaxDelay // as a Timeout: a run ends by itself
)

// MaxTime is the end of representable due times: scores in every store hold
// its microseconds exactly.
var MaxTime = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
