package jobs

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/engine"
	"github.com/seed81422ce9/jobs/internal/guard"
)

// Server handles jobs. It claims them from a broker, runs the handler in up to
// Config.Concurrency goroutines, and settles the outcomes. Each of these has one
// loop: claiming, settling, renewing the leases, reclaiming jobs of dead servers,
// and listening for cancellations. So its connections are few, and their number
// does not grow with Concurrency.
//
// A Server can be started once. Its methods may be called from any goroutine.
type Server struct {
	cfg     Config
	broker  broker.Broker
	engine  *engine.Server
	reports guard.Reports
	logsAll atomic.Bool // the level was Debug when logFailure last asked

	extended *extended // runs Config.Extensions; nil if there are none
}

// ErrStarted is the error of Run and Start for a server that was started or shut
// down before. Make a new one.
var ErrStarted = errors.New("jobs: the server was started before; make a new one")

// NewServer makes a server that takes jobs from b. It makes no call to the store.
// The error is ErrInvalid, and names the field of cfg that is outside its limits,
// or it is the Err of an Extension. The server does not close b.
func NewServer(b broker.Broker, cfg Config) (*Server, error) {
	if guard.IsNil(b) {
		return nil, broker.Invalid("broker", "is nil; open one, membroker.New() for example")
	}
	limits := b.Limits()
	if limits.InProcess {
		orDefault(&cfg.Lease, defaultLeaseInProcess)
		orDefault(&cfg.ReadinessWindow, defaultWindowInProcess)
		orDefault(&cfg.PollInterval, defaultPollInProcess)
	}
	if limits.NoWait {
		orDefault(&cfg.PollInterval, defaultPollNoWait)
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, broker: b}
	ids := newIDSource()
	weights := cfg.Queues
	if cfg.StrictPriority && len(cfg.Labels) > 0 {
		weights = labelsFirst(weights)
	}
	typeLimits, typeLimitOf := typeLimits(cfg.TypeConcurrency)
	options := engine.Options{
		Queues: weights, StrictPriority: cfg.StrictPriority, QueueConcurrency: cfg.QueueConcurrency,
		TypeLimits: typeLimits, TypeLimitOf: typeLimitOf,
		Concurrency: cfg.Concurrency, Prefetch: cfg.Prefetch, CrashBudget: cfg.CrashBudget, ErrorHistory: cfg.ErrorHistory,
		ShutdownTimeout: cfg.ShutdownTimeout, Lease: cfg.Lease, Timeout: cfg.Timeout, StuckGrace: cfg.StuckGrace,
		ReadinessWindow: cfg.ReadinessWindow, PollInterval: cfg.PollInterval,
		Program: cfg.Program, Logger: cfg.Logger, Reports: &s.reports, Hooks: s.hooks(JoinHooks(cfg.Hooks, settled(cfg.Extensions))),
		NewID: func() string { return ids.next(time.Now()) },
	}
	s.engine = engine.New(b, options)
	if len(cfg.Extensions) > 0 {
		s.extended = newExtended(b, cfg.Extensions, options, s.hooks(settled(cfg.Extensions)).Settle)
	}
	return s, nil
}

// Run handles jobs with h until ctx ends, the process gets SIGINT or SIGTERM,
// or Shutdown is called. Then it drains. It claims no more jobs, releases those
// whose handler has not started, and waits up to ShutdownTimeout for handlers. Then
// it ends the contexts of the remaining handlers with ErrShutdown, settles the jobs
// of those that return, and releases the others. A second signal skips the wait, but not
// the first one, whatever began the drain.
//
// Run returns nil if every handler returned and every outcome was settled.
// Otherwise the error says what was left, or why the server had to stop. While
// the store cannot be reached, the server keeps trying.
//
// Contexts of handlers have the values of ctx, but do not end with it. In a
// testing/synctest bubble use Start and Shutdown, because signals arrive
// outside of it.
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
	ended, signalled := ctx.Done(), false
	for {
		select {
		case <-ended:
			ended = nil
			s.engine.Drain()
		case sig := <-signals:
			// The first signal never skips the wait, even if the drain has begun: often it is the signal
			// that ended ctx, or a platform sends it after it had Shutdown called.
			if signalled {
				s.hurry()
				continue
			}
			signalled = true
			s.cfg.Logger.Info("jobs: got a signal, draining; another one skips the wait", "signal", sig.String())
			s.engine.Drain()
		case <-s.engine.Done():
			if s.extended != nil {
				return errors.Join(s.engine.Err(), s.extended.wait())
			}
			return s.engine.Err()
		}
	}
}

// hurry makes the drain stop waiting for handlers.
func (s *Server) hurry() {
	s.engine.Hurry()
	if s.extended != nil {
		s.extended.hurry()
	}
}

// Start handles jobs with h in the background, and returns at once. The server
// drains, as Run describes, when ctx ends or Shutdown is called; Shutdown also
// waits for the end. So do not pass a context that ends when Start has returned.
// Contexts of handlers have the values of ctx, but do not end with it. Start does
// not handle signals.
func (s *Server) Start(ctx context.Context, h Handler) error {
	if ctx == nil {
		return broker.Invalid("context", "is nil; use context.Background()")
	}
	if err := s.start(ctx, h); err != nil || ctx.Done() == nil {
		return err
	}
	go func() {
		select {
		case <-ctx.Done():
			s.engine.Drain()
		case <-s.engine.Draining():
		}
	}()
	return nil
}

