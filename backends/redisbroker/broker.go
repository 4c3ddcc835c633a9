package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/duewatch"
)

// Broker keeps jobs in Redis; it implements [broker.Broker]. All methods may
// be called concurrently.
type Broker struct {
	config Config
	log    *slog.Logger
	store  store

	queues    sync.Map     // name → *queue, as this process knows them
	forgot    atomic.Int64 // the uptime when queues were last forgotten
	waiters   waiters
	listener  listener
	lastClaim lastClaim
	dues      duewatch.Watch
	members   members
	few       int           // fewQueues, except in tests
	plenty    atomic.Bool   // the last claims of many queues found that most of the queues had jobs
	marks     []*queue      // the keys of marks, by slot
	pruned    atomic.Uint32 // how many slots of marks were pruned

	examinations examinations

	ending context.Context // ends with Close
	end    context.CancelFunc
	mu     sync.Mutex // guards closed against enter
	closed bool
	active sync.WaitGroup
}

var _ broker.Broker = (*Broker)(nil)

// New makes a broker on the server, the Sentinel group or the Cluster that client is for. It
// copies the client's options into clients of its own, without retries, since a repeated claim
// would lease jobs that no worker knows of. It does not copy the client's hooks. The caller closes
// the client after the broker. If the client was made by redis.NewFailoverClient, the broker uses
// one of its connections, to learn when the Sentinels name another master.
//
// New asks the server for its version and settings. It returns ErrUnsupported if the server is
// older than Redis 6.2, or if the client cannot be copied or does not fit the server. It returns
// ErrUnavailable if no server answers. It logs a warning if the server may evict keys, or does not
// show whether it does.
func New(ctx context.Context, client redis.UniversalClient, config Config) (*Broker, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, broker.About(err, "new", "", "")
	}
	parseScripts()
	b := &Broker{config: config, log: config.Logger, few: fewQueues, marks: newMarkSlots(config.Prefix)}
	if b.store, err = connect(client); err != nil {
		return nil, broker.About(err, "new", "", "")
	}
	if err = b.inspect(ctx); err != nil {
		_ = b.store.close() // err already says what is wrong
		return nil, broker.About(err, "new", "", "")
	}
	b.listener.channels, b.listener.lost, b.listener.every = make(map[string]*channel), make(map[*watcher]bool), listenPing
	b.ending, b.end = context.WithCancel(context.Background())
	if c, ok := client.(*redis.Client); ok && b.store.named != nil {
		go b.store.named.follow(b.ending, c, b.config.Prefix+":master") // a key that never exists
	}
	return b, nil
}

// inspect checks every server and loads the scripts.
func (b *Broker) inspect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := await(ctx, func() error {
		return b.store.each(ctx, func(ctx context.Context, node *redis.Client) error {
			if err := b.inspectServer(ctx, node); err != nil {
				return err
			}
			return loadScripts(ctx, node)
		})
	})
	if err != nil && strings.Contains(err.Error(), "cluster support disabled") {
		return &broker.Error{Field: "client", Err: broker.ErrUnsupported, Hint: "the server is no node of a Cluster; use redis.NewClient"}
	}
	if err != nil && broker.MayHaveApplied(err) {
		return notSent(err) // the checks change nothing
	}
	return err
}

// Limits returns the zero value: this backend supports everything.
func (b *Broker) Limits() broker.Limits { return broker.Limits{} }

// Ping asks every server for its time, and returns the latest.
func (b *Broker) Ping(ctx context.Context) (time.Time, error) {
	var mu sync.Mutex
	var latest time.Time
	err := b.within(ctx, func(ctx context.Context) error {
		return b.store.each(ctx, func(ctx context.Context, node *redis.Client) error {
			at, err := node.Time(ctx).Result()
			mu.Lock()
			defer mu.Unlock()
			latest = later(latest, at.UTC())
			return err
		})
	})
	if err != nil && !errors.Is(err, broker.ErrClosed) {
		err = notSent(err)
	}
	mu.Lock() // within may have given up
	defer mu.Unlock()
	return latest, broker.About(err, "ping", "", "")
}

// Reconnect does nothing: go-redis closes connections that fail, and follows
// Sentinel and the Cluster by itself.
func (b *Broker) Reconnect() {}

// Close ends waiting calls, releases jobs that these have just leased, and closes
// the broker's connections, but not the client that New was given. Other calls get
// half of broker.MaxClose to finish. If the store does not answer, Close returns after
// broker.MaxClose.
func (b *Broker) Close() error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	b.mu.Unlock()
	b.end()
	finished := make(chan struct{})
	go func() {
		b.active.Wait()
		close(finished)
	}()
	end := time.After(broker.MaxClose)
	select {
	case <-finished:
	case <-time.After(broker.MaxClose / 2): // a store that does not answer
	}
	closed := make(chan error, 1)
	go func() {
		b.waiters.close()
		err := b.store.close()
		<-finished
		closed <- err
	}()
	select {
	case err := <-closed:
		return err
	case <-end:
		return nil // connections that are still being made close by themselves
	}
}

// putBackTime is how long the broker tries to release jobs that no caller takes.
const putBackTime = 5 * time.Second

// enter begins a call; leave ends it. If enter returns an error, nothing was sent.
func (b *Broker) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", broker.ErrUnavailable, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return broker.ErrClosed
	}
	b.active.Add(1)
	return nil
}

func (b *Broker) leave() { b.active.Done() }

// usable reports whether the broker can be used, for a call that has nothing to send.
func (b *Broker) usable(ctx context.Context) error {
	err := b.enter(ctx)
	if err == nil {
		b.leave()
	}
	return err
}
