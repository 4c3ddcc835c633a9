package backends

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
)

func TestUrl_ABadURLIsRefusedWithThePartThatIsToBlame(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ url, part string }{
		{"", "scheme"},
		{"redis", "scheme"},
		{"localhost:6379", "scheme"},
		{"mysql://localhost/db", "scheme"},
		{"redis+tls://localhost", "scheme"},
		{"postgres+unix://localhost", "scheme"},
		{"memory+cluster://", "scheme"},
		{"memory://shared", "memory"},
		{"memory:///x", "memory"},
		{"memory://?prefix=x", "memory"},
		{"file:", "file"},
		{"file://", "file"},
		{"file://jobs.db", "file"},
		{"file:jobs.db?mode=ro", "file"},
		{"file:jobs%.db", "file"},

		{"redis://localhost:port", "port"},
		{"redis://localhost:0", "port"},
		{"redis://localhost:65536", "port"},
		{"redis://localhost:6379:6380", "port"},
		{"redis://[::1]:port", "port"},
		{"redis://localhost/jobs", "path"},
		{"redis://localhost/1/2", "path"},
		{"redis://local host", "host"},
		{"redis://localhost?db=one", "parameter db"},
		{"redis://localhost?pool_size=many", "parameter pool_size"},
		{"redis://localhost?dial_timeout=soon", "parameter dial_timeout"},
		{"redis://localhost?dial_timeout=0", "parameter dial_timeout"},
		{"redis://localhost?pool_size=-1", "parameter pool_size"},
		{"redis://localhost?pool_size=10001", "parameter pool_size"},
		{"redis+cluster://localhost?pool_size=-1", "parameter pool_size"},
		{"redis+sentinel://localhost?master_name=m&pool_size=-1", "parameter pool_size"},
		{"redis://localhost?read_timeout=3s", "parameter read_timeout"},
		{"redis://localhost?min_idle_conns=3", "parameter min_idle_conns"},
		{"redis://localhost?max_retries=3", "parameters"}, // a choice that is not the user's
		{"redis://localhost?buckets=many", "parameter buckets"},
		{"redis://localhost?buckets=65", "buckets"},
		{"redis://localhost?replicas=some", "parameter replicas"},
		{"redis://localhost?replicas=-1", "replicas"},
		{"redis://localhost?replica_timeout=1", "parameter replica_timeout"},
		{"redis://localhost?replica_timeout=1m", "replica timeout"},
		{"redis://localhost?color=red", "parameters"},
		{"redis://localhost?poolsize=5", "parameter pool_size"},
		{"redis://localhost?Dial_Timout=5s", "parameter dial_timeout"},
		{"redis://localhost?prefx=a", "parameter prefix"},
		{"redis://localhost?Bucket=8", "parameter buckets"},
		{"redis://localhost?prefix=a&prefix=b", "parameters"},
		{"redis://localhost?pre%zzfix=a", "parameters"},
		{"redis://localhost?prefix=a#fragment", "percent-encode"},
		{"redis://user:a@b@localhost", "percent-encode"},
		{"postgres://user:a/b@localhost", "percent-encode"},
		{"redis+unix://", "path"},
		{"redis+unix://localhost/tmp/socket", "path"},
		{"redis+cluster://localhost:7000/3", "path"},
		{"redis+cluster://localhost:7000?addr=localhost", "parameter addr"},
		{"redis+sentinel://localhost:26379", "master_name"},
		{"redis+sentinel://localhost:26379?master_name=m&addr=x", "parameter addr"},

		{"postgres://localhost:port/db", "port"},
		{"postgres://localhost,other:port/db", "port"},
		{"postgres://localhost/db?sslmode=sometimes", "parameter sslmode"},
		{"postgres://localhost/db?pool_max_conns=none", "parameter pool_max_conns"},
		{"postgres://localhost/db?connect_timeout=soon", "parameter connect_timeout"},
		{"postgres://localhost/db?schem=jobs", "parameter schema"},
		{"postgres://localhost/db?pool_maxconns=4", "parameter pool_max_conns"},
		{"postgres://localhost/db?poll_only=perhaps", "parameter poll_only"},
		{"postgres://localhost/db?poll_only=true&listen=a:b", "parameter listen"},
		{"postgres://localhost/db?poll_only=true&listen=a/b", "parameter listen"},
		{"postgres://%zz@localhost/db", "user"},

		{"shards://", "parameters"},
		{"shards://host?a=memory%3A%2F%2F", "host"},
		{"shards://?a=memory", "shard 1"},
		{"shards://?b=memory%3A%2F%2F&a=shards%3A%2F%2F%3Fc%3Dmemory%253A%252F%252F", "shard 1"},
		{"shards://?a=memory%3A%2F%2F&b=redis%3A%2F%2Flocalhost%3Aport", "port"},
		{"shards://?a=memory%3A%2F%2F&b=memory%3A%2F%2F&join=b", "parameter at"},
		{"shards://?a=memory%3A%2F%2F&b=memory%3A%2F%2F&join=b&at=soon", "parameter at"},
		{"shards://?a=memory%3A%2F%2F&b=memory%3A%2F%2F&leave=c&at=2026-01-31T12:00:00Z", "parameter leave"},
		{"shards://?a=memory%3A%2F%2F&b=memory%3A%2F%2F&joined=c", "parameter joined"},
		{"shards://?a=memory%3A%2F%2F&joined=a", "marks"},
		{"shards://?a=redis%3A%2F%2Flocalhost&b=memory%3A%2F%2F&c=redis%3A%2F%2Flocalhost", "shard 3"},
		{"shards://?a=memory%3A%2F%2F&leave=a&at=2026-01-31T12:00:00Z", "shards"},
	} {
		b, err := Open(t.Context(), c.url)
		if err == nil {
			b.Close()
			t.Errorf("%s was accepted", c.url)
			continue
		}
		if !errors.Is(err, broker.ErrInvalid) || !strings.Contains(err.Error(), c.part) {
			t.Errorf("%s: the error %q is not ErrInvalid or does not name %q", c.url, err, c.part)
		}
	}
}

