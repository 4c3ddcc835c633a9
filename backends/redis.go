package backends

import (
	"context"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/backends/redisbroker"
	"github.com/seed81422ce9/jobs/broker"
)

// The parameters of Redis URLs besides prefix, buckets, replicas and replica_timeout. They
// are parameters of go-redis. Its other parameters would break the contract (retries of
// commands, reads from replicas) or have no use here.
var (
	redisParams    = []string{"client_name", "conn_max_idle_time", "conn_max_lifetime", "dial_timeout", "pool_size"}
	oneParams      = append([]string{"db", "skip_verify"}, redisParams...)
	clusterParams  = append([]string{"addr"}, redisParams...)
	sentinelParams = append([]string{"addr", "db", "master_name", "password", "skip_verify", "username"}, redisParams...)

	// setParams are parameters of go-redis that redisbroker sets itself.
	setParams = []string{"min_idle_conns", "pool_timeout", "protocol", "read_timeout", "write_timeout"}
)

// maxPoolSize is more connections than a Redis server accepts by default. go-redis allocates memory for each.
const maxPoolSize = 10_000

func openRedis(ctx context.Context, l location) (broker.Broker, error) {
	config := redisbroker.Config{Prefix: l.take("prefix")}
	if v := l.take("buckets"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil {
			return nil, refuse("parameter buckets", "is not a number; see redisbroker.Config")
		}
		config.Buckets = n
	}
	if v := l.take("replicas"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil {
			return nil, refuse("parameter replicas", "is not a number; see redisbroker.Config")
		}
		config.Replicas = n
	}
	if v := l.take("replica_timeout"); v != "" {
		d, err := time.ParseDuration(v)
		if err != nil {
			return nil, refuse("parameter replica_timeout", "is not a duration such as 500ms; see redisbroker.Config")
		}
		config.ReplicaTimeout = d
	}
	client, err := redisClient(l)
	if err != nil {
		return nil, err
	}
	b, err := redisbroker.New(ctx, client, config)
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	return &owned{b, func() { _ = client.Close() }}, nil
}

// RedisClient makes the client that a Redis URL asks for, without connecting. It is for
// programs that read something other than jobs from the server. It refuses the parameters
// of redisbroker (prefix, buckets, …). The caller closes the client.
func RedisClient(url string) (redis.UniversalClient, error) {
	l, err := parse(url)
	if err == nil && l.backend() != redisBackend {
		err = refuse("scheme", "is not one of Redis; write redis://host:port/database, or with redis+cluster or redis+sentinel")
	}
	if err != nil {
		return nil, err
	}
	return redisClient(l)
}

// redisClient makes the client that a Redis URL asks for, without connecting.
func redisClient(l location) (redis.UniversalClient, error) {
	scheme, kind, _ := strings.Cut(l.scheme, "+")
	switch kind {
	case "cluster":
		if l.path != "" {
			return nil, refuse("path", "names a database; a cluster has only one")
		}
		o, err := redisOptions(l, scheme, clusterParams, redis.ParseClusterURL)
		if err != nil {
			return nil, err
		}
		if err := checkPool(o.PoolSize, o.DialTimeout); err != nil {
			return nil, err
		}
		// A command whose reply was lost may have been executed, so the client must not repeat it by itself.
		o.MaxRetries = -1
		return redis.NewClusterClient(o), nil
	case "sentinel":
		if l.params.Get("master_name") == "" {
			return nil, refuse("parameter master_name", "is missing; give the name under which the sentinels know the master")
		}
		o, err := redisOptions(l, scheme, sentinelParams, redis.ParseFailoverURL)
		if err != nil {
			return nil, err
		}
		if err := checkPool(o.PoolSize, o.DialTimeout); err != nil {
			return nil, err
		}
		o.MaxRetries = -1
		return redis.NewFailoverClient(o), nil
	case "unix":
		scheme = "unix"
		if l.path == "" || l.authority != "" && !strings.HasSuffix(l.authority, "@") {
			return nil, refuse("path", "is missing, or a host is given; write redis+unix:///path/to/socket?db=0")
		}
	}
	o, err := redisOptions(l, scheme, oneParams, redis.ParseURL)
	if err != nil {
		return nil, err
	}
	if err := checkPool(o.PoolSize, o.DialTimeout); err != nil {
		return nil, err
	}
	o.MaxRetries = -1
	return redis.NewClient(o), nil
}

// checkPool refuses values with which go-redis panics or cannot connect. Zero means its default.
func checkPool(size int, dial time.Duration) error {
	switch {
	case size < 0 || size > maxPoolSize:
		return refuse("parameter pool_size", "is not from 1 to %d; leave it out for 10 per CPU", maxPoolSize)
	case dial < 0:
		return refuse("parameter dial_timeout", "is not more than zero; leave it out for 5s")
	}
	return nil
}

// redisOptions lets go-redis parse the URL. It replaces the error of go-redis, which may
// quote the URL.
func redisOptions[T any](l location, scheme string, known []string, parse func(string) (*T, error)) (*T, error) {
	for _, name := range setParams {
		if l.params.Has(name) {
			return nil, refuse("parameter "+name, "has no effect, since redisbroker sets it; leave it out")
		}
	}
	if err := l.only(known); err != nil {
		return nil, err
	}
	o, err := parse(l.url(scheme, l.params))
	if err == nil {
		return o, nil
	}
	part := l.blame(known, func(q url.Values) bool {
		_, err := parse(l.url(scheme, q))
		return err == nil
	})
	return nil, refuse(part, "is not understood; write %s://user:password@host:port/database?prefix=jobs, "+
		"special characters percent-encoded", l.scheme)
}
