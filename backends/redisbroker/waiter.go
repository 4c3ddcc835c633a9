package redisbroker

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// waiter is a connection for waits, one at a time. It is a client of its own, not a connection of
// another client's pool, because closing it must close the connection at once.
type waiter struct {
	client *redis.Client
	server *redis.Client // another client of the same server, for commands while this one waits
	id     atomic.Int64  // the ID of the connection, for CLIENT UNBLOCK; 0 if the server does not report it
}

func newWaiter(server *redis.Client) *waiter {
	w := &waiter{server: server}
	o := *server.Options()
	o.MaxRetries = -1
	o.ReadTimeout, o.WriteTimeout = -1, callTimeout // no read timeout: each wait has its own deadline
	o.PoolSize, o.MaxActiveConns, o.MaxConcurrentDials = 1, 1, 1
	o.PipelinePoolSize = -1
	connected := o.OnConnect
	o.OnConnect = func(ctx context.Context, conn *redis.Conn) error {
		id, _ := conn.ClientID(ctx).Result() // 0 with an error
		w.id.Store(id)
		if connected != nil {
			return connected(ctx, conn)
		}
		return nil
	}
	w.client = redis.NewClient(&o)
	return w
}

// unblock ends a wait for key, and returns when done is closed. It repeats CLIENT UNBLOCK, which has no
// effect if the wait has not reached the server yet.
func (w *waiter) unblock(done <-chan struct{}, key string) {
	ctx, cancel := context.WithTimeout(context.Background(), putBackTime)
	defer cancel()
	for ctx.Err() == nil && w.id.Load() != 0 {
		if w.end(ctx, key) != nil {
			break
		}
		select {
		case <-done:
			return
		case <-time.After(unblockStep):
		}
	}
	w.close()
	<-done
}

// hurry ends a wait for key whose time is over. Otherwise an idle server ends it up to 100 ms late. A wait
// that has not reached the server yet, or that the server does not allow to be ended, ends by itself.
func (w *waiter) hurry(key string) {
	ctx, cancel := context.WithTimeout(context.Background(), putBackTime)
	defer cancel()
	if w.id.Load() != 0 {
		_ = w.end(ctx, key)
	}
}

// end sends CLIENT UNBLOCK. Redis before 7.2 crashes if that is about a client whose command is held back by
// CLIENT PAUSE WRITE, which is a part of planned failovers. So PERSIST goes first, which does nothing, since the
// key has no expiry: being a write, it is held back like the wait, and what follows it on its connection, too.
func (w *waiter) end(ctx context.Context, key string) error {
	pipe := w.server.Pipeline()
	pipe.Persist(ctx, key)
	ended := pipe.ClientUnblock(ctx, w.id.Load())
	_, _ = pipe.Exec(ctx) // only the second command matters
	return ended.Err()
}

func (w *waiter) close() { _ = w.client.Close() } // no caller is left that could use the error

// maxIdleWaiters is how many idle waiters of each server are kept for the next waits: in a
// Cluster a claim needs one for each group of queues. maxIdle is how many are kept in all; the
// oldest are closed first, since their servers may have left the Cluster.
const (
	maxIdleWaiters = queueGroups
	maxIdle        = 4 * maxIdleWaiters
)

// waiters are idle connections for waits.
type waiters struct {
	mu     sync.Mutex
	idle   []*waiter
	closed bool
}

// get returns a connection to the server that has a key.
func (ws *waiters) get(ctx context.Context, s *store, key string) (*waiter, error) {
	server, err := s.node(ctx, key)
	if err != nil {
		return nil, err
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for i := len(ws.idle) - 1; i >= 0; i-- {
		if w := ws.idle[i]; w.server == server {
			ws.idle = append(ws.idle[:i], ws.idle[i+1:]...)
			return w, nil
		}
	}
	return newWaiter(server), nil
}

// put returns a connection.
func (ws *waiters) put(w *waiter) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	same := 0
	for _, idle := range ws.idle {
		if idle.server == w.server {
			same++
		}
	}
	if ws.closed || same >= maxIdleWaiters {
		w.close()
		return
	}
	ws.idle = append(ws.idle, w)
	if len(ws.idle) > maxIdle {
		ws.idle[0].close()
		ws.idle = slices.Delete(ws.idle, 0, 1)
	}
}

func (ws *waiters) close() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, w := range ws.idle {
		w.close()
	}
	ws.idle, ws.closed = nil, true
}
