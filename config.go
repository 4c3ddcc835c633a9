package jobs

import (
	"log/slog"
	"path"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/guard"
	"github.com/seed81422ce9/jobs/internal/labels"
)

// Config configures a Server. The zero value is ready to use: it serves
// DefaultQueue.
type Config struct {
	// Concurrency is how many jobs are handled at once. Zero means ten for each
	// CPU that the process may use (GOMAXPROCS).
	Concurrency int

	// Queues names the queues to serve, with their weights, 1 to 1000. Queues
	// that have work get slots in proportion to their weights; the share of an
	// empty one goes to the others. Nil means DefaultQueue alone. Beyond 64 queues,
	// a busy server asks the empty ones about every ten times as long as asking all
	// takes.
	Queues map[string]int

	// StrictPriority claims jobs of a queue only while no queue with a higher
	// weight has any. Queues of equal weight are ordered by name; those for jobs
	// with more labels come first. Jobs that were prefetched still run before
	// others. The default is false: queues share the slots by weight.
	StrictPriority bool

	// QueueConcurrency limits how many jobs of a queue this server handles at
	// once. Other queues can use every slot.
	QueueConcurrency map[string]int

	// TypeConcurrency limits how many jobs of a type this server handles at
	// once. Its keys are types, or patterns as in a ServeMux. A type counts under
	// its own entry if there is one, otherwise under the longest pattern that
	// matches. So "report:*": 2 means two jobs in all, whatever their types. Types
	// that no entry matches can use every slot.
	//
	// Jobs of a type at its limit wait in the server, without a slot and without
	// a charge, while other jobs of the queue run. A server holds up to
	// Concurrency such jobs of a queue; when it holds that many, it claims no
	// more of that queue until one of them starts. With such limits no claim asks
	// for more than Concurrency jobs of a queue, so Prefetch has less effect.
	TypeConcurrency map[string]int

	// Labels are what this server has and others may lack, "gpu" for example, at
	// most 4. The server also runs jobs that require some of them; see WithLabels.
	// Such jobs have queues of their own, which the server serves beside their
	// base queues in Queues. A queue of labels has the weight and the
	// QueueConcurrency of its base queue, counted on its own, unless these maps
	// name it. To leave jobs without labels to other servers, name only queues of
	// labels in Queues (QueueWithLabels): each is served without its base queue.
	Labels []string

	// ShutdownTimeout is how long a drain waits for handlers before it ends
	// their contexts with ErrShutdown. After that, handlers have 2 s to return,
	// the last calls to the store take up to 3 s, loops and hooks 1 s each, and
	// the broker's Close 2 s (broker.MaxClose). Zero means 20 s: a stop then takes
	// 29 s at most, within the 30 s that orchestrators usually give. A negative
	// value ends the contexts at once; the minimum is 1 ms.
	ShutdownTimeout time.Duration

	// Lease is how long the store reserves this server's jobs for it after its
	// last heartbeat. Heartbeats come every third of Lease, and at least every
	// 5 s. If the server dies, its jobs run again after Lease and at most a second
	// more. Zero means 15 s; the minimum is 100 ms, the maximum a year.
	//
	// In a store that ends with this process (broker.Limits.InProcess,
	// membroker) zero means 24 h, and the limit of 5 s does not apply. So an idle
	// server sleeps: a month in a testing/synctest bubble takes no time. A test in
	// which a server dies must set Lease for all servers.
	Lease time.Duration

	// Timeout limits one run of a job that has no timeout of its own: its
	// context ends with ErrTimeout. Zero means 30 minutes, NoTimeout no limit; the
	// minimum is 1 ms.
	Timeout time.Duration

	// Prefetch limits how many jobs are claimed before a slot is free for them.
	// A server prefetches only while handlers are about as quick as a round trip to
	// the store: as many jobs as start within 20 ms, and none from queues in
	// QueueConcurrency. Jobs that have no slot after 50 ms are released. Zero means
	// 1000, which is the maximum. NoPrefetch switches prefetching off.
	Prefetch int

	// RetryPolicy computes the delay before the next run of a job that failed.
	// Nil means Exponential(10*time.Second, 12*time.Hour): the 25 retries that
	// a job has by default spread over three and a half days on average.
	RetryPolicy RetryFunc

	// RetryPolicies are retry policies of task types, by the exact type, not by
	// patterns. They override RetryPolicy. A job's own backoff overrides both.
	RetryPolicies map[string]RetryFunc

	// Extensions are parts of the framework that run in this server, with slots of
	// their own: those of packages schedule and workflow, for example.
	Extensions []Extension

	// Middleware wraps the handler, outermost first, for every job that the
	// server runs, including those of unknown types. Nil entries are skipped.
	// Middleware of ServeMux.Use and ServeMux.Handle runs inside it.
	Middleware []Middleware

	// Classify classifies errors of handlers that middleware did not mark with
	// Classified; see Classification. With nil, the error alone decides. Several
	// goroutines call it at once.
	Classify func(err error, job *Job) Classification

	// CrashBudget is how many crashes of its server a job survives, unless it has a
	// budget of its own. Zero means 3, a negative value none. After its first
	// crash a job runs beside few others; after two, or when the next crash would
	// be its last, it runs alone.
	CrashBudget int

	// UnknownTypeLimit is how long a job is snoozed if the handler does not know
	// its type, or if a newer version of this module wrote it. The snoozes are not
	// charged, and their delays grow. After UnknownTypeLimit the job is dead. It
	// counts from the first of these snoozes, anew once a server has run the job. A job
	// whose history has a newer form waits without a limit. Zero means 24 hours; with a
	// negative value the job is dead at once. The minimum is 1 ms.
	UnknownTypeLimit time.Duration

	// ErrorHistory is how many errors are kept with a job. Older ones are
	// dropped and counted. Zero means 10.
	ErrorHistory int

	// StuckGrace is how long after the end of its context a running handler is
	// reported as stuck: the server logs its stack and calls Hooks.Stuck. While
	// stuck handlers hold half of the slots or more, Ready fails. Zero means 30 s; the
	// minimum is 1 ms.
	StuckGrace time.Duration

	// ReadinessWindow is how old the last successful exchange with the store may
	// be for Ready to return nil. Heartbeats come at least every third of it. Zero
	// means 30 s, or 24 h in a store that ends with this process; the minimum is 100 ms.
	ReadinessWindow time.Duration

	// PollInterval is about how long an idle server waits for a wake-up before
	// it asks the store itself. New and due jobs do not wait for it, unless the
	// store cannot wake servers. Zero means 5 s; 1 s in a store that cannot wake
	// servers; 4 h in one that ends with this process. The minimum is 1 ms, the maximum
	// 12 h (broker.MaxWait). The server waits no longer than a third of Lease or a
	// fifth of ReadinessWindow.
	PollInterval time.Duration

	// Program is the name and version of the program. The store keeps it with the
	// worker and in the errors of jobs. Empty means the build information of the
	// binary.
	Program string

	// Logger gets what an operator should know: starts, drains, lost workers, dead
	// jobs, and jobs that failed, with the time of their next run. Of each type, one
	// failed job is logged every ten seconds at most, and every one if the logger
	// is enabled at level Debug. Payloads are never logged. Nil means
	// slog.Default().
	Logger *slog.Logger

	// Hooks report what the server does; see type Hooks.
	Hooks Hooks
}

