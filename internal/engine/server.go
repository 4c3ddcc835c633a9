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

// Options configure a Server. All are set: the defaults are the caller's.
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
	// Exited says how the lease ends when Perform called runtime.Goexit.
	Exited(r *Run) broker.Outcome
	// Crashed says what becomes of a job whose worker died; worker took it over.
	Crashed(j *broker.Job, worker string) broker.Outcome
	// Refused replaces an outcome that the store refuses. The server's lock is held:
	// it calls nothing of the server.
	Refused(j *broker.Job, worker string, now time.Time, err error) broker.Outcome
	// Types are the types of jobs that this server can run, as far as they are known.
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
	policy  Policy
	values  context.Context // what every handler's context holds
	inline  *Inline         // runs the jobs in place of the loops; nil in a server that was started

	keeperID string // under which it posts latencies, and keeps the history

	draining chan struct{} // closed when the drain begins
	forced   chan struct{} // closed when it is to hurry
	done     chan struct{} // closed when it is over
	err      error         // why; read after done is closed

	// One lock guards all that follows; it is never held during a call to the
	// broker, a handler, a hook or a log.
	mu       sync.Mutex
	started  bool
	isDrain  bool
	isForced bool
	stopped  bool // the slots' goroutines end
	fatal    error
	clock    storeClock
	slots    slots
	fetcher  fetcher
	settler  settler
	worker   *worker         // who claims; nil before the first one
	workers  []*worker       // with those before it that still have leases
	calls    *sync.WaitGroup // claims under way, replaced by who waits for them
	notes    []note          // for the log

	latencies []history.Latency // measured since they were posted, by queue

	unregistered outage    // attempts to register that failed in a row
	unrenewed    outage    // renewals
	restarted    time.Time // when the watchdog last had new connections opened

	claimers  sync.WaitGroup // goroutines that claim or reclaim
	renewNow  chan struct{}  // wakes the heartbeat
	upkeepNow chan struct{}
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
	s.slots.init(s)
	s.fetcher.init(s)
	s.settler.init()
	s.lookout.init()
	s.events = newEvents(s.log)
	s.marks = marks{s.broker, s.log, s.reports, opts.Lease}
	s.pruner = newPruner(s)
	s.reports.Waiting = s.lookout.by
	return s
}

// Start begins to run jobs by a policy. Their contexts have what values holds,
// and do not end with it. It reports false if the server was started, or shut
// down, before.
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

// Err is what was left when the drain was over, or why the server could not go
// on. It is read after Done.
func (s *Server) Err() error { return s.err }

// Shutdown drains the server and waits for the end, with the error that Err
// returns. When ctx ends first it hurries the drain and returns the context's
// error. A server that was not started is over at once.
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
		s.Hurry()
		return fmt.Errorf("jobs: shutdown: %w", ctx.Err())
	}
}

// drain begins the drain; err is why, when nobody asked for it.
func (s *Server) drain(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drainLocked(err)
}

func (s *Server) drainLocked(err error) {
	if !s.isDrain {
		s.isDrain, s.fatal = true, err
		close(s.draining)
	}
}

// noteLocked is a line for the log that came up under the lock.
type note struct {
	level slog.Level
	text  string
	args  []any
}

// noteLocked has unlock write a line to the log.
func (s *Server) noteLocked(level slog.Level, text string, args ...any) {
	s.notes = append(s.notes, note{level, text, args})
}

// unlock ends a critical section that may have notes. A log that is slow must
// not make the heartbeat late, which needs the lock as well.
func (s *Server) unlock() {
	notes := s.notes
	s.notes = nil
	s.mu.Unlock()
	for _, n := range notes {
		s.log.Log(context.Background(), n.level, n.text, n.args...)
	}
}
