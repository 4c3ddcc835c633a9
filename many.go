package jobs

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/engine"
)

// ManyConfig says which jobs go together into one call of a batch handler.
type ManyConfig struct {
	// Max is how many jobs a batch has at most, 1 to 1000; it is required. A full
	// batch is passed to the handler at once. Config.Concurrency, and the limits of
	// Config.QueueConcurrency together, must be at least Max.
	Max int
	// Wait is how long the first job of a batch waits for others. Zero means 1 s; the
	// minimum is 1 ms. It must be less than Config.Timeout, and should be less than the
	// timeouts of the jobs.
	Wait time.Duration
	// ByKey fills each batch with jobs of one partition key only.
	ByKey bool
}

const (
	defaultManyWait = time.Second
	maxMany         = broker.MaxClaim
)

// BatchJob is one of the jobs that a batch handler gets.
type BatchJob[T any] struct {
	Args T
	Job  *Job
	// Context ends when the run of this job should end, as any handler's does.
	Context context.Context
	// Err is set by the handler: what a handler of this job alone would return. It
	// is read when the call returns.
	Err error
}

// HandleMany registers f on m for batches of jobs of a definition. It panics as
// ServeMux.Handle does, and if cfg is outside its limits.
//
// Each job of the batch has its own outcome, by its Err; nil completes it. If f
// returns an error or panics, that is the error of all jobs whose Err is nil. A
// job whose payload cannot be decoded does not reach f; it is dead at once.
//
// A job that waits for its batch counts as running: it has a slot, its lease is
// renewed, and its timeout counts. If its context ends before f is called, the job
// leaves the batch, with the cause as its error. When a drain begins, f is called
// at once with the jobs that wait. Jobs of other types take slots, too: if too few
// slots are left to fill a batch, f is called when Wait is over.
//
// Middleware wraps each job, as always, and sees the wait as a part of the run.
// The context of f has the values of one job's context, but JobFromContext returns
// nil for it. It ends when the contexts of all jobs have ended.
func HandleMany[T any](m *ServeMux, d Definition[T], cfg ManyConfig, f func(ctx context.Context, batch []*BatchJob[T]) error,
	chain ...Middleware) {
	if f == nil {
		m.Handle(d.typ, nil, chain...) // panics with the pattern's name
	}
	if cfg.Max < 1 || cfg.Max > maxMany {
		panic(fmt.Sprintf("jobs: HandleMany(%q): Max is %d; use 1 to %d", d.typ, cfg.Max, maxMany))
	}
	if cfg.Wait != 0 && cfg.Wait < minDuration {
		panic(fmt.Sprintf("jobs: HandleMany(%q): Wait is %v; use %v or more, or 0 for %v", d.typ, cfg.Wait, minDuration, defaultManyWait))
	}
	orDefault(&cfg.Wait, defaultManyWait)
	m.Handle(d.typ, &manyHandler[T]{def: d, cfg: cfg, f: f, open: make(map[string]*manyBatch[T])}, chain...)
}

// batching is a handler that can use several slots for one call.
type batching interface{ bounds() ManyConfig }

// checkBatches refuses a mux with a batch handler whose batches could never be full, or
// whose jobs would end before their batch is called.
func (m *ServeMux) checkBatches(cfg *Config) error {
	limits, limitOf := typeLimits(cfg.TypeConcurrency)
	m.mu.Lock()
	defer m.mu.Unlock()
	for pattern, r := range m.route {
		b, ok := r.handler.(batching)
		if !ok {
			continue
		}
		many := b.bounds()
		if many.Max > cfg.Concurrency {
			return broker.Invalid("Concurrency", "is %d, and the batch handler of %q takes up to %d jobs, each of which needs a slot; "+
				"set at least that, or a lower ManyConfig.Max", cfg.Concurrency, pattern, many.Max)
		}
		if i := limitOf(pattern); i >= 0 && many.Max > limits[i].Max {
			return broker.Invalid("TypeConcurrency", "lets %d jobs of %q run at once, and its batch handler takes up to %d; "+
				"set at least that, or a lower ManyConfig.Max", limits[i].Max, limits[i].Pattern, many.Max)
		}
		if n := cfg.slotsOfQueues(); many.Max > n {
			return broker.Invalid("QueueConcurrency", "lets %d jobs run at once in all queues, and the batch handler of %q takes up to %d; "+
				"raise the limits, or set a lower ManyConfig.Max", n, pattern, many.Max)
		}
		if many.Wait >= cfg.Timeout {
			return broker.Invalid("Timeout", "is %v, and the batch handler of %q waits up to %v for more jobs, which is part of a run; "+
				"set a longer timeout, or a shorter ManyConfig.Wait", cfg.Timeout, pattern, many.Wait)
		}
	}
	return nil
}

