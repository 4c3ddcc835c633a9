package backends_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
	"github.com/seed81422ce9/jobs/internal/testenv/servers"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestOpen_EveryKindOfURLOpensAStore(t *testing.T) {
	t.Parallel()
	for name, place := range map[string]func(t *testing.T) string{
		"memory":  func(*testing.T) string { return "memory://" },
		"file":    func(t *testing.T) string { return "file:" + t.TempDir() + "/jobs%20of%20today.db" },
		"file://": func(t *testing.T) string { return "file://" + t.TempDir() + "/jobs.db" },
		"shards": func(t *testing.T) string {
			q := url.Values{"north": {testenv.RedisPlace(t)}, "south": {testenv.PostgresPlace(t)}, "west": {"memory://"},
				"leave": {"west"}, "at": {"2026-01-31T12:00:00Z"}}
			return "shards://?" + q.Encode()
		},
		"redis": func(t *testing.T) string { return testenv.RedisPlace(t) },
		"redis+cluster": func(t *testing.T) string {
			nodes := testenv.RedisCluster(t)
			q := url.Values{"prefix": {testenv.Name(t)}, "addr": nodes[1:]}
			return "redis+cluster://" + nodes[0] + "?" + q.Encode()
		},
		"redis+sentinel": func(t *testing.T) string {
			q := url.Values{"prefix": {testenv.Name(t)}, "master_name": {servers.SentinelMaster}}
			return "redis+sentinel://" + testenv.RedisSentinel(t) + "?" + q.Encode()
		},
		"postgres": func(t *testing.T) string { return testenv.PostgresPlace(t) },
		"postgresql": func(t *testing.T) string {
			return strings.Replace(testenv.PostgresPlace(t), "postgres://", "postgresql://", 1)
		},
		"pgbouncer": pgBouncerPlace,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			useAndClose(t, place(t))
		})
	}
}

// pgBouncerPlace returns the URL of a schema behind a PgBouncer.
func pgBouncerPlace(t *testing.T) string {
	direct := testenv.PostgresPlace(t)
	if err := backends.Migrate(t.Context(), direct); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	pooled := testenv.WithParam(t, testenv.PgBouncer(t), "schema", u.Query().Get("schema"))
	return testenv.WithParam(t, pooled, "poll_only", "true")
}

// useAndClose takes a job through a store that is opened twice.
func useAndClose(t *testing.T, url string) {
	t.Helper()
	if err := backends.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	b, err := backends.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Ping(t.Context()); err != nil {
		t.Errorf("ping: %v", err)
	}
	enqueue(t, b, "a")
	if got := queues(t, b); got != "a" {
		t.Errorf("the store has the queues %q, want a", got)
	}
	other, err := backends.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	want := "a"
	if url == "memory://" {
		want = "" // a store of its own
	}
	if got := queues(t, other); got != want {
		t.Errorf("opened a second time the store has the queues %q, want %q", got, want)
	}
	for range 2 {
		if err := errors.Join(b.Close(), other.Close()); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if _, err := b.Ping(t.Context()); !errors.Is(err, broker.ErrClosed) {
		t.Errorf("after its close the broker answers a ping with %v, want ErrClosed", err)
	}
}

func TestOpen_PrefixesAndSchemasKeepStoresApart(t *testing.T) {
	t.Parallel()
	for name, place := range map[string]func(testing.TB) string{"redis": testenv.RedisPlace, "postgres": testenv.PostgresPlace} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stores []broker.Broker
			for range 2 {
				url := place(t)
				if err := backends.Migrate(t.Context(), url); err != nil {
					t.Fatal(err)
				}
				b, err := backends.Open(t.Context(), url)
				if err != nil {
					t.Fatal(err)
				}
				defer b.Close()
				stores = append(stores, b)
			}
			enqueue(t, stores[0], "mine")
			if got := queues(t, stores[1]); got != "" {
				t.Errorf("another prefix or schema shows the queues %q", got)
			}
		})
	}
}

func TestOpen_AURLSaysInHowManyBucketsTheBodiesOfRedisAre(t *testing.T) {
	t.Parallel()
	place := testenv.RedisPlace(t)
	b, err := backends.Open(t.Context(), place+"&buckets=3")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	enqueue(t, b, "mine")
	u, err := url.Parse(place)
	if err != nil {
		t.Fatal(err)
	}
	prefix := u.Query().Get("prefix")
	u.RawQuery = ""
	o, err := redis.ParseURL(u.String())
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(o)
	defer c.Close()
	records, err := c.Keys(t.Context(), prefix+":{*}:mine:m").Result()
	if err != nil || len(records) != 1 {
		t.Fatalf("the queue's record is %v, %v, want one key", records, err)
	}
	if n, err := c.HGet(t.Context(), records[0], "B").Int(); n != 3 || err != nil {
		t.Errorf("the queue has %d buckets, %v; want 3", n, err)
	}
}

func TestOpen_AStoreThatWasNotMigratedSaysSo(t *testing.T) {
	t.Parallel()
	b, err := backends.Open(t.Context(), testenv.PostgresPlace(t))
	if err == nil {
		b.Close()
		t.Fatal("a schema without tables was opened")
	}
	if !strings.Contains(strings.ToLower(err.Error()), "migrate") {
		t.Errorf("the error does not mention Migrate: %v", err)
	}
}

func TestOpen_ClosingAPostgresBrokerClosesItsConnections(t *testing.T) {
	t.Parallel()
	url := testenv.PostgresPlace(t)
	name := testenv.Name(t)
	if err := backends.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	b, err := backends.Open(t.Context(), testenv.WithParam(t, url, "application_name", name))
	if err != nil {
		t.Fatal(err)
	}
	enqueue(t, b, "a")
	c, err := pgx.Connect(t.Context(), testenv.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	connections := func() (n int) {
		if err := c.QueryRow(t.Context(), "select count(*) from pg_stat_activity where application_name = $1", name).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if connections() == 0 {
		t.Error("an open broker has no connection under the application_name of its URL")
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	// The server takes a moment to notice.
	for ctx := t.Context(); connections() > 0; {
		if _, err := c.Exec(ctx, "select pg_sleep(0.01)"); err != nil {
			t.Fatalf("connections are left after Close: %v", err)
		}
	}
}

func enqueue(t *testing.T, b broker.Broker, queue string) {
	t.Helper()
	receipts, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{{
		Queue: queue, ID: "1", Body: broker.Body{Type: "t", Priority: broker.PriorityNormal},
	}}})
	if err == nil {
		err = receipts[0].Err
	}
	if err != nil {
		t.Fatalf("enqueue: %v", err)
	}
}

// queues is the names of a store's queues.
func queues(t *testing.T, b broker.Broker) string {
	t.Helper()
	reply, err := b.Queues(t.Context(), broker.QueuesRequest{})
	if err != nil {
		t.Fatalf("queues: %v", err)
	}
	var names []string
	for _, q := range reply.Queues {
		names = append(names, q.Name)
	}
	return strings.Join(names, " ")
}