// NoPrefetch as Config.Prefetch makes the server claim no job before a slot is
// free. It is not zero, because the zero Config should be the fast one.
const NoPrefetch = -1

const (
	defaultShutdownTimeout  = 20 * time.Second
	defaultPrefetch         = 1000
	defaultUnknownTypeLimit = 24 * time.Hour
	defaultStuckGrace       = 30 * time.Second
	defaultReadinessWindow  = 30 * time.Second
	defaultPollInterval     = 5 * time.Second
	defaultPollNoWait       = time.Second // for a store that cannot wake servers

	// Long, for a store that ends with this process: no other process could reclaim
	// jobs, no wake-up is lost, and no connection can break.
	defaultLeaseInProcess  = 24 * time.Hour
	defaultWindowInProcess = 24 * time.Hour
	defaultPollInProcess   = 4 * time.Hour

	maxConcurrency  = 100_000                // of goroutines that one process should not exceed
	maxWeight       = 1000                   // a queue of weight 1 beside it still gets a slot in a thousand
	minLease        = 100 * time.Millisecond // some round trips, since a lease is renewed several times
	maxLease        = 365 * 24 * time.Hour   // the server computes with several leases, which must fit into a duration
	minWindow       = minLease               // it also bounds the time between renewals
	minDuration     = time.Millisecond       // less is a number that lacks its unit: 30 for 30*time.Second
	maxPollInterval = broker.MaxWait
	maxHistory      = 1000 // errors of a job: each is up to some KB of its record
	defaultPerCPU   = 10   // handlers mostly wait for others
	defaultWeight   = 1    // of DefaultQueue, if no queues are configured
)

