package jobs

import (
	"log/slog"
	"runtime"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/guard"
)

// Config configures a Server. The zero value is ready to use: it serves
// DefaultQueue.
type Config struct {
	// Concurrency is how many jobs are handled at once. Zero means ten for each
	// CPU that the process may use (GOMAXPROCS).
	Concurrency int

	// Queues names the queues to serve, with their weights, 1 to 1000. Queues
	// that have work get slots in proportion to their weights; the share of an
	// empty one goes to the others. Nil means DefaultQueue alone.
	Queues map[string]int

	// StrictPriority takes a job of a queue only while no queue with a higher
	// weight has one; equal weights go by name. Jobs that were fetched ahead,
	// see Prefetch, still run first. Defaults to false: queues share by weight.
	StrictPriority bool

	// QueueConcurrency bounds, for the queues that it names, how many jobs this
	// server handles at once. A queue that it does not name may use every slot.
	QueueConcurrency map[string]int

	// ShutdownTimeout is how long a drain lets handlers finish before it ends
	// their contexts with ErrShutdown. They then have two seconds to return, the
	// last calls to the store three, loops and hooks one each, and the broker's
	// Close two (broker.MaxClose). Zero means 20 s, so that all of it, 29 s at
	// worst, fits into the 30 s that orchestrators commonly give; a negative value
	// ends the contexts at once.
	ShutdownTimeout time.Duration

	// Lease is how long the store keeps this server's jobs for it after its
	// last sign of life, which it gives every third of that and every 5 s at
	// least: a job of a server that died runs again after this time and at most
	// a second. Zero means 15 s, the least is 100 ms.
	//
	// In a store that lives and dies with this process (broker.Limits.InProcess,
	// membroker) zero means 24 h, and the 5 s do not apply, so that a server with
	// nothing to do sleeps: a month in a testing/synctest bubble takes no time. A
	// test in which a server dies sets Lease for all servers.
	Lease time.Duration

	// Timeout bounds one run of a job that sets no timeout of its own: its
	// context ends with ErrTimeout. Zero means 30 minutes, NoTimeout no bound.
	Timeout time.Duration

	// Prefetch bounds how many jobs are fetched before a slot is free for them.
	// It is used only while handlers finish within about a round trip to the
	// store, for at most 20 ms of work, and never for a queue named in
	// QueueConcurrency; jobs that found no slot within 50 ms are given back.
	// Zero means 1000, which is also the most; NoPrefetch switches it off.
	Prefetch int

	// RetryPolicy computes the delay before the next run of a job that failed.
	// Nil means Exponential(10*time.Second, 12*time.Hour): the 25 retries that
	// a job has by default spread over three and a half days on average.
	RetryPolicy RetryFunc

	// RetryPolicies holds retry policies of single task types, by exact name,
	// which replace RetryPolicy. A job's own backoff replaces both.
	RetryPolicies map[string]RetryFunc

	// Middleware is put around the handler, outermost first: around every job
	// that the server runs, those of unknown types included. Nil entries are
	// skipped. What ServeMux.Use adds, for one mux, and what ServeMux.Handle is
	// given, for one pattern, is inside of it.
	Middleware []Middleware

	// Classify says what an error of a handler is that was not Classified; see
	// Classification. Nil leaves it to the error. It may be called from several
	// goroutines.
	Classify func(err error, job *Job) Classification

	// CrashBudget is how many deaths of its server a job survives that sets no
	// budget of its own. Zero means 3, a negative value none. After its first, a
	// job runs beside few others, and after two, or before its last, alone.
	CrashBudget int

	// UnknownTypeLimit is how long a job that this server's handler does not
	// know, or that a newer version of this module wrote, is put off, without a
	// charge and with growing delays, before it is dead. Zero means 24 hours, a
	// negative value kills it at once.
	UnknownTypeLimit time.Duration

	// ErrorHistory is how many errors are kept on a job; older ones are dropped
	// and counted. Zero means 10.
	ErrorHistory int

	// StuckGrace is how long a handler may go on after its context ended before
	// it is reported as stuck: logged with its stack, and passed to Hooks.Stuck.
	// While stuck handlers hold half of the slots, Ready fails. Zero means 30 s.
	StuckGrace time.Duration

	// ReadinessWindow is how old the last successful exchange with the store
	// may be for Ready to pass. Zero means 30 s, or 24 h where Lease does.
	ReadinessWindow time.Duration

	// PollInterval is about how long an idle server waits for word from the
	// store before it asks on its own. New and due jobs do not wait for it,
	// except in a store that cannot call. Zero means 5 s, 1 s in such a store, or
	// 4 h where Lease means 24 h; the most is 12 h (broker.MaxWait). It never waits
	// longer than a third of Lease or a fifth of ReadinessWindow.
	PollInterval time.Duration

	// Program is the name and version of the program, recorded with its worker
	// and in the errors of its jobs. Empty means what the binary says of itself.
	Program string

	// Logger gets what an operator should know: starts, drains, losses, dead
	// jobs, and now and then, for each type, a job that failed. Payloads are never logged. Nil means slog.Default().
	Logger *slog.Logger

	// Hooks are called when something happens; see there.
	Hooks Hooks
}

// NoPrefetch, as Config.Prefetch, has no job leased before a slot is free. It
// is not zero because the zero Config is to be the fast one.
const NoPrefetch = -1

