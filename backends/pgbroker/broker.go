package pgbroker

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed81422ce9/jobs/internal/guard"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/duewatch"
)

// Config says where jobs are and how to reach them. The zero value serves a
// schema named "jobs" over connections that keep their sessions.
type Config struct {
	// Schema is the schema that Migrate made. Defaults to DefaultSchema.
	Schema string

	// PollOnly makes the broker depend on nothing that a connection keeps from
	// one transaction to the next: no LISTEN, no prepared statements. It is for
	// PgBouncer in transaction pooling. Waiting claims and watchers then poll: every 10 ms
	// while there is work, and less and less often without, claims down to once a second,
	// watchers to every 250 ms. More than four workers of a queue share four polls a second.
	// With Listen they do not poll.
	PollOnly bool

	// Listen is the URL of the same database, or its keywords and values, for the one
	// connection that listens. That connection needs a session: it must bypass a PgBouncer, or
	// use one in session pooling. Defaults to a connection of the pool, or with PollOnly to
	// none.
	Listen string

	// Logger receives what an operator should know, such as privileges that the connection's
	// role does not have. Defaults to slog.Default.
	Logger *slog.Logger
}

// Broker keeps jobs in a PostgreSQL schema. Make one with New.
type Broker struct {
	pool   *pgxpool.Pool
	config Config
	sql    queries

	channel  string          // of notifications
	listens  *pgx.ConnConfig // Config.Listen, or nil
	limited  sync.Map        // queues that had a depth limit at the last call; knowing them saves a round trip
	keeping  sync.Map        // queues that kept records at the last call
	floors   floors
	last     lastClaim
	due      dueTimes
	dues     duewatch.Watch
	pause    atomic.Int64 // until the next poll without notifications, in nanoseconds
	pollers  atomic.Int64 // if this broker never listens: the number of workers of its queue with the fewest workers
	counted  atomic.Int64 // when pollers was counted, Unix time in nanoseconds
	flows    flows
	leases   leases
	deltas   deltas
	ages     ages
	held     heldCounts
	tasks    *tasks
	waker    *waker
	listener *listener
	pulse    *pulse
	watchers watchers

	poll       time.Duration // pollListening, except in tests that must get a wake-up
	daysTurned atomic.Int64  // when this process last checked the partitions
	daysDenied sync.Once     // logs that the role may not change the partitions

	closing sync.Once
	closed  chan struct{}
}

var _ broker.Broker = (*Broker)(nil)

// New returns a broker on a schema that Migrate made. The broker uses pool until Close,
// which leaves the pool open. New fails if the server cannot be reached, if the schema is
// not migrated (ErrNotMigrated) or is of a newer release, if the database does not
// default to READ COMMITTED, on which every statement here relies, or if connections have
// another client_encoding than UTF8.
func New(ctx context.Context, pool *pgxpool.Pool, config Config) (_ *Broker, err error) {
	defer about(&err, "open", "")
	if config.Schema == "" {
		config.Schema = DefaultSchema
	}
	config.Logger = guard.Logger(config.Logger)
	if err := checkPlace(pool, config.Schema); err != nil {
		return nil, err
	}
	b := &Broker{
		pool:    pool,
		config:  config,
		sql:     loadQueries(config.Schema),
		channel: "jobs_" + config.Schema,
		due:     dueTimes{next: make(map[string]time.Time)},
		flows:   flows{queues: make(map[string]*flowing)},
		ages:    ages{queues: make(map[string]*queueAges), dear: isDear},
		held:    heldCounts{dear: isDear},
		tasks:   newTasks(),
		poll:    pollListening,
		closed:  make(chan struct{}),
	}
	if config.Listen != "" {
		if b.listens, err = pgx.ParseConfig(config.Listen); err != nil { // the error may quote a password
			return nil, broker.Invalid("listen", "is not understood; write a URL as for the pool")
		}
	}
	b.waker = newWaker(b.tasks, b.notify)
	b.listener = newListener(b)
	b.pulse = &pulse{b: b}
	if err := b.checkStore(ctx); err != nil {
		return nil, err
	}
	return b, nil
}

// Limits is the zero value: everything is supported.
func (b *Broker) Limits() broker.Limits { return broker.Limits{} }

// Ping asks the server for its time.
func (b *Broker) Ping(ctx context.Context) (now time.Time, err error) {
	defer about(&err, "ping", "")
	var us int64
	err = b.run(ctx, b.step("clock", one(&us), nil))
	return broker.FromMicros(us), err
}

// Close ends waiting calls and the connection that listens. It leaves the pool open. Other
// calls that are under way may finish. Close waits for the broker's background tasks, for
// at most broker.MaxClose.
func (b *Broker) Close() error {
	b.closing.Do(func() {
		close(b.closed)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			b.tasks.stop()
			b.pulse.close()
		}()
		select {
		case <-ended:
		case <-time.After(broker.MaxClose): // a store that does not answer
		}
	})
	return nil
}

// Reconnect closes the connections of the pool that was passed to New, and the broker's own
// ones. Connections in use are closed when they are returned. It is needed because a server
// that was demoted, or a proxy in front of it, may keep connections open that cannot write.
func (b *Broker) Reconnect() {
	b.pool.Reset()
	if own := b.pulse.pool(); own != nil {
		own.Reset()
	}
}

// usable refuses calls on a closed broker, and calls whose context has ended.
func (b *Broker) usable(ctx context.Context) error {
	select {
	case <-b.closed:
		return broker.ErrClosed
	default:
	}
	if ctx.Err() != nil {
		return notSent(ctx.Err())
	}
	return nil
}
