package testenv

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
)

// RedisPlace returns a URL for package backends: a Redis server with a key prefix for this test. The
// keys are removed after the test.
func RedisPlace(tb testing.TB) string {
	tb.Helper()
	prefix := Name(tb)
	server := Redis(tb)
	tb.Cleanup(func() {
		options, err := redis.ParseURL(server)
		if err != nil {
			tb.Error(err)
			return
		}
		c := redis.NewClient(options)
		defer c.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		keys := c.Scan(ctx, 0, prefix+"*", 1000).Iterator()
		for keys.Next(ctx) {
			c.Unlink(ctx, keys.Val())
		}
		if err := keys.Err(); err != nil {
			tb.Errorf("removing the keys of the test: %v", err)
		}
	})
	return WithParam(tb, server, "prefix", prefix)
}

// PostgresPlace returns a URL for package backends: a Postgres database with a schema for this test.
// The schema is dropped after the test.
func PostgresPlace(tb testing.TB) string {
	tb.Helper()
	schema := Name(tb)
	server := Postgres(tb)
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		c, err := pgx.Connect(ctx, server)
		if err == nil {
			_, err = c.Exec(ctx, "drop schema if exists "+schema+" cascade")
			_ = c.Close(ctx)
		}
		if err != nil {
			tb.Errorf("dropping the schema of the test: %v", err)
		}
	})
	return WithParam(tb, server, "schema", schema)
}

// PostgresPool returns the name of a schema for this test, which the caller creates, and a pool of
// connections that look for tables there. The schema is dropped, and the pool closed, after the test.
func PostgresPool(tb testing.TB) (db *pgxpool.Pool, schema string) {
	tb.Helper()
	schema = Name(tb)
	config, err := pgxpool.ParseConfig(Postgres(tb))
	if err != nil {
		tb.Fatal(err)
	}
	config.ConnConfig.RuntimeParams["search_path"] = schema
	if db, err = pgxpool.NewWithConfig(context.Background(), config); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		defer db.Close()
		if _, err := db.Exec(context.Background(), "drop schema if exists "+schema+" cascade"); err != nil {
			tb.Errorf("dropping the schema of the test: %v", err)
		}
	})
	return db, schema
}

// WithParam returns a URL with one more parameter.
func WithParam(tb testing.TB, server, name, value string) string {
	tb.Helper()
	u, err := url.Parse(server)
	if err != nil {
		tb.Fatalf("the URL of a test server cannot be parsed")
	}
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}
