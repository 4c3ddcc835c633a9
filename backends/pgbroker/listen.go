package pgbroker

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed81422ce9/jobs/broker"
)

// Notifications are lines: a kind, a queue, and for a wake-up the token of the
// broker that sent it, which has woken its own already; for events one line per
// job, its state and its ID. Names contain no line breaks.
const (
	wakeKind    = "w"
	pendingKind = "p" // a wake-up of pending jobs, and of nothing else
	settledKind = "s"
	cancelKind  = "c"
)

const (
	// A connection that stays silent is asked for a sign of life.
	listenSilence = 30 * time.Second

	// How long a listener waits before it connects again, first and at most.
	listenRetry     = 50 * time.Millisecond
	listenRetryMost = 5 * time.Second
)

// listener hears notifications on a connection of its own, from the first call that
// needs it until the broker is closed.
type listener struct {
	b       *Broker
	started sync.Once

	mu      sync.Mutex
	up      bool
	changed chan struct{} // closed when up changes
}

func newListener(b *Broker) *listener { return &listener{b: b, changed: make(chan struct{})} }

// listening starts the listener and reports whether it hears at this moment.
func (l *listener) listening() bool {
	l.started.Do(func() { l.b.tasks.start(l.run) })
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.up
}

// await waits until the listener hears.
func (l *listener) await(ctx context.Context) error {
	for {
		l.mu.Lock()
		changed := l.changed
		l.mu.Unlock()
		if l.listening() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return notSent(ctx.Err())
		case <-l.b.closed:
			return broker.ErrClosed
		}
	}
}

func (l *listener) set(up bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.up != up {
		l.up = up
		close(l.changed)
		l.changed = make(chan struct{})
	}
}

// run listens until ctx ends. Whenever something may have been missed it wakes
// everybody, and tells the watchers.
func (l *listener) run(ctx context.Context) {
	retry := listenRetry
	for ctx.Err() == nil {
		began := time.Now()
		l.session(ctx)
		l.set(false)
		l.b.watchers.missed()
		if time.Since(began) > listenRetryMost {
			retry = listenRetry
		}
		pause := time.NewTimer(jitter(retry))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
		}
		retry = min(2*retry, listenRetryMost)
	}
}

func (l *listener) session(ctx context.Context) {
	conn, err := l.connect(ctx)
	if err != nil {
		return
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTime)
		defer cancel()
		conn.Close(ctx)
	}()
	if _, err := conn.Exec(ctx, "listen "+pgx.Identifier{l.b.channel}.Sanitize()); err != nil {
		return
	}
	l.set(true)
	l.b.waker.wakeAll()
	for {
		n, err := l.hear(ctx, conn)
		if err != nil {
			return
		}
		if n != nil {
			l.b.dispatch(n.Payload)
		}
	}
}

// connect makes the connection that listens, or takes it out of the pool.
func (l *listener) connect(ctx context.Context) (*pgx.Conn, error) {
	if l.b.listens != nil {
		return pgx.ConnectConfig(ctx, l.b.listens.Copy())
	}
	pooled, err := l.b.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return pooled.Hijack(), nil
}

// hear returns the next notification, or nil after a silence in which the
// server has shown that it is there.
func (l *listener) hear(ctx context.Context, conn *pgx.Conn) (*pgconn.Notification, error) {
	quiet, cancel := context.WithTimeout(ctx, listenSilence)
	defer cancel()
	n, err := conn.WaitForNotification(quiet)
	if err == nil || quiet.Err() == nil || ctx.Err() != nil {
		return n, err
	}
	alive, cancel := context.WithTimeout(ctx, listenSilence)
	defer cancel()
	return nil, conn.Ping(alive)
}

// dispatch passes a notification, or an event that was polled, on.
func (b *Broker) dispatch(payload string) {
	kind, rest, _ := strings.Cut(payload, "\n")
	queue, rest, _ := strings.Cut(rest, "\n")
	switch {
	case kind != wakeKind && kind != pendingKind:
		b.watchers.tell(kind, queue, rest)
	case rest != b.waker.token:
		if rest == "" {
			b.floors.doubt(queue)
		}
		b.waker.wake(queue, kind == pendingKind)
	}
}

// polls reports whether the broker never listens.
func (b *Broker) polls() bool { return b.config.PollOnly && b.listens == nil }

// listen reports whether wake-ups of other processes are heard now.
func (b *Broker) listen() bool { return !b.polls() && b.listener.listening() }

// notify sends a wake-up by itself. It is a hint, so that a failure is none;
// it is sent on behalf of a flush, also when the broker is being closed.
func (b *Broker) notify(ctx context.Context, w *wakeUp) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTime)
	defer cancel()
	if conn, err := b.pool.Acquire(ctx); err == nil {
		defer conn.Release()
		connSession{conn.Conn(), b.config.PollOnly}.run(ctx, step{sql: "select pg_notify($1, $2)", args: []any{w.channel, w.payload}})
	}
}
