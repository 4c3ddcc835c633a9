// Package servers provides the Redis and PostgreSQL servers that tests need,
// in the first of three ways that works: URLs from the environment, Docker
// containers, server programs of this machine. JOBS_TEST_SERVERS=env, docker
// or local forces one. Each server is started at its first use and shared by
// the whole process; Stop ends them all, and so does the end of the process.
//
// Tests use package testenv, which wraps this one.
package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// startTimeout bounds the start of one server, including the download of an image.
const startTimeout = 2 * time.Minute

// Environment variables that name running servers.
const (
	EnvRedis         = "JOBS_TEST_REDIS"          // redis:// URL
	EnvRedisCluster  = "JOBS_TEST_REDIS_CLUSTER"  // host:port of every node, separated by commas
	EnvRedisSentinel = "JOBS_TEST_REDIS_SENTINEL" // host:port of a sentinel whose master "main" is the server of JOBS_TEST_REDIS
	EnvPostgres      = "JOBS_TEST_POSTGRES"       // postgres:// URL of a user that may create databases and schemas
	EnvPgBouncer     = "JOBS_TEST_PGBOUNCER"      // postgres:// URL of a pgbouncer that pools transactions
	EnvWay           = "JOBS_TEST_SERVERS"        // env, docker or local: use this way alone
)

// Redis returns the URL of a Redis server for this process, or of the one that the environment names.
func Redis() (string, error) { return redisServer() }

// RedisCluster returns the addresses of a Redis Cluster of three masters.
func RedisCluster() ([]string, error) { return redisCluster() }

// RedisSentinel returns the address of a sentinel whose master SentinelMaster
// is the server of Redis.
func RedisSentinel() (string, error) { return redisSentinel() }

// Postgres returns the URL of a database on a PostgreSQL server, with a user
// that may create databases and schemas.
func Postgres() (string, error) { return postgresServer() }

// PgBouncer returns a URL for the database of Postgres through a pgbouncer with transaction pooling.
func PgBouncer() (string, error) { return pgbouncer() }

var (
	redisServer = sync.OnceValues(func() (string, error) {
		return provide("Redis", EnvRedis, dockerRedis, localRedis)
	})
	postgresServer = sync.OnceValues(func() (string, error) {
		return provide("PostgreSQL", EnvPostgres, dockerPostgres, localPostgres)
	})
	// There is no published image of these that is ready to use.
	redisSentinel = sync.OnceValues(func() (string, error) {
		return provide("Redis Sentinel", EnvRedisSentinel, nil, localSentinel)
	})
	redisCluster = sync.OnceValues(func() ([]string, error) {
		nodes, err := provide("Redis Cluster", EnvRedisCluster, nil, localRedisCluster)
		return strings.Split(nodes, ","), err
	})
	pgbouncer = sync.OnceValues(func() (string, error) {
		return provide("pgbouncer", EnvPgBouncer, nil, localPgBouncer)
	})
)

type start func(context.Context) (string, error)

// provide tries the ways in their order. docker may be nil. If all fail, its error names each way, so
// that a reader can choose one.
func provide(what, env string, docker, local start) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	way := os.Getenv(EnvWay)
	url := os.Getenv(env)
	var failed []error
	switch {
	case way != "" && way != "env" && way != "docker" && way != "local":
		return "", fmt.Errorf("%s is %q; use env, docker or local, or leave it unset", EnvWay, way)
	case url != "" && (way == "" || way == "env"):
		return url, nil
	}
	if docker != nil && (way == "" || way == "docker") {
		url, err := docker(ctx)
		if err == nil {
			return url, nil
		}
		failed = append(failed, fmt.Errorf("docker: %w", err))
	}
	// Servers without an image are local with docker as well.
	if way == "" || way == "local" || way == "docker" && docker == nil {
		url, err := local(ctx)
		if err == nil {
			return url, nil
		}
		failed = append(failed, fmt.Errorf("local: %w", err))
	}
	return "", fmt.Errorf("no %s server for tests: set %s to the URL of one, or start Docker, or install the Debian packages "+
		"redis-server, postgresql and pgbouncer (`make setup`): %w", what, env, errors.Join(failed...))
}

var stops struct {
	sync.Mutex
	list []func()
}

// atStop registers f for Stop.
func atStop(f func()) {
	stops.Lock()
	defer stops.Unlock()
	stops.list = append(stops.list, f)
}

// AtStop registers f for Stop, for what must last as long as the servers.
func AtStop(f func()) { atStop(f) }

// Stop ends every server that this process started, newest first. No function of this package may be
// called afterwards.
func Stop() {
	stops.Lock()
	defer stops.Unlock()
	for len(stops.list) > 0 {
		last := len(stops.list) - 1
		stops.list[last]()
		stops.list = stops.list[:last]
	}
}

// poll calls ready until it returns nil. It returns the last error of ready if ctx ends or the process
// dies. A nil process never dies.
func poll(ctx context.Context, p *Process, ready func(context.Context) error) error {
	for {
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := ready(try)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("not ready in time: %w", err)
		}
		if p.diedWithin(pollEvery) {
			return fmt.Errorf("ended at once: %w", err)
		}
	}
}

const pollEvery = 20 * time.Millisecond
