package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/guard"
	"github.com/seed81422ce9/jobs/internal/sleep"
)

// Server handles jobs: it claims them from a broker, runs the handler in up to
// Config.Concurrency goroutines, and settles what comes out of it. Whatever
// its Concurrency, it uses a handful of connections: one loop each fetches,
// settles, renews the leases, looks for jobs of dead servers, and listens for
// cancellations.
//
// A Server can be started once. Its methods may be called from any goroutine.
type Server struct {
	broker  broker.Broker
	cfg     Config
	log     *slog.Logger
	limits  broker.Limits
	names   []string // of the queues, highest weight first
	index   map[string]int
	ids     *idSource
	inTx    txJobs
	reports guard.Reports
	events  events
	given   Handler         // that Run or Start was given
	handler Handler         // the same, inside Config.Middleware
	values  context.Context // what every handler's context holds

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
	pruning  pruning

	unregistered outage    // attempts to register that failed in a row
	unrenewed    outage    // renewals
	restarted    time.Time // when the watchdog last had new connections opened

	claimers  sync.WaitGroup // goroutines that claim or reclaim
	renewNow  chan struct{}  // wakes the heartbeat
	upkeepNow chan struct{}
	lookout   lookout
}

// ErrStarted: the server was started before, or shut down; make a new one.
var ErrStarted = errors.New("jobs: the server was started before; make a new one")

