package relay

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/internal/guard"
	"github.com/seed81422ce9/jobs/internal/labels"
	"github.com/seed81422ce9/jobs/internal/sleep"
)

// Config says from where to where a relay moves jobs.
type Config struct {
	// From is the store to take jobs from; it is required, and must have marks. The
	// caller closes it after the relay.
	From broker.Broker
	// FromQueue is the queue there; it is required.
	FromQueue string

	// To is the store to bring jobs to; it is required. The caller closes it after
	// the relay.
	To broker.Broker
	// ToQueue is the queue there. Empty means one of the same name.
	ToQueue string

	// SharedBlobs says that the workers at the target read the same blob store as the
	// producers write, and that payload.CollectBlobs gets both stores. Without it, jobs
	// whose payload is a blob of payload.ClaimCheck are refused: CollectBlobs could delete
	// the blob before the job runs.
	SharedBlobs bool

	// Batch is how many jobs are moved in one step at most. Zero means 1000, which
	// is the maximum. A step also ends once its payloads reach 4 MiB.
	Batch int

	// Lease is how long another relay waits for this one, if it dies. Zero means 15
	// seconds; the minimum is 100 ms.
	Lease time.Duration

	// StopWhenEmpty ends Run when there is no job left to claim. Jobs that are
	// not due yet stay.
	StopWhenEmpty bool

	// Logger gets what an operator should know: refused jobs, and what the relay
	// waits for. Nil means slog.Default().
	Logger *slog.Logger
}

const minLease = 100 * time.Millisecond

// Relay moves jobs while Run runs. Its methods may be called from any goroutine.
type Relay struct {
	cfg     Config
	mark    string // name of the mark that the active relay holds
	running atomic.Bool

	mu    sync.Mutex
	stats Stats
	since time.Time // when the oldest held job was created, by this machine's clock
}

// Stats says what a relay has done since New, and what it does now.
type Stats struct {
	// Queue is the queue at the source.
	Queue string
	// Active says that this relay moves the queue's jobs now and does not stand by.
	Active bool
	// Relayed counts jobs that have arrived at the target and are completed at the
	// source.
	Relayed int64
	// Refused counts jobs that the target refused for good, by reason: see Refusal.
	Refused map[Refusal]int64
	// Held is how many jobs the relay has claimed and not settled yet.
	Held int
	// Lag is the time since the oldest held job was created, which includes the delay
	// of a delayed job. Zero if the relay holds none.
	Lag time.Duration
	// Err is the error that keeps the relay waiting, such as an unavailable store or
	// a full queue. Nil if there is none.
	Err error
}

// Refusal is the reason why a job is dead at the source. It is also the Code of the
// job's last error.
type Refusal string

// The reasons for which a target refuses a job for good.
const (
	// RefusedID: another job has the ID there, or the target remembers it.
	RefusedID Refusal = "relay_id_taken"
	// RefusedKey: another job holds the unique key there.
	RefusedKey Refusal = "relay_unique_key_held"
	// RefusedInvalid: the target cannot take such a job. For example, its payload is
	// too large there, or the target has no unique keys.
	RefusedInvalid Refusal = "relay_invalid"
	// RefusedClaimCheck: the payload is a blob, and Config.SharedBlobs is not set.
	RefusedClaimCheck Refusal = "relay_claim_check"
	// RefusedUnreadable: the stored form of the job cannot be read.
	RefusedUnreadable Refusal = "relay_unreadable"
)

// New returns a relay. An error names the field of cfg that is outside its limits.
// New calls no store.
func New(cfg Config) (*Relay, error) {
	cfg.ToQueue = cmp.Or(cfg.ToQueue, cfg.FromQueue)
	cfg.Batch, cfg.Lease = cmp.Or(cfg.Batch, broker.MaxClaim), cmp.Or(cfg.Lease, broker.DefaultLease)
	cfg.Logger = guard.Logger(cfg.Logger)
	var err error
	switch {
	case guard.IsNil(cfg.From):
		err = broker.Invalid("From", "is nil; open the store to take jobs from")
	case guard.IsNil(cfg.To):
		err = broker.Invalid("To", "is nil; open the store to bring jobs to")
	case cfg.From.Limits().NoMark:
		err = &broker.Error{Field: "From", Err: broker.ErrUnsupported, Hint: "its backend has no marks, which relays need to take turns"}
	case cfg.Batch < 1 || cfg.Batch > broker.MaxClaim:
		err = broker.Invalid("Batch", "is %d; use 1 to %d, or 0 for %d", cfg.Batch, broker.MaxClaim, broker.MaxClaim)
	case cfg.Lease < minLease:
		err = broker.Invalid("Lease", "is %v; use at least %v, or 0 for %v", cfg.Lease, minLease, broker.DefaultLease)
	default:
		err = cmp.Or(broker.CheckDuration("Lease", cfg.Lease), checkQueue(cfg.FromQueue), checkQueue(cfg.ToQueue))
	}
	if err != nil {
		return nil, broker.About(err, "relay", "", "")
	}
	return &Relay{cfg: cfg, mark: markOf(cfg.FromQueue), stats: Stats{Queue: cfg.FromQueue, Refused: make(map[Refusal]int64)}}, nil
}

