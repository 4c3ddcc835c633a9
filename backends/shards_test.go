package backends_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/backends/shardbroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// Over shards in memory the whole suite runs, in package shardbroker. Over servers,
// rules about what these do in their own way run: claims that wait, and listings.
func TestShards_ConformOverServers(t *testing.T) {
	t.Parallel()
	for _, of := range []struct {
		name  string
		place func(testing.TB) string
		rules []string
	}{
		{"Redis", prefixes(testenv.RedisPlace(t)), []string{"Claim/LeasesToItsWorker", "Claim/SettlesFirst", "Wake/ByEnqueue",
			"Wake/InAnyOfItsQueues",
			"Wake/WhenDue", "Wake/ManyWaitersShare", "Wake/EndsWithItsContext", "Mark/"}},
		{"Postgres", testenv.PostgresPlace, []string{"Claim/LeasesToItsWorker", "Wake/ByEnqueue", "Wake/WhenDue"}},
	} {
		t.Run(of.name, func(t *testing.T) {
			t.Parallel()
			passed := 0
			for _, v := range conformance.Judge(func(tb conformance.TB) *conformance.Store { return shardsOf(t, tb, of.place) }, of.rules...) {
				switch v.Result {
				case conformance.Failed:
					t.Errorf("%s: %s", v.Rule, v.Failure)
				case conformance.Passed:
					passed++
				}
			}
			if passed < len(of.rules)-1 {
				t.Errorf("%d rules passed, want most of %v", passed, of.rules)
			}
		})
	}
}

// prefixes gives places within one, which are cleaned up at once.
func prefixes(redis string) func(testing.TB) string {
	var n atomic.Int64
	return func(testing.TB) string {
		u, _ := url.Parse(redis)
		q := u.Query()
		q.Set("prefix", fmt.Sprint(q.Get("prefix"), "-", n.Add(1)))
		u.RawQuery = q.Encode()
		return u.String()
	}
}

// shardsOf is a store over two places.
func shardsOf(t *testing.T, tb conformance.TB, place func(testing.TB) string) *conformance.Store {
	tb.Helper()
	urls := []string{place(t), place(t)}
	for _, url := range urls {
		if err := backends.Migrate(tb.Context(), url); err != nil {
			tb.Fatalf("Migrate: %v", err)
		}
	}
	return &conformance.Store{Open: func(tb conformance.TB) broker.Broker {
		var shards []shardbroker.Shard
		for i, url := range urls {
			if strings.Contains(url, "postgres") {
				url += "&pool_max_conns=3"
			}
			b, err := backends.Open(context.Background(), url)
			if err != nil {
				tb.Fatalf("Open: %v", err)
			}
			shards = append(shards, shardbroker.Shard{Name: fmt.Sprint("shard ", i), Broker: b})
		}
		b, err := shardbroker.New(shards...)
		if err != nil {
			tb.Fatalf("New: %v", err)
		}
		return b
	}}
}
