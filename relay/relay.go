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

	// Batch is how many jobs are moved in one step at most. Zero means 1000, which
	// is the maximum. A step has 4 MiB of payloads, or one job more, whatever this
	// says.
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
	mark    string // which the relay that moves jobs holds
	running atomic.Bool

	mu    sync.Mutex
	stats Stats
	since time.Time // when the oldest job in hand was created, by this machine's clock
}

// Stats is what a relay has done since it was made.
type Stats struct {
	// Queue is the queue at the source.
	Queue string
	// Active says that this relay moves the queue's jobs now; it does not stand by.
	Active bool
	// Relayed counts jobs that are at the target, and no more to be moved.
	Relayed int64
	// Refused counts jobs that the target refused for good, by reason: see Refusal.
	Refused map[Refusal]int64
	// Held is how many jobs the relay has in hand.
	Held int
	// Lag is the age of the oldest job in hand, since it was created; zero without
	// one. That of a delayed job contains its delay.
	Lag time.Duration
	// Err is what the relay waits for: a store that is away, or a full queue. Nil
	// while all goes well.
	Err error
}

// Refusal is why a job is dead at the source. It is the Code of the job's last
// error, too.
type Refusal string

// Why the target refuses a job for good.
const (
	// RefusedID: another job has the ID there, or had it and is remembered.
	RefusedID Refusal = "relay_id_taken"
	// RefusedKey: another job holds the unique key there.
	RefusedKey Refusal = "relay_unique_key_held"
	// RefusedInvalid: the store cannot take such a job: its payload is too large for
	// this store, for example, or the store has no unique keys.
	RefusedInvalid Refusal = "relay_invalid"
	// RefusedUnreadable: its stored form cannot be read.
	RefusedUnreadable Refusal = "relay_unreadable"
)

// New makes a relay. An error names the field of cfg that is outside its limits.
// It calls no store.
func New(cfg Config) (*Relay, error) {
	cfg.ToQueue = cmp.Or(cfg.ToQueue, cfg.FromQueue)
	cfg.Batch, cfg.Lease = cmp.Or(cfg.Batch, broker.MaxClaim), cmp.Or(cfg.Lease, broker.DefaultLease)
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	var err error
	switch {
	case cfg.From == nil:
		err = broker.Invalid("From", "is nil; open the store to take jobs from")
	case cfg.To == nil:
		err = broker.Invalid("To", "is nil; open the store to bring jobs to")
	case cfg.From.Limits().NoMark:
		err = &broker.Error{Field: "From", Err: broker.ErrUnsupported, Hint: "its backend has no marks, by which relays take turns"}
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
	return cmp.Or(broker.CheckQueue(name), broker.CheckUnreserved(name))
}

// markOf names the mark of the relay that moves a queue's jobs.
func markOf(queue string) string {
	name := "jobs:relay:" + queue
	if len(name) > broker.MaxNameLen {
		name = fmt.Sprintf("jobs:relay:#%x", sha256.Sum256([]byte(queue)))
	}
	return name
}

// ErrRunning says that Run runs already; make another Relay for a second one.
var ErrRunning = errors.New("jobs: the relay runs already")

// Run moves jobs until ctx ends, or, with StopWhenEmpty, none is left. Then it
// drains: it brings what it has in hand to the target, unless that is away, and
// returns nil. What is left comes to another relay when the lease has run out.
//
// A store that is away is not a reason to return: Run waits for it, and goes on.
// An error says what can never go well: ErrInvalid if the queue is its own
// target, ErrClosed if a store was closed.
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
		if time.Since(began) > r.cfg.Lease { // it went well for a while
			attempt = 0
		}
		trouble.has(err)
		if sleep.For(ctx, pause(attempt)) != nil {
			return nil
		}
	}
}

// The pauses after calls that failed: they double.
const (
	pauseMin = 50 * time.Millisecond
	pauseMax = 5 * time.Second
)

func pause(attempt int) time.Duration {
	return sleep.Jitter(sleep.Doubled(pauseMin, attempt, pauseMax), 0.5)
}

// Extension has a server run the relay, from its start until it drains. The
// server's own store need be neither of the two.
func (r *Relay) Extension() jobs.Extension {
	return jobs.Extension{Start: func(ctx context.Context) {
		if err := r.Run(ctx); err != nil {
			r.cfg.Logger.Error("jobs: the relay ended", "error", err)
		}
	}}
}

// Stats is what the relay has done, and what it does now.
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
