package jobs

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/engine"
)

// ManyConfig says which jobs go together into one call of a batch handler.
type ManyConfig struct {
	// Max is how many jobs a batch has at most, 1 to 1000; it is required. A full batch is handed
	// over at once. Config.Concurrency must be at least as high.
	Max int
	// Wait is how long the first job of a batch waits for others. Zero means 1 s.
	Wait time.Duration
	// ByKey makes batches of jobs with the same key only; see WithPartitionKey.
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
	// Context ends when this job's run should end, as that of any handler.
	Context context.Context
	// Err is for the handler to set: what a handler of this job alone would return.
	// It is read when the call returns.
	Err error
}

// HandleMany registers f on m for the jobs of a definition, to be handed over in
// batches. It panics as ServeMux.Handle does, and if the configuration is out of
// bounds.
//
// Each job of the batch has its own outcome: that of its Err, nil completes it.
// If f returns an error or panics, all jobs whose Err is nil have that error. A
// job whose payload cannot be decoded does not reach f; it is dead at once.
//
// While a job waits for its batch, it runs: it has its lease, which is renewed, its
// slot, and its timeout, which counts from then on. A job whose context ends
// before the batch is handed over leaves it, with the cause as its error. A drain
// hands over at once what waits. Jobs of other types need slots, too; if too few
// are left to fill a batch, it is handed over when Wait is over.
//
// Middleware is around each job, as always, and sees the wait as a part of the
// run. The context of f has the values of one of the jobs' contexts, but no job:
// JobFromContext returns nil. It ends when the contexts of all jobs have.
func HandleMany[T any](m *ServeMux, d Definition[T], cfg ManyConfig, f func(ctx context.Context, batch []*BatchJob[T]) error,
	chain ...Middleware) {
	if f == nil {
		m.Handle(d.typ, nil, chain...) // panics with the pattern's name
	}
	if cfg.Max < 1 || cfg.Max > maxMany {
		panic(fmt.Sprintf("jobs: HandleMany(%q): Max is %d; use 1 to %d", d.typ, cfg.Max, maxMany))
	}
	if cfg.Wait < 0 {
		panic(fmt.Sprintf("jobs: HandleMany(%q): Wait is %v; use zero or more", d.typ, cfg.Wait))
	}
	orDefault(&cfg.Wait, defaultManyWait)
	m.Handle(d.typ, &manyHandler[T]{def: d, cfg: cfg, f: f, open: make(map[string]*manyBatch[T])}, chain...)
}

// batching is a handler that needs so many slots at once.
type batching interface{ maxBatch() int }

// checkBatches refuses a mux with a batch handler whose batches could never be full.
func (m *ServeMux) checkBatches(concurrency int, typeConcurrency map[string]int) error {
	limits, limitOf := typeLimits(typeConcurrency)
	m.mu.Lock()
	defer m.mu.Unlock()
	for pattern, r := range m.route {
		b, ok := r.handler.(batching)
		if !ok {
			continue
		}
		if b.maxBatch() > concurrency {
			return broker.Invalid("Concurrency", "is %d, and the batch handler of %q takes up to %d jobs, each of which needs a slot; "+
				"set at least that, or a lower ManyConfig.Max", concurrency, pattern, b.maxBatch())
		}
		if i := limitOf(pattern); i >= 0 && b.maxBatch() > limits[i].Max {
			return broker.Invalid("TypeConcurrency", "lets %d jobs of %q run at once, and its batch handler takes up to %d; "+
				"set at least that, or a lower ManyConfig.Max", limits[i].Max, limits[i].Pattern, b.maxBatch())
		}
	}
	return nil
}

// manyHandler gathers jobs, each in the goroutine of its slot.
type manyHandler[T any] struct {
	def Definition[T]
	cfg ManyConfig
	f   func(context.Context, []*BatchJob[T]) error

	mu   sync.Mutex
	open map[string]*manyBatch[T] // that take more jobs, by key
}

// manyBatch is some jobs for one call. It is open, then closed, then called: by the
// goroutine of a job that takes the token.
type manyBatch[T any] struct {
	key    string
	jobs   []*BatchJob[T]
	timer  *time.Timer
	token  chan struct{} // has one when the batch is closed
	called bool
	done   chan struct{} // closed when the call is over
}

func (h *manyHandler[T]) maxBatch() int { return h.cfg.Max }

// ProcessJob returns what became of the job in its batch.
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

// join puts a job into an open batch, and reports whether that takes more.
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

// leave takes a job out of a batch, unless the call has begun.
func (h *manyHandler[T]) leave(b *manyBatch[T], j *BatchJob[T]) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if b.called {
		return false
	}
	for i := range b.jobs {
		if b.jobs[i] == j {
			b.jobs = append(b.jobs[:i], b.jobs[i+1:]...)
			break
		}
	}
	if len(b.jobs) == 0 {
		h.closeLocked(b)
	}
	return true
}

func (h *manyHandler[T]) close(b *manyBatch[T]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closeLocked(b)
}

// closeLocked lets no more jobs into a batch, and has one of them call the handler.
func (h *manyHandler[T]) closeLocked(b *manyBatch[T]) {
	if h.open[b.key] == b {
		delete(h.open, b.key)
		b.timer.Stop()
		b.token <- struct{}{}
	}
}

// call hands a batch over. Every job has its error when it is over, however it ends.
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
	err = h.f(all, append([]*BatchJob[T](nil), b.jobs...))
}

// together returns a context that ends when those of all jobs have.
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