// slotsOfQueues returns how many jobs the limits of the queues let run at once.
func (cfg *Config) slotsOfQueues() (n int) {
	for name := range cfg.Queues {
		limit, limited := cfg.QueueConcurrency[name]
		if !limited {
			return cfg.Concurrency
		}
		n += min(limit, cfg.Concurrency)
	}
	return n
}

// manyHandler gathers jobs, each in the goroutine of its slot.
type manyHandler[T any] struct {
	def Definition[T]
	cfg ManyConfig
	f   func(context.Context, []*BatchJob[T]) error

	mu   sync.Mutex
	open map[string]*manyBatch[T] // batches that more jobs can join, by key
}

// manyBatch is the jobs of one call. While it is open, jobs join. When it is closed,
// the goroutine of one of its jobs takes the token and calls the handler.
type manyBatch[T any] struct {
	key    string
	jobs   []*BatchJob[T]
	timer  *time.Timer
	token  chan struct{} // gets one value when the batch is closed
	called bool
	done   chan struct{} // closed when the call is over
}

func (h *manyHandler[T]) bounds() ManyConfig { return h.cfg }

// ProcessJob adds the job to a batch, waits for the call, and returns the job's error.
func (h *manyHandler[T]) ProcessJob(ctx context.Context, job *Job) error {
	args, err := h.def.argsOf(job)
	if err != nil {
		return err
	}
	j := &BatchJob[T]{Args: args, Job: job, Context: ctx}
	b, open := h.join(j)
	var draining <-chan struct{}
	if open {
		draining = engine.RunOf(ctx).Draining()
	}
	ended := ctx.Done()
	for {
		select {
		case <-b.token:
			h.call(ctx, b)
			return j.Err
		case <-b.done:
			return j.Err
		case <-draining:
			draining = nil
			h.close(b)
		case <-ended:
			ended = nil
			if h.leave(b, j) {
				return context.Cause(ctx)
			}
		}
	}
}

// join adds a job to an open batch, and reports whether the batch stays open.
func (h *manyHandler[T]) join(j *BatchJob[T]) (b *manyBatch[T], open bool) {
	key := ""
	if h.cfg.ByKey {
		key = j.Job.PartitionKey()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	b = h.open[key]
	if b == nil {
		b = &manyBatch[T]{key: key, token: make(chan struct{}, 1), done: make(chan struct{})}
		h.open[key] = b
		b.timer = time.AfterFunc(h.cfg.Wait, func() { h.close(b) })
	}
	if b.jobs = append(b.jobs, j); len(b.jobs) == h.cfg.Max {
		h.closeLocked(b)
		return b, false
	}
	return b, true
}

// leave removes a job from a batch, unless the call has begun, and reports whether
// it did.
func (h *manyHandler[T]) leave(b *manyBatch[T], j *BatchJob[T]) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if b.called {
		return false
	}
	if b.jobs = slices.DeleteFunc(b.jobs, func(o *BatchJob[T]) bool { return o == j }); len(b.jobs) == 0 {
		h.closeLocked(b)
	}
	return true
}

func (h *manyHandler[T]) close(b *manyBatch[T]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closeLocked(b)
}

// closeLocked closes a batch, so that one of its jobs calls the handler.
func (h *manyHandler[T]) closeLocked(b *manyBatch[T]) {
	if h.open[b.key] == b {
		delete(h.open, b.key)
		b.timer.Stop()
		b.token <- struct{}{}
	}
}

// call passes a batch to the handler, and sets the errors of its jobs even if the handler
// panics or ends its goroutine.
func (h *manyHandler[T]) call(ctx context.Context, b *manyBatch[T]) {
	h.mu.Lock()
	b.called = true
	h.mu.Unlock()
	all, stop := h.together(ctx, b.jobs)
	err := errGoexit
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: string(debug.Stack())}
		}
		stop()
		for _, j := range b.jobs {
			if j.Err == nil {
				j.Err = err
			}
		}
		close(b.done)
	}()
	err = h.f(all, slices.Clone(b.jobs))
}

// together returns a context that ends when the contexts of all jobs have ended.
func (h *manyHandler[T]) together(ctx context.Context, jobs []*BatchJob[T]) (context.Context, func()) {
	all, cancel := context.WithCancelCause(engine.WithoutRun(ctx))
	var left atomic.Int64
	left.Store(int64(len(jobs)))
	stops := make([]func() bool, len(jobs))
	for i, j := range jobs {
		stops[i] = context.AfterFunc(j.Context, func() {
			if left.Add(-1) == 0 {
				cancel(context.Cause(j.Context))
			}
		})
	}
	return all, func() {
		for _, stop := range stops {
			stop()
		}
		cancel(context.Canceled)
	}
}
