package redisbroker

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

func TestMain(m *testing.M) {
	parseScripts() // some tests look at scripts without a Broker
	testenv.Main(m)
}

// client returns a client of the shared test server, with a name of its own.
func client(tb testing.TB) *redis.Client {
	tb.Helper()
	o, err := redis.ParseURL(testenv.Redis(tb))
	if err != nil {
		tb.Fatal(err)
	}
	o.ClientName = testenv.Name(tb)
	c := redis.NewClient(o)
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// clientOf returns a client of another server.
func clientOf(tb testing.TB, url string) *redis.Client {
	tb.Helper()
	o, err := redis.ParseURL(url)
	if err != nil {
		tb.Fatal(err)
	}
	c := redis.NewClient(o)
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// clusterClient returns a client of the shared test Cluster.
func clusterClient(tb testing.TB) *redis.ClusterClient {
	tb.Helper()
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: testenv.RedisCluster(tb), ClientName: testenv.Name(tb)})
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// open returns a broker with a prefix of its own.
func open(tb testing.TB, client redis.UniversalClient) *Broker {
	tb.Helper()
	return openAs(tb, client, Config{Prefix: testenv.Name(tb)})
}

func openAs(tb testing.TB, client redis.UniversalClient, config Config) *Broker {
	tb.Helper()
	b, err := New(tb.Context(), client, config)
	if err != nil {
		tb.Fatalf("New: %v", err)
	}
	tb.Cleanup(func() {
		if err := b.Close(); err != nil {
			tb.Errorf("Close: %v", err)
		}
	})
	return b
}

// at returns a virtual time, n seconds after the start of the tests' time.
func at(n int) time.Time { return time.Unix(1_800_000_000+int64(n), 0).UTC() }

func job(queue, id string) broker.NewJob {
	return broker.NewJob{Queue: queue, ID: id, Body: broker.Body{Type: "work", Payload: []byte("payload of " + id),
		Priority: broker.PriorityNormal, MaxRetries: 3}}
}

func enqueue(tb testing.TB, b *Broker, jobs ...broker.NewJob) {
	tb.Helper()
	receipts, err := b.Enqueue(tb.Context(), broker.EnqueueRequest{Now: at(0), Jobs: jobs})
	if err != nil {
		tb.Fatalf("Enqueue: %v", err)
	}
	for _, r := range receipts {
		if r.Err != nil {
			tb.Fatalf("Enqueue of %s: %v", r.ID, r.Err)
		}
	}
}

// outcomes returns the error of each job of an Enqueue, which returns either receipts or
// one error for all jobs.
func outcomes(jobs []broker.NewJob, receipts []broker.Receipt, err error) []error {
	all := make([]error, len(jobs))
	for i := range all {
		if all[i] = err; err == nil {
			all[i] = receipts[i].Err
		}
	}
	return all
}

func register(tb testing.TB, b *Broker, worker string, queues ...string) {
	tb.Helper()
	got, err := b.Renew(tb.Context(), broker.RenewRequest{Now: at(0), Worker: worker, Queues: queues, Lease: time.Minute, Register: true})
	if err != nil || got.Lost {
		tb.Fatalf("Renew of %s: lost %v, %v", worker, got.Lost, err)
	}
}

func claimAt(tb testing.TB, b *Broker, now time.Time, worker string, max int, queues ...string) broker.Claimed {
	tb.Helper()
	req := broker.ClaimRequest{Now: now, Worker: worker, Max: max}
	for _, q := range queues {
		req.Queues = append(req.Queues, broker.Share{Queue: q, Max: max})
	}
	got, err := b.Claim(tb.Context(), req)
	if err != nil {
		tb.Fatalf("Claim: %v", err)
	}
	return got
}

// accept enqueues jobs at the store's own time, and checks that each is accepted.
func accept(t *testing.T, b *Broker, jobs []broker.NewJob) {
	t.Helper()
	receipts, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: jobs})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range receipts {
		if r.Err != nil || r.State != broker.StatePending {
			t.Fatalf("%s was made %v, %v", r.ID, r.State, r.Err)
		}
	}
}

// bucket returns the key of the bucket for a slot.
func (q *queue) bucket(slot int) string { return q.base + q.bucketName(slot) }
