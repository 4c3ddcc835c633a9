// Package backends opens any of the backends by URL, for programs that leave
// the choice to whoever runs them. It compiles all drivers in; a program that
// has made its choice imports that backend alone.
//
// # URLs
//
//	memory://
//
// keeps the jobs in this process. Each Open gives a store of its own.
//
//	file:jobs.db
//	file:///var/lib/app/jobs.db
//
// keeps them in a file, which Open creates if it does not exist. Only one process at a time
// can have it open; within that process, each Open gives a handle on the same store. See
// filebroker.Open.
//
//	redis://user:password@host:port/database?prefix=jobs&buckets=64
//	rediss://…                                       the same over TLS
//	redis+unix:///path/to/socket?db=0                a Unix socket
//	redis+cluster://host:port?addr=host:port&addr=…  Redis Cluster, by some of its nodes
//	redis+sentinel://host:port/database?addr=host:port&master_name=name
//	                                                 a master, by its sentinels
//
// also rediss+cluster and rediss+sentinel. User and password in a sentinel URL
// are those of the sentinels; the master's are the parameters username and
// password. Everything but the scheme has a default: localhost, 6379, 0, jobs.
// With replicas=1, a new job is accepted only when one replica has it;
// replica_timeout=500ms limits the wait for that. See redisbroker.Config.Replicas
// for the cost.
// Further parameters are those of go-redis: client_name, pool_size,
// conn_max_idle_time, conn_max_lifetime, dial_timeout (durations, as 3s), and
// skip_verify for TLS without a check of the server's name.
//
//	postgres://user:password@host:port/database?schema=jobs&poll_only=false&listen=host:port
//
// also postgresql. Separate several hosts by commas. With poll_only no
// connection listens for wake-ups: use it behind a PgBouncer that pools
// transactions. Alternatively, set listen to the address of the database itself, to
// listen there and bypass the PgBouncer. Further parameters are those of pgx (sslmode,
// connect_timeout, pool_max_conns, default_query_exec_mode, …); all others are settings
// of the session. For what the URL omits, pgx uses PGHOST and similar environment
// variables.
//
//	shards://?north=redis%3A%2F%2Fa%3A6379&south=redis%3A%2F%2Fb%3A6379
//
// is one store over several: each parameter is the name of a shard, with its URL.
// The names are not secret. They decide where jobs are stored, so all programs must use the
// same names. With join=name,name and leave=name,name, shards are added and removed at the
// time at=2026-01-31T12:00:00Z: see shardbroker.New. Open fails unless all shards answer.
//
// Percent-encode special characters in any part. Errors about a URL never quote any
// part of it. Errors of connecting can name host, user and database, never a password.
package backends

import (
	"context"
	"time"

	"github.com/seed81422ce9/jobs/backends/filebroker"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

// Open opens the broker that url asks for; see the package comment for the
// forms. Closing the broker closes the connections that Open made. If the error
// is ErrInvalid, it names the part of the URL that is wrong. Other errors come
// from the backend's New, which connects to the store. Open creates no schema;
// see Migrate. To use what a backend can do beyond Broker, call
// broker.As[*pgbroker.Broker](b).
func Open(ctx context.Context, url string) (broker.Broker, error) {
	l, err := parse(url)
	if err != nil {
		return nil, err
	}
	return open(ctx, l)
}

func open(ctx context.Context, l location) (broker.Broker, error) {
	switch l.backend() {
	case shardsBackend:
		return openShards(ctx, l)
	case redisBackend:
		return openRedis(ctx, l)
	case postgresBackend:
		return openPostgres(ctx, l)
	case fileBackend:
		b, err := filebroker.Open(l.path)
		if err != nil {
			return nil, err // not b: an interface with a nil *filebroker.Broker is not nil
		}
		return b, nil
	}
	if l.authority+l.path != "" || len(l.params) > 0 {
		return nil, refuse("memory", "names something behind memory://; a store in memory has no name and no parameters")
	}
	return membroker.New(), nil
}

// Migrate prepares the store that url asks for: in PostgreSQL it creates the
// schema and its tables, or brings them up to date; other stores need nothing.
// Running it again, or in several processes at once, does no harm.
func Migrate(ctx context.Context, url string) error {
	l, err := parse(url)
	switch {
	case err != nil:
		return err
	case l.backend() == shardsBackend:
		return migrateShards(ctx, l)
	case l.backend() != postgresBackend:
		return nil
	}
	return migratePostgres(ctx, l)
}

type backend int

const (
	memoryBackend backend = iota
	redisBackend
	postgresBackend
	shardsBackend
	fileBackend
)

// schemes are the accepted schemes.
var schemes = map[string]backend{
	"memory": memoryBackend, "file": fileBackend,
	"redis": redisBackend, "rediss": redisBackend, "redis+unix": redisBackend,
	"redis+cluster": redisBackend, "rediss+cluster": redisBackend, "redis+sentinel": redisBackend, "rediss+sentinel": redisBackend,
	"postgres": postgresBackend, "postgresql": postgresBackend,
	"shards": shardsBackend,
}

func (l *location) backend() backend { return schemes[l.scheme] }

// owned is a broker together with the connections that Open made for it.
type owned struct {
	broker.Broker
	close func()
}

// Unwrap returns the broker of the backend's own type, see broker.As.
func (o *owned) Unwrap() broker.Broker { return o.Broker }

// Close closes the broker and its connections. It returns after broker.MaxClose at the
// latest, since a pool waits for its connections even if the store cannot be reached.
func (o *owned) Close() error {
	end := time.After(broker.MaxClose)
	err := o.Broker.Close()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		o.close()
	}()
	select {
	case <-closed:
	case <-end:
	}
	return err
}
