package pgbroker

import (
	"context"
	"sync"
	"time"
)

// tasks are the goroutines of a broker. stop ends their context and waits for them.
type tasks struct {
	mu      sync.Mutex
	stopped bool
	group   sync.WaitGroup
	ctx     context.Context
	cancel  context.CancelFunc
}

func newTasks() *tasks {
	t := new(tasks)
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t
}

// start runs f in a goroutine. The context of f ends when the broker is closed. After stop, start
// does not run f, and returns false.
func (t *tasks) start(f func(ctx context.Context)) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return false
	}
	t.group.Go(func() { f(t.ctx) })
	return true
}

// after runs f after d, or earlier if the broker is closed.
func (t *tasks) after(d time.Duration, f func(ctx context.Context)) {
	t.start(func(ctx context.Context) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
		f(ctx)
	})
}

func (t *tasks) stop() {
	t.mu.Lock()
	t.stopped = true
	t.mu.Unlock()
	t.cancel()
	t.group.Wait()
}
