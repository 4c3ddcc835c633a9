package testenv_test

import (
	"context"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestTestenv_RedisAnswersAndIsShared(t *testing.T) {
	t.Parallel()
	url := testenv.Redis(t)
	options, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(options)
	defer c.Close()
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
	if again := testenv.Redis(t); again != url {
		t.Errorf("a second call gave %s, the first %s; a test binary must have one server", again, url)
	}
}

func TestTestenv_EveryNodeOfTheClusterServesItsSlots(t *testing.T) {
	t.Parallel()
	addrs := testenv.RedisCluster(t)
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	defer c.Close()
	for _, tag := range []string{"{a}", "{b}", "{c}", "{d}", "{e}", "{f}"} {
		key := testenv.Name(t) + tag
		if err := c.Set(t.Context(), key, tag, 0).Err(); err != nil {
			t.Errorf("set %s: %v", key, err)
		}
		c.Del(t.Context(), key)
	}
	var masters atomic.Int32
	err := c.ForEachMaster(t.Context(), func(context.Context, *redis.Client) error {
		masters.Add(1)
		return nil
	})
	if err != nil || len(addrs) >= 3 && masters.Load() < 3 {
		t.Errorf("the client found %d masters (error %v), want at least 3", masters.Load(), err)
	}
}

func TestTestenv_PostgresLetsTestsMakeSchemasAndDatabases(t *testing.T) {
	t.Parallel()
	c := connect(t, testenv.Postgres(t))
	name := testenv.Name(t)
	for _, statement := range []string{"create schema " + name, "drop schema " + name, "create database " + name, "drop database " + name} {
		if _, err := c.Exec(t.Context(), statement); err != nil {
			t.Errorf("%s: %v", statement, err)
		}
	}
}

func TestTestenv_PgBouncerPoolsTransactions(t *testing.T) {
	t.Parallel()
	schema := testenv.Name(t)
	direct := connect(t, testenv.Postgres(t))
	if _, err := direct.Exec(t.Context(), "create schema "+schema+" create table seen (pid int)"); err != nil {
		t.Fatal(err)
	}
	defer direct.Exec(context.Background(), "drop schema "+schema+" cascade")

	// Two clients without an open transaction take turns on one server
	// connection; a session pooler would give each its own.
	a, b := connect(t, testenv.PgBouncer(t)), connect(t, testenv.PgBouncer(t))
	for _, c := range []*pgx.Conn{a, b} {
		if _, err := c.Exec(t.Context(), "insert into "+schema+".seen values (pg_backend_pid())", pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	var servers int
	if err := direct.QueryRow(t.Context(), "select count(distinct pid) from "+schema+".seen").Scan(&servers); err != nil {
		t.Fatal(err)
	}
	if servers != 1 {
		t.Errorf("two idle clients used %d server connections; the pgbouncer does not pool transactions", servers)
	}
}

func TestTestenv_NamesAreUniqueAndFitEverywhere(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	fits := regexp.MustCompile(`^[a-z][a-z0-9_]{1,40}$`)
	for _, sub := range []string{"a", strings.Repeat("Long", 30), `odd / "name" é`} {
		t.Run(sub, func(t *testing.T) {
			for range 100 {
				name := testenv.Name(t)
				if seen[name] || !fits.MatchString(name) {
					t.Errorf("name %q was given before or does not match %v", name, fits)
				}
				seen[name] = true
			}
		})
	}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}
