package jobs

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/engine"
	"github.com/seed81422ce9/jobs/internal/sleep"
)

// Extension adds a part of the framework to a server; packages schedule and workflow
// each make one. It has a reserved queue, whose jobs the server passes to the
// extension's handler. These jobs have slots of their own, so they run at once even
// if all slots of Config.Concurrency are taken.
//
// Crashes never make a job of an extension dead, nor does a stored form that this
// server cannot read: it runs again. Config.Middleware and Config.Classify do not
// apply to its jobs, and of Config.Hooks only Stuck and Unstuck do.
type Extension struct {
	// Queue is the name of the queue. It begins with broker.ReservedPrefix. It may be
	// empty if Handler is nil and Start is not.
	Queue string
	// Handler handles the jobs of the queue.
	Handler Handler
	// Concurrency is how many of its jobs a server handles at once. Zero means 8,
	// the maximum is 1000.
	Concurrency int
	// Err, unless nil, is why the extension could not be made. NewServer returns it.
	Err error
	// Start, unless nil, is called in a goroutine of its own when the server
	// starts. Its context ends when the server drains; it must return soon after.
	Start func(ctx context.Context)
	// Once, unless nil, does one round of what Start does repeatedly. Package jobstest
	// calls it between jobs, in place of Start; begin is true in the first call, and
	// in each repetition of it after an error of the store.
	Once func(ctx context.Context, begin bool) error
	// Middleware, unless nil, wraps the server's own handler, outside
	// Config.Middleware: to pass handlers what the extension knows about their job.
	Middleware Middleware
	// Settled, unless nil, is called as Hooks.Settle is, for the server's own jobs
	// and for those of extensions.
	Settled func(SettleEvent)
}

const (
	defaultExtensionConcurrency = 8    // their steps are short calls to the store
	maxExtensionConcurrency     = 1000 // they run beside the application's handlers
)

// checkExtensions refuses invalid extensions, and returns the others with their
// defaults.
func checkExtensions(given []Extension) ([]Extension, error) {
	extensions := make([]Extension, 0, len(given))
	known := make(map[string]bool)
	for _, e := range given {
		switch {
		case e.Err != nil:
			return nil, e.Err
		case e.Queue == "" && e.Handler == nil && e.Start != nil:
			extensions = append(extensions, e)
			continue
		case !broker.Reserved(e.Queue):
			return nil, broker.Invalid("Extensions", "has one with the queue %q; its name must begin with %s", e.Queue, broker.ReservedPrefix)
		case broker.CheckQueue(e.Queue) != nil:
			return nil, broker.Invalid("Extensions", "has an invalid name of a queue: %v", broker.CheckQueue(e.Queue))
		case known[e.Queue]:
			return nil, broker.Invalid("Extensions", "has two with the queue %q; remove one", e.Queue)
		case e.Handler == nil:
			return nil, broker.Invalid("Extensions", "has one without a Handler, of the queue %q", e.Queue)
		case e.Concurrency < 0 || e.Concurrency > maxExtensionConcurrency:
			return nil, broker.Invalid("Extensions", "gives %q the Concurrency %d; use 1 to %d, or 0 for %d",
				e.Queue, e.Concurrency, maxExtensionConcurrency, defaultExtensionConcurrency)
		}
		known[e.Queue] = true
		e.Concurrency = cmp.Or(e.Concurrency, defaultExtensionConcurrency)
		extensions = append(extensions, e)
	}
	return extensions, nil
}

// extended runs the extensions of a server in an engine of their own, so that slow
// handlers of the application never delay a schedule.
type extended struct {
	engine   *engine.Server // nil if no extension has a queue
	handlers map[string]Handler
	starts   []func(context.Context)
	started  atomic.Bool
	running  sync.WaitGroup
	done     chan struct{} // closed when every Start has returned
}

// settled joins the Settled hooks of extensions.
func settled(extensions []Extension) (all Hooks) {
	for _, e := range extensions {
		all = JoinHooks(all, Hooks{Settle: e.Settled})
	}
	return all
}

// around joins the middleware of extensions.
func around(extensions []Extension) Middleware {
	chain := make([]Middleware, 0, len(extensions))
	for _, e := range extensions {
		chain = append(chain, e.Middleware)
	}
	return Chain(chain...)
}

