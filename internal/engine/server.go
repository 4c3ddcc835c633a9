package engine

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/guard"
	"github.com/seed81422ce9/jobs/internal/history"
)

// Options configure a Server. The caller sets all of them; there are no defaults.
type Options struct {
	Queues           map[string]int // weights
	StrictPriority   bool
	QueueConcurrency map[string]int
	TypeLimits       []TypeLimit
	TypeLimitOf      func(typ string) int // the index of the limit for a type, or -1; nil without limits

	Concurrency  int
	Prefetch     int
	CrashBudget  int // of a job that sets none
	ErrorHistory int

	ShutdownTimeout time.Duration
	Lease           time.Duration
	Timeout         time.Duration // of a job that sets none
	StuckGrace      time.Duration
	ReadinessWindow time.Duration
	PollInterval    time.Duration

	Program string
	Logger  *slog.Logger
	Reports *guard.Reports
	Hooks   Hooks         // they must neither panic nor block
	NewID   func() string // of a worker
}

// Policy says what becomes of jobs. Its methods are called from several
// goroutines and do not panic.
type Policy interface {
	// Perform runs the job's handler and returns how the lease ends. It ends the
	// run's context by Finish once the handler has returned.
	Perform(r *Run) broker.Outcome
	// Exited returns how the lease ends when Perform called runtime.Goexit.
	Exited(r *Run) broker.Outcome
	// Crashed returns the outcome for a job whose worker died. worker is the ID of the
	// worker that reclaimed the job.
	Crashed(j *broker.Job, worker string) broker.Outcome
	// Refused replaces an outcome that the store refuses. The server's lock is held, so
	// it must not call the server.
	Refused(j *broker.Job, worker string, now time.Time, err error) broker.Outcome
	// Types returns the types of jobs that this server can run, if they are known.
	Types() []string
}

// Server runs jobs. It is started once; its methods may be called from any
// goroutine.
type Server struct {
	broker  broker.Broker
	opts    Options
	log     *slog.Logger
	reports *guard.Reports
	limits  broker.Limits
	names   []string // of the queues, highest weight first
	index   map[string]int
	inTx    txJobs
	events  *events
	marks   marks
	pruner  *pruner
	// reclaimer chooses the server that looks for the jobs of dead servers.
	reclaimer elector
	policy    Policy
	values    context.Context // the values that every handler's context has
	// gathering is what Run.Draining returns instead of draining, if Inline runs the jobs.
	gathering func(*Run) <-chan struct{}

	keeperID string // under which it posts latencies, keeps the history and prunes

	draining chan struct{} // closed when the drain begins
	forced   chan struct{} // closed when the drain is to hurry
	done     chan struct{} // closed when the drain is over
	err      error         // what Err returns; read it after done is closed

	// One lock guards all that follows; it is never held during a call to the
	// broker, a handler, a hook or a log.
	mu       sync.Mutex
	started  bool
	isDrain  bool
	isForced bool
	fatal    error
	clock    storeClock
	slots    slots
	stuck    stuckHandlers
	fetcher  fetcher
	settler  settler
	worker   *worker         // the one that claims; nil before the first one
	workers  []*worker       // worker, and earlier ones that still have leases
	calls    *sync.WaitGroup // claims under way; an audit that waits for them replaces it
	logLater []logLine       // written when the lock is free

	latencies []history.Latency // measured since they were posted, by queue

	unregistered outage    // attempts to register that failed in a row
	unrenewed    outage    // renewals
	restarted    time.Time // when the watchdog last had new connections opened

	claimers  sync.WaitGroup // goroutines that claim or reclaim
	renewNow  chan struct{}  // wakes the heartbeat
	upkeepNow chan struct{}  // wakes upkeep
	lookout   lookout
}

