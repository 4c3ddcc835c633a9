package redisbroker

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

func TestConformance_OnAServer(t *testing.T) {
	t.Parallel()
	onServer(t, Config{})
}

// The groups of the suite that each test run checks with other configurations. The whole
// suite would take longer than everything else together.
var (
	bodiesGroups = []string{"Claim", "Settle", "Data", "Edit"}
	nodesGroups  = []string{"Claim", "Many", "Settle", "Wake", "Watch", "Fault", "Mark"}
	toyGroups    = []string{"Totals"}
)

func TestConformance_OnAServerWithOneBucket(t *testing.T) {
	t.Parallel()
	onServer(t, Config{Buckets: 1}, bodiesGroups...) // place makes claims of two queues look first
}

func onServer(t *testing.T, config Config, groups ...string) {
	options, err := redis.ParseURL(testenv.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	conformance.Run(t, func(tb conformance.TB) *conformance.Store {
		prefix := placeName(tb)
		o := *options
		o.ClientName = prefix
		return place(tb, prefix, config, redis.NewClient(&o))
	}, groups...)
}

func TestConformance_OnACluster(t *testing.T) {
	t.Parallel()
	addrs := testenv.RedisCluster(t)
	conformance.Run(t, func(tb conformance.TB) *conformance.Store {
		prefix := placeName(tb)
		return place(tb, prefix, Config{}, redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ClientName: prefix}))
	}, nodesGroups...)
}

// hasty does not wait. A server forgets a waiting claim whose connection is closed, but
// miniredis, which has no CLIENT UNBLOCK either, still runs it and loses the jobs. So
// claims cannot wait there, and the suite checks that waits are declined.
type hasty struct{ broker.Broker }

func (h hasty) Limits() broker.Limits {
	l := h.Broker.Limits()
	l.NoWait = true
	return l
}

func (h hasty) Claim(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
	if req.Check() == nil {
		req.Wait = 0
	}
	return h.Broker.Claim(ctx, req)
}

// Miniredis passes the suite without two parts, which need waiting claims, see hasty,
// and a list of connections to close.
func TestConformance_OnMiniredis(t *testing.T) {
	t.Parallel()
	conformance.Run(t, func(tb conformance.TB) *conformance.Store {
		server := miniredis.NewMiniRedis()
		if err := server.Start(); err != nil {
			tb.Fatalf("miniredis: %v", err)
		}
		tb.Cleanup(server.Close)
		s := place(tb, "jobs", Config{}, redis.NewClient(&redis.Options{Addr: server.Addr()}))
		s.Bounce = nil // it knows no CLIENT LIST
		waiting := s.Open
		s.Open = func(tb conformance.TB) broker.Broker { return hasty{waiting(tb)} }
		return s
	}, toyGroups...)
}

func placeName(tb conformance.TB) string {
	named, ok := tb.(testing.TB)
	if !ok {
		return "judge"
	}
	return testenv.Name(named)
}

// place returns an empty store: a prefix of its own.
func place(tb conformance.TB, prefix string, config Config, client redis.UniversalClient) *conformance.Store {
	tb.Cleanup(func() { _ = client.Close() })
	config.Prefix = prefix
	config.Logger = slog.New(slog.DiscardHandler)
	key := func(queue, x string) string { return baseOf(prefix, queue) + x }
	return &conformance.Store{
		Open: func(tb conformance.TB) broker.Broker {
			b, err := New(context.Background(), client, config)
			if err != nil {
				tb.Fatalf("New: %v", err)
			}
			if _, cluster := client.(*redis.ClusterClient); cluster || config.Buckets == 1 {
				b.few = 1 // claims of two queues look at them first
			}
			return b
		},
		Bounce: func(tb conformance.TB) { bounce(tb, client, prefix) },
		Dump:   func() string { return dump(client, prefix) },
		PlantLayout: func(tb conformance.TB, queue string) {
			plant(tb, client.HSet(context.Background(), key(queue, "m"), "v", layoutVersion+1).Err())
			plant(tb, client.Del(context.Background(), key(queue, plainKey(cmp.Or(config.Buckets, defaultBuckets)))).Err())
		},
		PlantBody: func(tb conformance.TB, queue, id string, body []byte) {
			ctx := context.Background()
			n, err := client.HGet(ctx, key(queue, "m"), "B").Int()
			plant(tb, err)
			bucket, old := "", ""
			for i := range n {
				if there, err := client.HGet(ctx, key(queue, "b"+strconv.Itoa(i)), id).Result(); err == nil {
					bucket, old = key(queue, "b"+strconv.Itoa(i)), there
				}
			}
			if len(body) > 0 {
				body = append([]byte(old[:createdSize]), body...)
			}
			plant(tb, client.HSet(ctx, bucket, id, body).Err())
		},
	}
}

func plant(tb conformance.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatalf("changing what is stored: %v", err)
	}
}

// eachServer calls f for each server, one after the other.
func eachServer(client redis.UniversalClient, f func(*redis.Client) error) error {
	switch c := client.(type) {
	case *redis.ClusterClient:
		var mu sync.Mutex
		return c.ForEachMaster(context.Background(), func(_ context.Context, node *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			return f(node)
		})
	case *redis.Client:
		return f(c)
	}
	return fmt.Errorf("a %T", client)
}

// bounce closes the connections that have a client name.
func bounce(tb conformance.TB, client redis.UniversalClient, name string) {
	ctx := context.Background()
	err := eachServer(client, func(node *redis.Client) error {
		list, err := node.ClientList(ctx).Result()
		if err != nil {
			return err
		}
		for line := range strings.Lines(list) {
			fields := strings.Fields(line)
			if id, ok := strings.CutPrefix(fields[0], "id="); ok && slices.Contains(fields, "name="+name) {
				// Our own connection is among them, and may be the first to go.
				_ = node.ClientKillByFilter(ctx, "ID", id).Err()
			}
		}
		return nil
	})
	if err != nil {
		tb.Fatalf("listing connections: %v", err)
	}
}

// filler is the entry that keeps a structure out of its compact form.
var filler = strings.Repeat("\x00", 65)

// dump returns the keys of a prefix and their contents as text.
func dump(client redis.UniversalClient, prefix string) string {
	var out strings.Builder
	err := walk(client, prefix, func(node *redis.Client, key, kind string) error {
		ctx := context.Background()
		var v any
		var err error
		switch kind {
		case "hash":
			v, err = node.HGetAll(ctx, key).Result()
		case "zset":
			v, err = node.ZRangeWithScores(ctx, key, 0, -1).Result()
		case "list":
			v, err = node.LRange(ctx, key, 0, -1).Result()
		case "set":
			v, err = node.SMembers(ctx, key).Result()
		default:
			v, err = node.Get(ctx, key).Result()
		}
		fmt.Fprintf(&out, "%s %s %.4000q\n", key, kind, strings.ReplaceAll(fmt.Sprint(v), filler, "guard"))
		return err
	})
	if err != nil {
		fmt.Fprintln(&out, err)
	}
	return out.String()
}

// walk calls f for each key of a prefix.
func walk(client redis.UniversalClient, prefix string, f func(node *redis.Client, key, kind string) error) error {
	ctx := context.Background()
	return eachServer(client, func(node *redis.Client) error {
		keys := node.Scan(ctx, 0, prefix+":*", 1000).Iterator()
		for keys.Next(ctx) {
			kind, err := node.Type(ctx, keys.Val()).Result()
			if err != nil {
				return err
			}
			if err := f(node, keys.Val(), kind); err != nil {
				return err
			}
		}
		return keys.Err()
	})
}