// newExtended makes the engine of the extensions from the options of the server's
// engine and a Settle hook.
func newExtended(b broker.Broker, extensions []Extension, o engine.Options, settle func(engine.SettleEvent)) *extended {
	x := &extended{handlers: make(map[string]Handler), done: make(chan struct{})}
	o.Queues, o.QueueConcurrency = make(map[string]int), make(map[string]int)
	o.Concurrency, o.Prefetch, o.StrictPriority = 0, 0, false
	o.TypeLimits = nil
	for _, e := range extensions {
		if e.Start != nil {
			x.starts = append(x.starts, e.Start)
		}
		if e.Queue == "" {
			continue
		}
		x.handlers[e.Queue] = e.Handler
		o.Queues[e.Queue], o.QueueConcurrency[e.Queue] = 1, e.Concurrency
		o.Concurrency += e.Concurrency
	}
	if len(x.handlers) == 0 {
		return x
	}
	o.CrashBudget = 0 // these jobs are never suspects: their handlers are the framework's
	o.Hooks = engine.Hooks{Settle: settle, Stuck: o.Hooks.Stuck, Unstuck: o.Hooks.Unstuck}
	x.engine = engine.New(b, o)
	return x
}

// start runs the extensions beside a server. When one of the two drains, so does the
// other.
func (x *extended) start(ctx context.Context, s *Server) {
	x.started.Store(true)
	var draining <-chan struct{}
	if x.engine != nil {
		x.engine.Start(ctx, x.policy(s))
		draining = x.engine.Draining()
	}
	starting, stop := context.WithCancel(context.WithoutCancel(ctx))
	for _, f := range x.starts {
		x.running.Go(func() { f(starting) })
	}
	go func() {
		select {
		case <-s.engine.Draining():
			x.drain()
		case <-draining:
			s.engine.Drain()
		}
		stop()
		x.running.Wait()
		close(x.done)
	}()
}

// policy returns the policy for the jobs of the extensions.
func (x *extended) policy(s *Server) extensionPolicy {
	return extensionPolicy{policy{Server: s, handler: HandlerFunc(x.process)}}
}

// startsGrace is how long a drain waits for Extension.Start to return: as long as for hooks.
const startsGrace = time.Second

// drain begins the drain of the extensions.
func (x *extended) drain() {
	if x.engine != nil {
		x.engine.Drain()
	}
}

// hurry makes the drain stop waiting for handlers.
func (x *extended) hurry() {
	if x.engine != nil {
		x.engine.Hurry()
	}
}

// ready returns what Server.Ready returns for the extensions.
func (x *extended) ready() error {
	if x.engine == nil {
		return nil
	}
	return x.engine.Ready()
}

// shutdown drains the extensions and waits for the end, as Server.Shutdown does.
func (x *extended) shutdown(ctx context.Context) error {
	if x.engine != nil {
		if err := x.engine.Shutdown(ctx); err != nil {
			return err
		}
	}
	if !x.started.Load() || ctx.Err() != nil {
		return nil
	}
	return x.wait()
}

// wait waits for the end of the extensions of a server that was started and drains.
func (x *extended) wait() error {
	if x.engine != nil {
		<-x.engine.Done()
	}
	timer := time.NewTimer(startsGrace)
	defer timer.Stop()
	select {
	case <-x.done:
	case <-timer.C:
	}
	if x.engine == nil {
		return nil
	}
	return x.engine.Err()
}

// process passes a job to the handler of its queue.
func (x *extended) process(ctx context.Context, job *Job) error {
	return x.handlers[job.Queue()].ProcessJob(ctx, job)
}

// extensionPolicy decides about the jobs of extensions: crashes and unreadable forms
// do not make them dead.
type extensionPolicy struct{ policy }

// Delays of a job of an extension that cannot run now.
const (
	unreadableDelay = time.Minute      // a server of a newer version may claim the job then
	crashedMin      = 5 * time.Second  // after a second crash; each further one doubles it
	crashedMax      = time.Minute      // at most
	crashedRecently = 10 * time.Minute // older crashes do not count
)

func (p extensionPolicy) Perform(r *engine.Run) broker.Outcome {
	if err := r.Job.Broken; err != nil {
		job := NewJob(r.Job)
		f := p.failure(r, job, err, Classification{Class: ClassUnreadable})
		return p.setAside(r, job, broker.ReasonUndecodable, f, sleep.Jitter(unreadableDelay, 0.5))
	}
	return p.policy.Perform(r)
}

// Crashed makes the job pending at once after a first crash. If the job has crashed
// before, a short time ago, it waits first. The first wait is short, because servers
// are often killed for other reasons. Each further wait is longer, because the job may
// be what kills them.
func (p extensionPolicy) Crashed(j *broker.Job, worker string) broker.Outcome {
	f := p.crash(j, worker)
	before := 0
	for _, e := range j.Errors.Entries {
		if e.Class == ClassCrash && f.At.Sub(e.At) < crashedRecently {
			before++
		}
	}
	if before == 0 {
		return broker.Crash(0, f)
	}
	return broker.Crash(sleep.Jitter(sleep.Doubled(crashedMin, before-1, crashedMax), 0.5), f)
}

// Types returns nil: operators see the types of the application's handler alone.
func (p extensionPolicy) Types() []string { return nil }