// withDefaults checks cfg and replaces its zero values with the defaults.
func (cfg Config) withDefaults() (Config, error) {
	if err := cfg.check(); err != nil {
		return cfg, err
	}
	extensions, err := checkExtensions(cfg.Extensions)
	if err != nil {
		return cfg, err
	}
	cfg.Extensions = extensions
	if cfg.Concurrency == 0 {
		cfg.Concurrency = defaultPerCPU * runtime.GOMAXPROCS(0)
	}
	if len(cfg.Queues) == 0 {
		cfg.Queues = map[string]int{DefaultQueue: defaultWeight}
	}
	cfg.Queues, cfg.QueueConcurrency, err = withLabelQueues(cfg.Labels, cfg.Queues, cfg.QueueConcurrency)
	if err != nil {
		return cfg, err
	}
	for name := range cfg.QueueConcurrency {
		if _, ok := cfg.Queues[name]; !ok {
			return cfg, broker.Invalid("QueueConcurrency",
				"names the queue %q, which is not among Queues; add it there or remove it here", name)
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

// check refuses values outside their limits.
func (cfg *Config) check() error {
	if cfg.Concurrency < 0 || cfg.Concurrency > maxConcurrency {
		return broker.Invalid("Concurrency", "is %d; use 1 to %d, or 0 for %d per CPU", cfg.Concurrency, maxConcurrency, defaultPerCPU)
	}
	for name, weight := range cfg.Queues {
		if err := broker.CheckQueue(name); err != nil {
			return broker.Invalid("Queues", "has an invalid name: %v", err)
		}
		if err := labels.Check(name); err != nil {
			return broker.Invalid("Queues", "has an invalid name: %v", err)
		}
		if broker.Reserved(name) {
			return broker.Invalid("Queues", "names %q, which belongs to the framework; use Extensions", name)
		}
		if weight < 1 || weight > maxWeight {
			return broker.Invalid("Queues", "gives %q the weight %d; use 1 to %d, or leave the queue out", name, weight, maxWeight)
		}
	}
	for name, n := range cfg.QueueConcurrency {
		if n < 1 {
			return broker.Invalid("QueueConcurrency",
				"lets %d jobs of %q run at once; use 1 or more, or leave the queue out of Queues", n, name)
		}
	}
	if err := checkTypeConcurrency(cfg.TypeConcurrency); err != nil {
		return err
	}
	if err := checkLabels(cfg.Labels); err != nil {
		return err
	}
	for name, f := range cfg.RetryPolicies {
		if f == nil {
			return broker.Invalid("RetryPolicies", "has no function for the type %q; give one or remove the entry", name)
		}
		if err := broker.CheckName("type", name); err != nil {
			return broker.Invalid("RetryPolicies", "has an invalid type: %v", err)
		}
		if strings.HasSuffix(name, "*") {
			return broker.Invalid("RetryPolicies", "names %q, which is a pattern; name each type, or use RetryPolicy, which gets the job",
				name)
		}
	}
	if cfg.Prefetch < NoPrefetch || cfg.Prefetch > broker.MaxClaim {
		return broker.Invalid("Prefetch", "is %d; use 1 to %d, 0 for %d, or NoPrefetch", cfg.Prefetch, broker.MaxClaim, defaultPrefetch)
	}
	if cfg.ErrorHistory < 0 || cfg.ErrorHistory > maxHistory {
		return broker.Invalid("ErrorHistory", "is %d; use 1 to %d, or 0 for %d", cfg.ErrorHistory, maxHistory, broker.DefaultErrorHistory)
	}
	for _, d := range []struct {
		field         string
		value         time.Duration
		min, max, def time.Duration
	}{
		{"Lease", cfg.Lease, minLease, maxLease, broker.DefaultLease},
		{"Timeout", cfg.Timeout, minDuration, broker.MaxDelay, broker.DefaultTimeout},
		{"StuckGrace", cfg.StuckGrace, minDuration, broker.MaxDelay, defaultStuckGrace},
		{"ReadinessWindow", cfg.ReadinessWindow, minWindow, broker.MaxDelay, defaultReadinessWindow},
		{"PollInterval", cfg.PollInterval, minDuration, maxPollInterval, defaultPollInterval},
	} {
		if d.value != 0 && (d.value < d.min || d.value > d.max) {
			return broker.Invalid(d.field, "is %v; use %v to %v, or 0 for %v", d.value, d.min, d.max, d.def)
		}
	}
	for _, d := range []struct {
		field      string
		value, def time.Duration
	}{{"ShutdownTimeout", cfg.ShutdownTimeout, defaultShutdownTimeout}, {"UnknownTypeLimit", cfg.UnknownTypeLimit, defaultUnknownTypeLimit}} {
		if d.value > 0 && d.value < minDuration {
			return broker.Invalid(d.field, "is %v; use %v or more, 0 for %v, or a negative value for none", d.value, minDuration, d.def)
		}
	}
	return nil
}

// programVersion returns the name and the version in the binary's build
// information, or "".
func programVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	name, version := path.Base(info.Path), info.Main.Version
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" && (version == "" || version == "(devel)") {
			version = setting.Value[:min(12, len(setting.Value))]
		}
	}
	return name + " " + version
}