const (
	defaultShutdownTimeout  = 20 * time.Second
	defaultPrefetch         = 1000
	defaultRetryBase        = 10 * time.Second
	defaultRetryMax         = 12 * time.Hour
	defaultUnknownTypeLimit = 24 * time.Hour
	defaultStuckGrace       = 30 * time.Second
	defaultReadinessWindow  = 30 * time.Second
	defaultPollInterval     = 5 * time.Second
	defaultPollUncalled     = time.Second // of a store that cannot call

	// Of a store that lives and dies with this process: nobody is there to take
	// over, no wake-up is lost, and no connection can break.
	defaultLeaseInProcess  = 24 * time.Hour
	defaultWindowInProcess = 24 * time.Hour
	defaultPollInProcess   = 4 * time.Hour

	maxConcurrency   = 100_000
	maxWeight        = 1000
	minLease         = 100 * time.Millisecond
	maxPollInterval  = broker.MaxWait
	maxHistory       = 1000
	defaultPerCPU    = 10
	defaultQueueOnly = 1
)

// withDefaults checks cfg and fills in what it leaves open.
func (cfg Config) withDefaults() (Config, error) {
	if err := cfg.check(); err != nil {
		return cfg, err
	}
	if cfg.Concurrency == 0 {
		cfg.Concurrency = defaultPerCPU * runtime.GOMAXPROCS(0)
	}
	if len(cfg.Queues) == 0 {
		cfg.Queues = map[string]int{DefaultQueue: defaultQueueOnly}
	}
	for name := range cfg.QueueConcurrency {
		if _, ok := cfg.Queues[name]; !ok {
			return cfg, broker.Invalid("QueueConcurrency", "names the queue %q, which is not among Queues; add it there or remove it here", name)
		}
	}
	orDefault(&cfg.ShutdownTimeout, defaultShutdownTimeout)
	orDefault(&cfg.Lease, broker.DefaultLease)
	orDefault(&cfg.Timeout, broker.DefaultTimeout)
	orDefault(&cfg.UnknownTypeLimit, defaultUnknownTypeLimit)
	orDefault(&cfg.StuckGrace, defaultStuckGrace)
	orDefault(&cfg.ReadinessWindow, defaultReadinessWindow)
	orDefault(&cfg.PollInterval, defaultPollInterval)
	orDefault(&cfg.Prefetch, defaultPrefetch)
	orDefault(&cfg.CrashBudget, broker.DefaultCrashBudget)
	orDefault(&cfg.ErrorHistory, broker.DefaultErrorHistory)
	cfg.ShutdownTimeout, cfg.CrashBudget, cfg.Prefetch = max(cfg.ShutdownTimeout, 0), max(cfg.CrashBudget, 0), max(cfg.Prefetch, 0)
	if cfg.RetryPolicy == nil {
		cfg.RetryPolicy = defaultRetry
	}
	if cfg.Program == "" {
		cfg.Program = programVersion()
	}
	cfg.Logger = guard.Logger(cfg.Logger)
	return cfg, nil
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// check refuses what is outside the limits.
func (cfg *Config) check() error {
	if cfg.Concurrency < 0 || cfg.Concurrency > maxConcurrency {
		return broker.Invalid("Concurrency", "is %d; use 1 to %d, or 0 for %d per CPU", cfg.Concurrency, maxConcurrency, defaultPerCPU)
	}
	for name, weight := range cfg.Queues {
		if err := broker.CheckQueue(name); err != nil {
			return broker.Invalid("Queues", "names a queue that cannot be: %v", err)
		}
		if weight < 1 || weight > maxWeight {
			return broker.Invalid("Queues", "gives %q the weight %d; use 1 to %d, or leave the queue out", name, weight, maxWeight)
		}
	}
	for name, n := range cfg.QueueConcurrency {
		if n < 1 {
			return broker.Invalid("QueueConcurrency", "lets %d jobs of %q run at once; use 1 or more, or leave the queue out of Queues", n, name)
		}
	}
	for name, f := range cfg.RetryPolicies {
		if f == nil {
			return broker.Invalid("RetryPolicies", "has no function for the type %q; give one or remove the entry", name)
		}
	}
	if cfg.Lease != 0 && (cfg.Lease < minLease || cfg.Lease > broker.MaxDelay) {
		return broker.Invalid("Lease", "is %v; use %v or more, or 0 for %v", cfg.Lease, minLease, broker.DefaultLease)
	}
	if cfg.Prefetch < NoPrefetch || cfg.Prefetch > broker.MaxClaim {
		return broker.Invalid("Prefetch", "is %d; use 1 to %d, 0 for %d, or NoPrefetch", cfg.Prefetch, broker.MaxClaim, defaultPrefetch)
	}
	if cfg.ErrorHistory < 0 || cfg.ErrorHistory > maxHistory {
		return broker.Invalid("ErrorHistory", "is %d; use 1 to %d, or 0 for %d", cfg.ErrorHistory, maxHistory, broker.DefaultErrorHistory)
	}
	for _, d := range []struct {
		field    string
		value    time.Duration
		max, def time.Duration
	}{
		{"Timeout", cfg.Timeout, broker.MaxDelay, broker.DefaultTimeout},
		{"StuckGrace", cfg.StuckGrace, broker.MaxDelay, defaultStuckGrace},
		{"ReadinessWindow", cfg.ReadinessWindow, broker.MaxDelay, defaultReadinessWindow},
		{"PollInterval", cfg.PollInterval, maxPollInterval, defaultPollInterval},
	} {
		if d.value < 0 || d.value > d.max {
			return broker.Invalid(d.field, "is %v; use up to %v, or 0 for %v", d.value, d.max, d.def)
		}
	}
	return nil
}
