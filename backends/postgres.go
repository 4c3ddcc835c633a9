package backends

import (
	"context"
	"maps"
	"net/url"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed81422ce9/jobs/backends/pgbroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/deadconn"
)

// postgresParams are the parameters that the driver itself reads, so that an error can
// name the one with a bad value. All others are settings of the session, which the
// server checks.
var postgresParams = []string{
	"channel_binding", "connect_timeout", "default_query_exec_mode", "description_cache_capacity", "host", "krbspn", "krbsrvname",
	"max_protocol_version", "min_protocol_version", "passfile", "password", "pool_health_check_period", "pool_max_conn_idle_time",
	"pool_max_conn_lifetime", "pool_max_conn_lifetime_jitter", "pool_max_conns", "pool_min_conns", "pool_min_idle_conns",
	"pool_ping_timeout", "port", "require_auth", "service", "servicefile", "sslcert", "sslcertmode", "sslkey", "sslmode",
	"sslnegotiation", "sslpassword", "sslrootcert", "sslsni", "statement_cache_capacity", "target_session_attrs", "user",
}

func openPostgres(ctx context.Context, l location) (broker.Broker, error) {
	config := pgbroker.Config{Schema: l.take("schema")}
	var err error
	if config.PollOnly, err = l.takeBool("poll_only"); err != nil {
		return nil, err
	}
	if config.Listen, err = l.listenAt(l.take("listen")); err != nil {
		return nil, err
	}
	pool, err := newPool(ctx, l)
	if err != nil {
		return nil, err
	}
	b, err := pgbroker.New(ctx, pool, config)
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &owned{b, pool.Close}, nil
}

func migratePostgres(ctx context.Context, l location) error {
	schema := l.take("schema")
	if _, err := l.takeBool("poll_only"); err != nil {
		return err
	}
	l.take("listen")
	pool, err := newPool(ctx, l)
	if err != nil {
		return err
	}
	defer pool.Close()
	return pgbroker.Migrate(ctx, pool, schema)
}

// PostgresPool makes the pool that a Postgres URL asks for, and also returns the URL's
// schema. It is for programs that read something other than jobs from the database. The
// caller closes the pool.
func PostgresPool(ctx context.Context, url string) (pool *pgxpool.Pool, schema string, err error) {
	l, err := parse(url)
	if err == nil && l.backend() != postgresBackend {
		err = refuse("scheme", "is not one of Postgres; write postgres://user:password@host:port/database?schema=…")
	}
	if err != nil {
		return nil, "", err
	}
	schema = l.take("schema")
	l.take("poll_only")
	l.take("listen")
	pool, err = newPool(ctx, l)
	return pool, schema, err
}

func newPool(ctx context.Context, l location) (*pgxpool.Pool, error) {
	config, err := poolConfig(l)
	if err != nil {
		return nil, err
	}
	deadconn.Bound(config)
	return pgxpool.NewWithConfig(ctx, config)
}

// poolConfig lets pgx parse a PostgreSQL URL. It replaces the error of pgx, which quotes
// the URL.
func poolConfig(l location) (*pgxpool.Config, error) {
	if err := l.spelt(postgresParams); err != nil {
		return nil, err
	}
	c, err := pgxpool.ParseConfig(l.url("postgres", l.params))
	if err == nil {
		// The driver requires UTF8, which is not the default of a database in SQL_ASCII.
		c.ConnConfig.RuntimeParams["client_encoding"] = "UTF8"
		return c, nil
	}
	part := l.blame(postgresParams, func(q url.Values) bool {
		_, err := pgxpool.ParseConfig(l.url("postgres", q))
		return err == nil
	})
	return nil, refuse(part, "is not understood; write postgres://user:password@host:port/database?sslmode=require&schema=jobs, "+
		"special characters percent-encoded")
}

// listenAt returns the URL with its hosts replaced; empty if hosts is empty.
func (l *location) listenAt(hosts string) (string, error) {
	if hosts == "" {
		return "", nil
	}
	at := *l
	at.authority = hosts
	if i := strings.LastIndexByte(l.authority, '@'); i >= 0 {
		at.authority = l.authority[:i+1] + hosts
	}
	if strings.Contains(hosts, "/") || !validPorts(at.authority) {
		return "", refuse("parameter listen", "is no host; write host:port, several separated by commas")
	}
	params := maps.Clone(l.params)
	maps.DeleteFunc(params, func(name string, _ []string) bool { return strings.HasPrefix(name, "pool_") })
	return at.url("postgres", params), nil
}

// takeBool removes a boolean parameter and returns its value; false if it is missing.
func (l *location) takeBool(name string) (bool, error) {
	v := l.take(name)
	if v == "" {
		return false, nil
	}
	b, err := strconv.ParseBool(v)
	if err != nil {
		return false, refuse("parameter "+name, "is neither true nor false")
	}
	return b, nil
}