// NewServer makes a server of b. An error names the field of cfg that is
// outside its limits. The server does not close b.
func NewServer(b broker.Broker, cfg Config) (*Server, error) {
	if b == nil {
		return nil, broker.Invalid("broker", "is nil; open one, membroker.New() for example")
	}
	limits := b.Limits()
	if limits.InProcess {
		orDefault(&cfg.Lease, defaultLeaseInProcess)
		orDefault(&cfg.ReadinessWindow, defaultWindowInProcess)
		orDefault(&cfg.PollInterval, defaultPollInProcess)
	}
	if limits.NoWait {
		orDefault(&cfg.PollInterval, defaultPollUncalled)
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{
		broker: b, cfg: cfg, log: cfg.Logger, limits: limits, ids: newIDSource(),
		draining: make(chan struct{}), forced: make(chan struct{}), done: make(chan struct{}),
		calls: new(sync.WaitGroup), renewNow: make(chan struct{}, 1), upkeepNow: make(chan struct{}, 1),
	}
	s.cfg.Hooks = s.guarded(cfg.Hooks)
	s.names = slices.SortedFunc(maps.Keys(cfg.Queues), func(a, b string) int {
		return cmp.Or(cmp.Compare(cfg.Queues[b], cfg.Queues[a]), cmp.Compare(a, b))
	})
	s.index = make(map[string]int, len(s.names))
	for i, name := range s.names {
		s.index[name] = i
	}
	s.events.queue = make(chan func(), maxEvents)
	s.slots.init(s)
	s.fetcher.init(s)
	s.settler.init()
	s.lookout.init()
	s.reports.Waiting = s.lookout.by
	return s, nil
}

// Run handles jobs with h until ctx ends, the process gets SIGINT or SIGTERM,
// or Shutdown is called, and then drains: it claims nothing more, gives back
// what no handler has begun, waits up to ShutdownTimeout for the handlers, ends
// the contexts of the rest with ErrShutdown, settles what returns, and releases
// what does not. A second signal skips the wait. Run returns nil after a drain
// in which every handler returned; otherwise the error says what was left, or
// why the server could not go on. A store that cannot be reached is no reason:
// the server tries again until it can.
//
// Handlers' contexts hold the values of ctx, but do not end with it. In a
// testing/synctest bubble use Start and Shutdown: signals arrive outside of it.
func (s *Server) Run(ctx context.Context, h Handler) error {
	if ctx == nil {
		return broker.Invalid("context", "is nil; use context.Background()")
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	if err := s.start(ctx, h); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case sig := <-signals:
		s.log.Info("jobs: got a signal, draining; another one skips the wait", "signal", sig.String())
	case <-s.draining:
	}
	s.drain(nil)
	select {
	case <-signals:
		s.force()
	case <-s.done:
	}
	<-s.done
	return s.err
}

// Start begins to handle jobs with h and returns. Shutdown ends it.
func (s *Server) Start(h Handler) error { return s.start(context.Background(), h) }

func (s *Server) start(ctx context.Context, h Handler) error {
	mux, isMux := h.(*ServeMux)
	f, isFunc := h.(HandlerFunc)
	if h == nil || isMux && mux == nil || isFunc && f == nil {
		return broker.Invalid("handler", "is nil; pass a ServeMux or a HandlerFunc")
	}
	inside := Chain(s.cfg.Middleware...)(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started {
		return ErrStarted
	}
	s.started = true
	s.given, s.handler, s.values = h, inside, context.WithoutCancel(ctx)
	s.pruning = pruning{every: pruneInterval, at: time.Now().Add(jitter(pruneInterval, 0.5))}
	go s.supervise()
	return nil
}

// Shutdown begins the drain that Run describes, if it has not begun, and waits
// for its end; the error is that of Run. When ctx ends first, the wait for
// handlers is skipped and Shutdown returns the context's error at once, while
// the drain comes to its end. A server that was not started cannot be started
// afterwards. A nil ctx is refused, and nothing is shut down.
func (s *Server) Shutdown(ctx context.Context) error {
	if ctx == nil {
		return broker.Invalid("context", "is nil; use context.Background()")
	}
	s.mu.Lock()
	if !s.started {
		s.started = true
		close(s.done)
	}
	s.mu.Unlock()
	s.drain(nil)
	select {
	case <-s.done:
		return s.err
	case <-ctx.Done():
		s.force()
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

// note is a line for the log that came up under the lock.
type note struct {
	level slog.Level
	text  string
	args  []any
}

// note has unlock write a line to the log.
func (s *Server) note(level slog.Level, text string, args ...any) {
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

func (s *Server) force() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isForced {
		s.isForced = true
		close(s.forced)
	}
}

// Ready returns nil while the server does its work: it is started and not
// draining, exchanged something with the store within ReadinessWindow, has not
// failed to renew its leases throughout that time, and fewer than half of its
// slots are held by stuck handlers. Otherwise the error says what is wrong. It
// makes no call and is quick enough for any probe.
func (s *Server) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	switch {
	case !s.started:
		return errors.New("jobs: not ready: the server was not started")
	case s.isDrain:
		return errors.New("jobs: not ready: the server is draining")
	case s.worker == nil || !s.worker.registered:
		if away := &s.unregistered; away.failures > 0 {
			return fmt.Errorf("jobs: not ready: no worker is registered with the store, tried %d times in %v: %w",
				away.failures, now.Sub(away.since).Round(time.Millisecond), away.err)
		}
		return errors.New("jobs: not ready: no worker is registered with the store")
	case 2*s.slots.stuck >= s.cfg.Concurrency:
		return fmt.Errorf("jobs: not ready: stuck handlers hold %d of %d slots", s.slots.stuck, s.cfg.Concurrency)
	}
	if away := &s.unrenewed; away.failures > 0 && now.Sub(away.since) > s.cfg.ReadinessWindow {
		return fmt.Errorf("jobs: not ready: no renewal of the leases has succeeded for %v: %w", now.Sub(away.since).Round(time.Millisecond), away.err)
	}
	last := s.fetcher.succeeded
	if s.fetcher.state == fetchFull { // it has no reason to claim
		last = s.worker.renewed
	}
	if s.settler.unsettled > maxUnsettled { // it may not claim until the store takes these
		last = s.settler.answered
	}
	if age := now.Sub(last); age > s.cfg.ReadinessWindow {
		return fmt.Errorf("jobs: not ready: the last successful exchange with the store was %v ago", age.Round(time.Millisecond))
	}
	return nil
}

// storeClock estimates the store's time, which deadlines are judged by.
type storeClock struct{ store, local time.Time }

// set takes over the store's time as it was at about local, which only the
// process's own, monotonic time is measured from.
func (c *storeClock) set(store, local time.Time) {
	if !store.IsZero() {
		c.store, c.local = store, local
	}
}

// at is the store's time at local.
func (c *storeClock) at(local time.Time) time.Time {
	if c.store.IsZero() {
		return local
	}
	return c.store.Add(local.Sub(c.local))
}

// storeNow is the store's time now, about.
func (s *Server) storeNow() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock.at(time.Now())
}

// after waits for d and reports whether it has passed before ctx ended.
func after(ctx context.Context, d time.Duration) bool { return sleep.For(ctx, d) == nil }