func (s *Server) start(ctx context.Context, h Handler) error {
	p, err := s.policy(h)
	if err != nil {
		return err
	}
	if !s.engine.Start(ctx, p) {
		return ErrStarted
	}
	if s.extended != nil {
		s.extended.start(ctx, s)
	}
	return nil
}

// policy returns the policy for jobs that h handles, or an error if h does not fit the
// configuration.
func (s *Server) policy(h Handler) (policy, error) {
	mux, isMux := h.(*ServeMux)
	f, isFunc := h.(HandlerFunc)
	if h == nil || isMux && mux == nil || isFunc && f == nil {
		return policy{}, broker.Invalid("handler", "is nil; pass a ServeMux or a HandlerFunc")
	}
	if isMux {
		if err := mux.checkBatches(&s.cfg); err != nil {
			return policy{}, err
		}
	}
	p := policy{Server: s, given: h, handler: Chain(around(s.cfg.Extensions), Chain(s.cfg.Middleware...))(h)}
	return p, checkTypesKnown(s.cfg.TypeConcurrency, p.Types())
}

// Shutdown starts the drain that Run describes, unless it has started, and
// waits for its end. The error is that of Run. If ctx ends first, Shutdown
// returns the error of ctx at once; the drain stops waiting for handlers and goes on
// without them. A server that was not started cannot be started afterwards. A nil
// ctx is refused, and nothing is shut down. The drain waits for handlers, so a handler
// has to call Shutdown in another goroutine.
func (s *Server) Shutdown(ctx context.Context) error {
	if ctx == nil {
		return broker.Invalid("context", "is nil; use context.Background()")
	}
	if s.extended == nil {
		return s.engine.Shutdown(ctx)
	}
	s.extended.drain() // the two drain side by side
	err := s.engine.Shutdown(ctx)
	return errors.Join(err, s.extended.shutdown(ctx))
}

// Ready returns nil while the server works. That means: it is started and not
// draining, it had a successful exchange with the store within ReadinessWindow,
// renewals have not failed for all of that time, and stuck handlers hold fewer
// than half of its slots. Otherwise the error says what is wrong. Ready makes no
// call to the store, so probes can call it often.
func (s *Server) Ready() error {
	if s.extended != nil {
		return cmp.Or(s.engine.Ready(), s.extended.ready())
	}
	return s.engine.Ready()
}

// TypeLimits returns how many jobs run and wait now under each limit of
// Config.TypeConcurrency, sorted by pattern; nil once the server has ended. It
// makes no call to the store.
func (s *Server) TypeLimits() []TypeLimit {
	select {
	case <-s.engine.Done():
		return nil
	default:
	}
	stats := s.engine.Types()
	limits := make([]TypeLimit, len(stats))
	for i, l := range stats {
		limits[i] = TypeLimit{Pattern: l.Pattern, Max: l.Max, Running: l.Running, Waiting: l.Waiting}
	}
	return limits
}

// hooks converts h for the engine. A hook that panics is logged, and does not stop
// the server.
func (s *Server) hooks(h Hooks) engine.Hooks {
	report := func(name string) func(*guard.Failure) {
		return func(f *guard.Failure) {
			s.reports.Report(s.cfg.Logger, "hook "+name, slog.LevelError, "jobs: a hook failed", "hook", name, "error", f, "stack", f.Stack)
		}
	}
	return engine.Hooks{
		Claim:   guard.Hook(convert(h.Claim, func(e engine.ClaimEvent) ClaimEvent { return ClaimEvent(e) }), report("Claim")),
		Settle:  guard.Hook(convert(h.Settle, func(e engine.SettleEvent) SettleEvent { return SettleEvent(e) }), report("Settle")),
		Renew:   guard.Hook(convert(h.Renew, func(e engine.RenewEvent) RenewEvent { return RenewEvent(e) }), report("Renew")),
		Reclaim: guard.Hook(convert(h.Reclaim, func(e engine.ReclaimEvent) ReclaimEvent { return ReclaimEvent(e) }), report("Reclaim")),
		Worker:  guard.Hook(convert(h.Worker, s.workerEvent), report("Worker")),
		Stuck:   guard.Hook(convert(h.Stuck, stuckEvent), report("Stuck")),
		Unstuck: guard.Hook(convert(h.Unstuck, stuckEvent), report("Unstuck")),
	}
}

// convert returns a hook for the engine's event that calls the application's, or
// nil if there is none.
func convert[From, To any](hook func(To), to func(From) To) func(From) {
	if hook == nil {
		return nil
	}
	return func(e From) { hook(to(e)) }
}

func (s *Server) workerEvent(e engine.WorkerEvent) WorkerEvent {
	return WorkerEvent{Kind: WorkerEventKind(e.Kind), Worker: e.Worker, Concurrency: s.cfg.Concurrency, Lease: s.cfg.Lease, Err: e.Err}
}

func stuckEvent(e engine.StuckEvent) StuckEvent {
	return StuckEvent{Job: NewJob(e.Job), Cause: e.Cause, Overdue: e.Overdue, Stack: e.Stack}
}
