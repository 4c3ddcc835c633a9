// Package testenv gives tests servers and names. The first use of a server starts
// it. All tests of the binary share it, and it ends with the binary. Package servers
// decides where servers come from. A test that cannot have its server fails; no test
// is skipped.
//
// Since tests share servers, each test uses a prefix or a schema from Name.
package testenv

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed81422ce9/jobs/internal/testenv/servers"
)

// Main runs a package's tests, stops the servers, and fails when goroutines
// are left over:
//
//	func TestMain(m *testing.M) { testenv.Main(m) }
//
// It does not return.
func Main(m *testing.M, ignore ...goleak.Option) {
	code := m.Run()
	servers.Stop()
	if code == 0 {
		if err := goleak.Find(ignore...); err != nil {
			fmt.Fprintf(os.Stderr, "goroutines left over after all tests: %v\n", err)
			code = 1
		}
	}
	os.Exit(code)
}

// Redis returns the redis:// URL of a Redis server.
func Redis(tb testing.TB) string {
	tb.Helper()
	return must(tb, servers.Redis)
}

// RedisCluster returns the host:port addresses of a Redis Cluster of three
// masters.
func RedisCluster(tb testing.TB) []string {
	tb.Helper()
	return must(tb, servers.RedisCluster)
}

// RedisSentinel returns the host:port address of a sentinel. Its master servers.SentinelMaster is the
// server of Redis.
func RedisSentinel(tb testing.TB) string {
	tb.Helper()
	return must(tb, servers.RedisSentinel)
}

// Postgres returns the postgres:// URL of a database on a PostgreSQL server.
// Its user may create schemas and databases.
func Postgres(tb testing.TB) string {
	tb.Helper()
	return must(tb, servers.Postgres)
}

// PgBouncer returns a postgres:// URL for the database of Postgres through a pgbouncer with
// transaction pooling.
func PgBouncer(tb testing.TB) string {
	tb.Helper()
	return must(tb, servers.PgBouncer)
}

// PrivateRedis returns a Redis server for this test alone. It can be killed and restarted without
// losing data.
func PrivateRedis(tb testing.TB) *servers.Private {
	tb.Helper()
	s := must(tb, servers.PrivateRedis)
	tb.Cleanup(s.Stop)
	return s
}

// PrivateRedisGroup returns a Redis master, a replica and a sentinel for this test
// alone.
func PrivateRedisGroup(tb testing.TB) *servers.Group {
	tb.Helper()
	g := must(tb, servers.PrivateGroup)
	tb.Cleanup(g.Stop)
	return g
}

// PrivatePostgres returns a PostgreSQL server for this test alone. It can be killed and restarted
// without losing data.
func PrivatePostgres(tb testing.TB) *servers.Private {
	tb.Helper()
	s := must(tb, servers.PrivatePostgres)
	tb.Cleanup(s.Stop)
	return s
}

func must[T any](tb testing.TB, get func() (T, error)) T {
	tb.Helper()
	v, err := get()
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

// Name returns a name that no other call returns, in this process or another. It has at most 41
// lower-case letters, digits and underscores, and begins with the name of the test. It can be a key
// prefix, a schema, a queue or a database.
func Name(tb testing.TB) string {
	var random [6]byte
	rand.Read(random[:])
	readable := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			return r
		case 'A' <= r && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '_'
	}, strings.TrimPrefix(tb.Name(), "Test"))
	return fmt.Sprintf("t_%.26s_%s", readable, hex.EncodeToString(random[:]))
}
