package system

import (
	"context"
	"sync"
	"time"
)

// bareStore is the part in which the prototypes differ.
type bareStore interface {
	prepare(ctx context.Context) error
	put(ctx context.Context, batch []Job) error
	// turn settles ended jobs and then claims up to room jobs. With a wait, it claims
	// once there may be jobs, or when that time has passed. due is the time of the next
	// scheduled job, or zero.
	turn(ctx context.Context, ended []bareJob, room int, wait time.Duration) (claimed []bareJob, due time.Time, err error)
	left(ctx context.Context) (int, error)
	close() error
}

// bareJob is a job of a prototype under a lease.
type bareJob struct {
	id       string
	failures int
	payload  []byte
	failed   bool
	key      int64 // the store's own
}

const (
	bareBatch = 1000             // jobs in one call
	bareWait  = 10 * time.Second // how long an idle worker waits for a wake-up
)

// bare is a prototype: concurrent enqueues share calls, and one loop settles
// and claims for a pool of goroutines.
type bare struct {
	setup Setup
	store bareStore

	mu      sync.Mutex
	sending bool
	waiting []barePut
}

type barePut struct {
	job  *Job
	done chan error
}

func (b *bare) Prepare(ctx context.Context) error                  { return b.store.prepare(ctx) }
func (b *bare) EnqueueMany(ctx context.Context, batch []Job) error { return b.store.put(ctx, batch) }
func (b *bare) Left(ctx context.Context) (int, error)              { return b.store.left(ctx) }
func (b *bare) Close() error                                       { return b.store.close() }

// Enqueue sends at once if no other call is running; otherwise the next call takes
// the job.
func (b *bare) Enqueue(ctx context.Context, job *Job) error {
	b.mu.Lock()
	if b.sending {
		p := barePut{job: job, done: make(chan error, 1)}
		b.waiting = append(b.waiting, p)
		b.mu.Unlock()
		return <-p.done
	}
	b.sending = true
	b.mu.Unlock()
	err := b.store.put(ctx, []Job{*job})
	b.mu.Lock()
	if len(b.waiting) == 0 {
		b.sending = false
	} else {
		go b.send(ctx)
	}
	b.mu.Unlock()
	return err
}

func (b *bare) send(ctx context.Context) {
	for {
		b.mu.Lock()
		n := min(len(b.waiting), bareBatch)
		if n == 0 {
			b.sending = false
			b.mu.Unlock()
			return
		}
		puts := b.waiting[:n:n]
		b.waiting = b.waiting[n:]
		b.mu.Unlock()
		batch := make([]Job, n)
		for i, p := range puts {
			batch[i] = *p.job
		}
		err := b.store.put(ctx, batch)
		for _, p := range puts {
			p.done <- err
		}
	}
}

func (b *bare) Work(ctx context.Context, handle Handle) (func() error, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ahead := 2 * b.setup.Handlers
	todo, done := make(chan bareJob, ahead), make(chan bareJob, ahead)
	var handlers sync.WaitGroup
	for range b.setup.Handlers {
		handlers.Go(func() {
			for j := range todo {
				jobCtx, end := context.WithCancel(ctx)
				_, err := handle(jobCtx, j.payload, j.failures)
				end()
				j.failed = err != nil
				done <- j
			}
		})
	}
	failed := make(chan error, 1)
	go func() { failed <- b.loop(ctx, ahead, todo, done) }()
	return func() error {
		cancel()
		err := <-failed
		close(todo)
		handlers.Wait()
		return err
	}, nil
}

// loop keeps up to ahead jobs claimed until ctx ends; then it settles the jobs whose
// handlers have begun.
func (b *bare) loop(ctx context.Context, ahead int, todo chan<- bareJob, done <-chan bareJob) error {
	held := 0
	var due time.Time
	wait := time.Duration(0)
	for ctx.Err() == nil || held > 0 {
		var ended []bareJob
		// Without room for a claim, wait until a job ends.
		for len(ended) < ahead && (len(done) > 0 || wait > 0 && held > 0 && len(ended) == 0) {
			ended = append(ended, <-done)
		}
		held -= len(ended)
		room := ahead - held
		if ctx.Err() != nil {
			room = 0
		}
		if held > 0 || len(ended) > 0 {
			wait = 0
		} else if wait > 0 && !due.IsZero() {
			wait = min(wait, max(time.Until(due), time.Millisecond))
		}
		call, end := context.WithCancel(context.WithoutCancel(ctx))
		stop := context.AfterFunc(ctx, func() {
			if wait > 0 {
				end() // do not wait for a waiting claim
			}
		})
		claimed, next, err := b.store.turn(call, ended, room, wait)
		stop()
		end()
		if err != nil {
			if ctx.Err() != nil && wait > 0 {
				return nil
			}
			return err
		}
		held, due, wait = held+len(claimed), next, 0
		for _, j := range claimed {
			todo <- j
		}
		if len(claimed) == 0 && len(done) == 0 {
			wait = bareWait
		}
	}
	return nil
}