func TestUrl_AnErrorNeverTellsAPassword(t *testing.T) {
	t.Parallel()
	const left, right = "hunter", "twosecret"
	urls := []string{left + right, left + ":" + right + "@localhost", left + right + "://localhost", "redis:" + left + right,
		"user:" + left + "@tcp(" + right + ")/db"}
	for _, scheme := range []string{"redis", "rediss", "redis+unix", "redis+cluster", "redis+sentinel", "postgres", "postgresql", "shards",
		"memory", "mysql"} {
		for _, special := range []string{"", "/", "?", "#", "@", ":", "%", "%zz", " ", "\n", "\x00", "\xff", "&", "=", "[", "]", ";", `\`} {
			password := left + special + right
			for _, form := range []string{
				"%s://user:%s@localhost:port/0?master_name=m",
				"%s://user:%s@localhost/0?pool_size=x&pool_max_conns=x&master_name=m",
				"%s://%s@local host:1/x",
				"%s://localhost:%s",
				"%s://localhost:%s@1/db",
				"%s://localhost/%s/x?nosuch=1&sslmode=x",
				"%s://localhost:1/0?%s",
				"%s://localhost/0?password=%s&pool_size=x&pool_max_conns=x&master_name=m",
				"%s://localhost/0?pool_size=%[2]s&pool_max_conns=%[2]s&master_name=m",
				"%s://localhost/0?addr=%s&master_name=m&sslmode=x",
				"%s://[%s]/0?sslmode=x&nosuch=1",
				"%s://user:%s",
				"%s://?%s=memory%%3A%%2F%%2F&%[2]s=%[2]s&at=%[2]s",
				"%s://?a=redis%%3A%%2F%%2Fuser%%3A%s%%40localhost%%3Aport",
			} {
				urls = append(urls, fmt.Sprintf(form, scheme, password))
			}
		}
	}
	refused := 0
	for _, url := range urls {
		if err := understand(url); err != nil {
			refused++
			checkSecret(t, url, err, left, right)
		}
	}
	if refused < len(urls)/2 {
		t.Errorf("only %d of %d URLs were refused; the test does not test what it should", refused, len(urls))
	}
	// What is accepted fails later: nothing answers at port 1 of this machine.
	for _, url := range []string{"redis://user:" + left + "@127.0.0.1:1", "postgres://user:" + left + "@127.0.0.1:1/db?sslpassword=" + right} {
		_, err := Open(t.Context(), url)
		checkSecret(t, url, err, left, right)
		if err := Migrate(t.Context(), url); err != nil {
			checkSecret(t, url, err, left, right)
		}
	}
}

// understand does what Open does before it connects.
func understand(url string) error {
	l, err := parse(url)
	if err != nil {
		return err
	}
	switch l.backend() {
	case redisBackend:
		var c redis.UniversalClient
		if c, err = redisClient(l); err == nil {
			c.Close()
		}
	case postgresBackend:
		_, err = poolConfig(l)
	case shardsBackend:
		_, err = l.shards()
	}
	return err
}

// checkSecret looks for parts of a password in an error and all it wraps.
func checkSecret(t *testing.T, url string, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%q was accepted", url)
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		for _, text := range []string{e.Error(), fmt.Sprintf("%+v", e), fmt.Sprintf("%#v", e)} {
			for _, part := range parts {
				if strings.Contains(text, part) {
					t.Errorf("for %q the error tells the secret: %s", url, text)
				}
			}
		}
	}
}

func TestUrl_RedisURLsSayWhatToConnectTo(t *testing.T) {
	t.Parallel()
	client := func(url string) redis.UniversalClient {
		t.Helper()
		l, err := parse(url)
		if err != nil {
			t.Fatal(err)
		}
		c, err := redisClient(l)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}

	one := client("rediss://me:p%40ss@[::1]:7777/5?pool_size=7&dial_timeout=3s&skip_verify=true").(*redis.Client).Options()
	if one.Addr != "[::1]:7777" || one.Username != "me" || one.Password != "p@ss" || one.DB != 5 || one.PoolSize != 7 ||
		one.DialTimeout != 3*time.Second || one.TLSConfig == nil || !one.TLSConfig.InsecureSkipVerify {
		t.Errorf("a single server: %+v", one)
	}
	unix := client("redis+unix://me:secret@/run/redis.sock?db=2").(*redis.Client).Options()
	if unix.Network != "unix" || unix.Addr != "/run/redis.sock" || unix.Password != "secret" || unix.DB != 2 {
		t.Errorf("a Unix socket: %+v", unix)
	}
	cluster := client("redis+cluster://me:secret@a:1?addr=b:2&addr=c:3").(*redis.ClusterClient).Options()
	if fmt.Sprint(cluster.Addrs) != "[a:1 b:2 c:3]" || cluster.Password != "secret" || cluster.TLSConfig != nil {
		t.Errorf("a cluster: %+v", cluster)
	}
	sentinel := client("redis+sentinel://sentinel:one@a:1/4?addr=b:2&master_name=m&username=me&password=two").(*redis.Client).Options()
	if sentinel.Username != "me" || sentinel.Password != "two" || sentinel.DB != 4 {
		t.Errorf("a master behind sentinels: %+v", sentinel)
	}
	// A command whose reply was lost must not be sent again by the client.
	for _, retries := range []int{one.MaxRetries, unix.MaxRetries, cluster.MaxRetries, sentinel.MaxRetries} {
		if retries > 0 {
			t.Errorf("a client sends commands up to %d times again; that must be off", retries)
		}
	}
}

func TestUrl_PostgresURLsSayWhatToConnectTo(t *testing.T) {
	t.Parallel()
	l, err := parse("postgresql://me:p%40ss@a:1,b:2/jobs?schema=s&poll_only=true&listen=c:3,d:4" +
		"&sslmode=disable&pool_max_conns=9&application_name=x")
	if err != nil {
		t.Fatal(err)
	}
	if schema := l.take("schema"); schema != "s" {
		t.Errorf("schema %q, want s", schema)
	}
	if poll, err := l.takeBool("poll_only"); !poll || err != nil {
		t.Errorf("poll_only %v, %v; want true", poll, err)
	}
	listen, err := l.listenAt(l.take("listen"))
	if want := "postgres://me:p%40ss@c:3,d:4/jobs?application_name=x&sslmode=disable"; listen != want || err != nil {
		t.Errorf("it listens at %q, %v; want %q", listen, err, want)
	}
	c, err := poolConfig(l)
	if err != nil {
		t.Fatal(err)
	}
	at := c.ConnConfig
	if at.Host != "a" || at.Port != 1 || len(at.Fallbacks) != 1 || at.Fallbacks[0].Host != "b" || at.Fallbacks[0].Port != 2 ||
		at.User != "me" || at.Password != "p@ss" || at.Database != "jobs" || c.MaxConns != 9 {
		t.Errorf("two servers: %s", c.ConnString())
	}
	if len(at.RuntimeParams) != 2 || at.RuntimeParams["application_name"] != "x" || at.RuntimeParams["client_encoding"] != "UTF8" {
		t.Errorf("settings of the session: %v, want application_name and the encoding alone", at.RuntimeParams)
	}
}

func TestOpen_NamesTheSchemesThatItKnows(t *testing.T) {
	t.Parallel()
	_, err := Open(t.Context(), "bolt://file")
	for _, scheme := range []string{"redis", "rediss", "redis+unix", "redis+cluster", "rediss+cluster", "redis+sentinel", "rediss+sentinel",
		"postgres", "postgresql", "shards", "memory"} {
		if !errors.Is(err, broker.ErrInvalid) || !strings.Contains(err.Error(), " "+scheme+"://") {
			t.Errorf("the error about an unknown scheme does not name %s: %v", scheme, err)
		}
	}
	if !strings.Contains(err.Error(), " file:") {
		t.Errorf("the error about an unknown scheme does not name file: %v", err)
	}
}

// A connection that silently died keeps its place in the pool for a bounded time.
func TestPostgresPool_ReplacesDeadConnectionsSoon(t *testing.T) {
	t.Parallel()
	for url, ping := range map[string]time.Duration{
		"postgres://localhost/db":                         2 * time.Second,
		"postgres://localhost/db?pool_ping_timeout=100ms": 100 * time.Millisecond,
	} {
		pool, _, err := PostgresPool(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		if c := pool.Config(); c.PingTimeout != ping || c.BeforeClose == nil {
			t.Errorf("%s: the pool has the ping timeout %v, want %v, and a bound for closing", url, c.PingTimeout, ping)
		}
		pool.Close()
	}
}
