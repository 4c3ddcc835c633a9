package pgbroker

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed81422ce9/jobs/broker"
)

// A notification has several lines: a kind, a queue, and more lines that depend on the kind.
// Names contain no line breaks.
const (
	// To the listener of one process, with a number of jobs; txKind also to all.
	pendingKind = "p" // jobs became pending, and nothing else changed
	dueKind     = "d" // jobs became pending or scheduled
	txKind      = "t" // the same, by a transaction that may have been open for a long time

	// To all listeners.
	wakeKind    = "w" // all claims look; with the token of the sending process, which has woken its own claims
	settledKind = "s" // events: a line for each job, with its state and its ID
	cancelKind  = "c"
)

const (
	// A connection without notifications for so long is pinged.
	listenSilence = 30 * time.Second

	// How long a listener waits before it connects again: at first, and at most.
	listenRetry     = 50 * time.Millisecond
	listenRetryMost = 5 * time.Second
)

// listenerLock is the class of the advisory locks that listeners hold on their numbers, so
// that others see which listeners are gone. parts/notified.sql has the same number.
const listenerLock = 1785684595

// listener receives notifications on a connection of its own, from the first call that
// needs them until the broker is closed.
type listener struct {
	b       *Broker
	started sync.Once

	mu      sync.Mutex
	up      bool
	changed chan struct{} // closed when up changes
}

func newListener(b *Broker) *listener { return &listener{b: b, changed: make(chan struct{})} }

// listening starts the listener and reports whether it is connected at this moment.
func (l *listener) listening() bool {
	l.started.Do(func() { l.b.tasks.start(l.run) })
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.up
}

// await waits until the listener is connected.
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

// run listens until ctx ends. When notifications may have been missed, it wakes all claims and
// tells the watchers.
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
		select {
		case <-time.After(jitter(retry)):
		case <-ctx.Done():
		}
		retry = min(2*retry, listenRetryMost)
	}
}

func (l *listener) session(ctx context.Context) {
	conn, err := l.connect(ctx)
	if err != nil {
		return
	}
	number := 1 + rand.Int32N(math.MaxInt32-1)
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTime)
		defer cancel()
		l.b.waker.begin(0)
		_ = connSession{conn, l.b.config.PollOnly}.run(ctx, l.b.step("waiter_leave", nil, number))
		conn.Close(ctx)
	}()
	all, own := l.b.listenerChannel(0), l.b.listenerChannel(number)
	// The server must not end the session because it is quiet.
	listen := fmt.Sprintf("set idle_session_timeout = 0; listen %s; listen %s; listen %s; select pg_advisory_lock(%d, %d)",
		pgx.Identifier{l.b.channel}.Sanitize(), pgx.Identifier{all}.Sanitize(), pgx.Identifier{own}.Sanitize(), listenerLock, number)
	if _, err := conn.Exec(ctx, listen, pgx.QueryExecModeSimpleProtocol); err != nil {
		return
	}
	l.b.waker.begin(number)
	l.set(true)
	l.b.waker.wakeAll()
	for {
		n, err := l.hear(ctx, conn)
		if err != nil {
			return
		}
		if n != nil {
			l.b.dispatch(n.Payload, n.Channel == own)
		}
	}
}

// listenerChannel returns the name of a listener's channel as the statements write it; for
// 0, the channel of all listeners.
func (b *Broker) listenerChannel(number int32) string {
	return inSchema(fmt.Sprintf("%s.%d", DefaultSchema, number), b.config.Schema)
}

// connect makes the connection that listens, or takes one out of the pool.
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

// hear returns the next notification, or nil if none came for a while and the server answered
// a ping.
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

// dispatch handles a notification, or an event that was polled. With mine, it was sent only to
// this process.
func (b *Broker) dispatch(payload string, mine bool) {
	kind, rest, _ := strings.Cut(payload, "\n")
	queue, rest, _ := strings.Cut(rest, "\n")
	switch {
	case kind == pendingKind || kind == dueKind || kind == txKind:
		if kind == txKind {
			b.floors.doubt(queue)
		}
		if kind != pendingKind {
			b.dues.Called(queue)
		}
		if !mine {
			b.waker.wake(queue, kind == pendingKind)
			break
		}
		jobs, _ := strconv.Atoi(rest)
		b.waker.called(queue, kind, jobs)
	case kind != wakeKind:
		b.watchers.tell(kind, queue, rest)
	case rest != b.waker.token:
		b.waker.forget(queue)
		b.waker.wake(queue, false)
	}
}

// polls reports whether the broker never listens.
func (b *Broker) polls() bool { return b.config.PollOnly && b.listens == nil }

// listen reports whether wake-ups of other processes arrive now.
func (b *Broker) listen() bool { return !b.polls() && b.listener.listening() }

// notify sends wake-ups in a transaction of their own, even while the broker is being closed. It reports whether
// there is no other process to wake. It ignores failures, since wake-ups are hints.
func (b *Broker) notify(ctx context.Context, queue string, wakes []*wakeUp, busy bool) (alone bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTime)
	defer cancel()
	steps := make([]step, len(wakes))
	woken := make([]bool, len(wakes))
	for i, w := range wakes {
		steps[i] = b.step("wake", one(&woken[i]), queue, w.self, w.payload(queue), busy)
	}
	return poolSession{b}.run(ctx, steps...) == nil && !slices.Contains(woken, true)
}