func checkQueue(name string) error {
	if labels.Pattern(name) {
		return broker.Invalid("queue", "%q means several queues; give each a relay", name)
	}
	return cmp.Or(broker.CheckQueue(name), broker.CheckUnreserved(name))
}

// markOf returns the name of the mark that the active relay of a queue holds.
func markOf(queue string) string {
	name := "jobs:relay:" + queue
	if len(name) > broker.MaxNameLen {
		name = fmt.Sprintf("jobs:relay:#%x", sha256.Sum256([]byte(queue)))
	}
	return name
}

// ErrRunning means that Run is already running; use another Relay for a second one.
var ErrRunning = errors.New("jobs: the relay is already running")

// Run moves jobs until ctx ends or, with StopWhenEmpty, none is left. Then it
// drains: it sends the jobs that it holds to the target, if that is available, and
// returns nil. If it has to leave jobs, another relay takes them over after the
// lease.
//
// Run waits for a store that is unavailable. It returns an error only if going on
// is pointless: ErrInvalid if the queue is its own target, ErrClosed if a store was
// closed, ErrUnsupported if a store lacks what the relay needs.
func (r *Relay) Run(ctx context.Context) error {
	if !r.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer r.running.Store(false)
	trouble := r.trouble("jobs: the relay starts over")
	for attempt := 0; ; attempt++ {
		began := time.Now()
		err := r.lead(ctx, trouble)
		switch {
		case err == nil || ctx.Err() != nil:
			return nil
		case errors.Is(err, broker.ErrInvalid) || errors.Is(err, broker.ErrClosed) || errors.Is(err, broker.ErrUnsupported):
			return fmt.Errorf("jobs: relay of %s: %w", r.cfg.FromQueue, err)
		}
		if time.Since(began) > r.cfg.Lease { // it worked for a while
			attempt = 0
		}
		trouble.has(err)
		if sleep.For(ctx, pause(attempt)) != nil {
			return nil
		}
	}
}

// Bounds of the pauses after failed calls, which double.
const (
	pauseMin = 50 * time.Millisecond
	pauseMax = 5 * time.Second
)

func pause(attempt int) time.Duration {
	return sleep.Jitter(sleep.Doubled(pauseMin, attempt, pauseMax), 0.5)
}

// Extension makes a server run the relay, from its start until it drains. The
// server may use a third store.
func (r *Relay) Extension() jobs.Extension {
	return jobs.Extension{Start: func(ctx context.Context) {
		if err := r.Run(ctx); err != nil {
			r.cfg.Logger.Error("jobs: the relay ended", "error", err)
		}
	}}
}

// Stats returns what the relay has done, and what it does now.
func (r *Relay) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stats
	s.Refused = maps.Clone(s.Refused)
	if !r.since.IsZero() {
		s.Lag = max(time.Since(r.since), 0)
	}
	return s
}

// apart refuses a relay whose target is its source.
func (r *Relay) apart(ctx context.Context) error {
	if r.cfg.FromQueue != r.cfg.ToQueue || r.cfg.To.Limits().NoMark {
		return nil
	}
	here, err := inspect.New(r.cfg.From).StoreID(ctx)
	if err != nil {
		return fmt.Errorf("the source: %w", err)
	}
	there, err := inspect.New(r.cfg.To).StoreID(ctx)
	if err != nil {
		return fmt.Errorf("the target: %w", err)
	}
	if here == there {
		return broker.Invalid("target", "is the queue that has the jobs; name another queue or store")
	}
	return nil
}