// New makes a server of b, which it does not close.
func New(b broker.Broker, opts Options) *Server {
	s := &Server{
		broker: b, opts: opts, log: opts.Logger, reports: opts.Reports, limits: b.Limits(),
		draining: make(chan struct{}), forced: make(chan struct{}), done: make(chan struct{}),
		calls: new(sync.WaitGroup), renewNow: make(chan struct{}, 1), upkeepNow: make(chan struct{}, 1),
	}
	s.names = slices.SortedFunc(maps.Keys(opts.Queues), func(a, b string) int {
		return cmp.Or(cmp.Compare(opts.Queues[b], opts.Queues[a]), cmp.Compare(a, b))
	})
	s.index = make(map[string]int, len(s.names))
	for i, name := range s.names {
		s.index[name] = i
	}
	s.keeperID, s.latencies = opts.NewID(), make([]history.Latency, len(s.names))
	s.fetcher.init(s)
	s.slots.init(&s.mu, s.names, &opts)
	s.slots.spawn = func(slot int) { go s.slot(slot) }
	s.slots.freed, s.slots.resume = s.fetcher.freed, s.fetcher.wake
	s.slots.expire = func(patience time.Duration) { time.AfterFunc(patience, s.snoozeExpired) }
	s.settler.init()
	s.lookout.init()
	s.events = newEvents(s.log)
	s.marks = marks{s.broker, s.log, s.reports, opts.Lease, s.limits.NoMark}
	s.pruner, s.reclaimer = newPruner(s), newElector(s, "reclaim", reclaimTTL)
	s.reports.Waiting = s.lookout.by
	return s
}

// logLine is a line for the log, made while the lock is held.
type logLine struct {
	level slog.Level
	text  string
	args  []any
}

// logLocked makes unlock write a line to the log.
func (s *Server) logLocked(level slog.Level, text string, args ...any) {
	s.logLater = append(s.logLater, logLine{level, text, args})
}

// unlock unlocks mu and writes what logLocked left. A slow log must not keep the lock
// from the heartbeat.
func (s *Server) unlock() {
	lines := s.logLater
	s.logLater = nil
	s.mu.Unlock()
	for _, l := range lines {
		s.log.Log(context.Background(), l.level, l.text, l.args...)
	}
}

// queueOf returns the index of a queue in names.
func (s *Server) queueOf(name string) int {
	if len(s.names) == 1 {
		return 0
	}
	return s.index[name]
}

// Queues returns the names of the queues served, highest weight first.
func (s *Server) Queues() []string { return s.names }

// Budget returns how many crashes the job survives.
func (s *Server) Budget(j *broker.Job) int { return s.slots.budget(j) }

// Shortly is the delay for a job that should run again soon: a lease, or the default lease
// if that is shorter.
func (s *Server) Shortly() time.Duration { return min(s.opts.Lease, broker.DefaultLease) }

// Start begins to run jobs by a policy. Their contexts have the values of values, and
// do not end with it. It returns false if the server was started or shut down before.
func (s *Server) Start(values context.Context, p Policy) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started {
		return false
	}
	s.started = true
	s.policy, s.values = p, context.WithoutCancel(values)
	go s.supervise()
	return true
}

// Drain begins the drain, if it has not begun. It does not wait.
func (s *Server) Drain() { s.drain(nil) }

// Hurry skips the drain's wait for handlers.
func (s *Server) Hurry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isForced {
		s.isForced = true
		close(s.forced)
	}
}

// Draining is closed when the drain begins.
func (s *Server) Draining() <-chan struct{} { return s.draining }

// Done is closed when the drain is over.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err says what was left when the drain was over, or why the server could not go
// on. Call it after Done is closed.
func (s *Server) Err() error { return s.err }

// Shutdown drains the server, waits for the end and returns Err. If ctx ends first, it
// hurries the drain and returns the context's error. A server that was not started
// ends at once.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	if !s.started {
		s.started = true
		close(s.done)
	}
	s.mu.Unlock()
	s.Drain()
	select {
	case <-s.done:
		return s.err
	case <-ctx.Done():
	}
	select {
	case <-s.done: // both ends came; the one of the drain tells more
		return s.err
	default:
		s.Hurry()
		return fmt.Errorf("jobs: shutdown: %w", ctx.Err())
	}
}

// drain begins the drain. err says why the server cannot go on; it is nil when the
// caller asked for the drain.
func (s *Server) drain(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drainLocked(err)
}

func (s *Server) drainLocked(err error) {
	if !s.isDrain {
		s.isDrain, s.fatal = true, err
		s.slots.close()
		close(s.draining)
	}
}

// over reports whether the drain has begun.
func (s *Server) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isDrain
}
