package redisbroker

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// trips counts round trips: each command or pipeline is one.
type trips struct{ n atomic.Int64 }

func (c *trips) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (c *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmd)
	}
}

func (c *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() != "hello" && cmds[0].Name() != "client" { // those set up a new connection
			c.n.Add(1)
		}
		return next(ctx, cmds)
	}
}

func TestCost_RoundTripsPerCall(t *testing.T) {
	t.Parallel()
	b := open(t, client(t))
	register(t, b, "w", "q1", "q2", "q3")
	enqueue(t, b, job("q1", "first"), job("q2", "first"), job("q3", "first"))
	count := new(trips)
	b.store.single.AddHook(count)
	ctx := t.Context()

	var many []broker.NewJob
	for i := range 2500 {
		many = append(many, job(fmt.Sprint("q", i%3+1), fmt.Sprint("j", i)))
	}
	queues := []string{"q1", "q2", "q3"}
	shares := []broker.Share{{Queue: "q1", Max: 2}, {Queue: "q2", Max: 2}, {Queue: "q3", Max: 2}, {Queue: "q1", Max: 9}}
	got := claimAt(t, b, at(0), "w", 3, queues...)
	items := make([]broker.Settlement, len(got.Jobs))
	for i := range got.Jobs {
		items[i] = broker.Settlement{Job: &got.Jobs[i], Outcome: broker.Retry(time.Hour, broker.Failure{Message: "no"})}
	}
	refs := []broker.Ref{{Queue: "q1", ID: "j0", Epoch: broker.AnyEpoch}, {Queue: "q1", ID: "j3", Epoch: broker.AnyEpoch}}
	paused := false
	for _, c := range []struct {
		name string
		want int64
		call func() error
	}{
		{"Enqueue of 2500 jobs into three queues", 1, func() error {
			_, err := b.Enqueue(ctx, broker.EnqueueRequest{Jobs: many})
			return err
		}},
		{"Claim from three queues, with a settle", 1, func() error {
			_, err := b.Claim(ctx, broker.ClaimRequest{Worker: "w", Queues: shares, Max: 10,
				Settle: broker.SettleRequest{Worker: "w", Number: 1, Items: items}})
			return err
		}},
		{"Settle", 1, func() error {
			_, err := b.Settle(ctx, broker.SettleRequest{Worker: "w", Number: 2, Items: items})
			return err
		}},
		{"Renew in three queues", 1, func() error {
			_, err := b.Renew(ctx, broker.RenewRequest{Worker: "w", Queues: queues, Lease: time.Minute})
			return err
		}},
		{"Prune of three queues", 1, func() error {
			_, err := b.Prune(ctx, broker.PruneRequest{Queues: queues, Max: 100})
			return err
		}},
		{"Find", 1, func() error {
			_, err := b.Find(ctx, broker.Query{Queue: "q1", State: broker.StatePending})
			return err
		}},
		{"Operate in one queue", 2, func() error {
			_, err := b.Operate(ctx, broker.Operation{Kind: broker.OpCancel, Refs: refs})
			return err
		}},
		{"Queues", 2, func() error {
			_, err := b.Queues(ctx, broker.QueuesRequest{Workers: true})
			return err
		}},
		{"Queues by name", 1, func() error {
			_, err := b.Queues(ctx, broker.QueuesRequest{Names: queues})
			return err
		}},
		{"Policy", 1, func() error {
			_, err := b.Policy(ctx, broker.PolicyRequest{Queue: "q1", Paused: &paused})
			return err
		}},
		{"Mark", 1, func() error {
			_, err := b.Mark(ctx, broker.MarkRequest{Action: broker.MarkTake, Name: "m", Owner: "o", TTL: time.Minute})
			return err
		}},
		{"Reclaim in one queue", 1, func() error {
			_, err := b.Reclaim(ctx, broker.ReclaimRequest{Worker: "w", Queues: queues[:1], Max: 10})
			return err
		}},
		{"Retire in three queues", 1, func() error {
			_, err := b.Retire(ctx, broker.RetireRequest{Worker: "w", Queues: queues})
			return err
		}},
	} {
		count.n.Store(0)
		if err := c.call(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if n := count.n.Load(); n != c.want {
			t.Errorf("%s: got %d round trips, want %d", c.name, n, c.want)
		}
	}
}

// Allocations of a batch of 100. Most allocations of a claim are the jobs that it
// returns. Under the race detector pools drop some of their objects.
func TestCost_AllocationsPerBatch(t *testing.T) {
	const batch = 100
	b := open(t, client(t))
	ctx := t.Context()
	if _, err := b.Renew(ctx, broker.RenewRequest{Worker: "w", Queues: []string{"default"}, Lease: time.Hour, Register: true}); err != nil {
		t.Fatal(err)
	}
	const runs = 20
	jobs := benchJobs(0, (runs+1)*batch)
	enqueued := testing.AllocsPerRun(runs, func() {
		if _, err := b.Enqueue(ctx, broker.EnqueueRequest{Jobs: jobs[:batch]}); err != nil {
			t.Fatal(err)
		}
		jobs = jobs[batch:]
	})
	req := broker.ClaimRequest{Worker: "w", Queues: []broker.Share{{Queue: "default", Max: batch}}, Max: batch}
	var number int64
	drained := testing.AllocsPerRun(runs-1, func() {
		got, err := b.Claim(ctx, req)
		if err != nil || len(got.Jobs) != batch {
			t.Fatalf("Claim: %d jobs, %v", len(got.Jobs), err)
		}
		number++
		req.Settle = broker.SettleRequest{Worker: "w", Number: number, Items: make([]broker.Settlement, batch)}
		for i := range got.Jobs {
			req.Settle.Items[i] = broker.Settlement{Job: &got.Jobs[i], Outcome: broker.Complete(nil)}
		}
	})
	if perJob := enqueued / batch; perJob > 0.8 {
		t.Errorf("Enqueue: %.2f allocations per job, the ceiling is 0.8", perJob)
	}
	if perJob := drained / batch; perJob > 8 {
		t.Errorf("Claim with a settle: %.2f allocations per job, the ceiling is 8", perJob)
	}
}

// calls returns how often a server has run each command.
func calls(t *testing.T, c *redis.Client) map[string]int {
	t.Helper()
	text, err := c.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	n := make(map[string]int)
	for field, value := range parseInfo(text) {
		var times int
		if _, err := fmt.Sscanf(value, "calls=%d,", &times); err != nil {
			t.Fatalf("%s: %v", value, err)
		}
		n[field] = times
	}
	return n
}

func TestCost_AnIdleWorkerCostsNextToNothing(t *testing.T) {
	t.Parallel()
	c := clientOf(t, testenv.PrivateRedis(t).URL)
	b := openAs(t, c, Config{})
	if _, err := b.Renew(t.Context(), broker.RenewRequest{Worker: "w", Queues: []string{"q"}, Lease: time.Hour, Register: true}); err != nil {
		t.Fatal(err)
	}
	idle := func() {
		got, err := b.Claim(t.Context(), broker.ClaimRequest{Worker: "w", Queues: []broker.Share{{Queue: "q", Max: 1}}, Max: 1,
			Wait: 300 * time.Millisecond})
		if err != nil || len(got.Jobs) != 0 {
			t.Fatalf("Claim: %d jobs, %v", len(got.Jobs), err)
		}
	}
	idle() // makes the waiting connection
	before := calls(t, c)
	const waits = 4
	for range waits {
		idle()
	}
	after := calls(t, c)
	// Each wait sends one claim, behind it, and none before.
	if n := after["cmdstat_evalsha"] - before["cmdstat_evalsha"]; n != waits {
		t.Errorf("%d waits: got %d script calls, want as many", waits, n)
	}
	if n := after["cmdstat_blpop"] - before["cmdstat_blpop"]; n != waits {
		t.Errorf("%d waits: got %d blocking commands", waits, n)
	}
	for _, connected := range []string{"cmdstat_hello", "cmdstat_client|id"} {
		if after[connected] != before[connected] {
			t.Errorf("%d waits: a new connection was made (%s)", waits, connected)
		}
	}
	clients, err := c.Info(t.Context(), "clients").Result()
	if err != nil {
		t.Fatal(err)
	}
	if n, err := strconv.Atoi(parseInfo(clients)["connected_clients"]); err != nil || n > 3 {
		t.Errorf("connections: got %d, %v, want the test's, one for calls and one for waits", n, err)
	}
}

// 100,000 pending jobs of 200 bytes, with IDs of 26 characters.
func TestCost_BytesPerPendingJob(t *testing.T) {
	t.Parallel()
	const jobs, ceiling = 100_000, 378
	c := clientOf(t, testenv.PrivateRedis(t).URL)
	b := openAs(t, c, Config{})
	before := usedMemory(t, c)
	for from := 0; from < jobs; from += 5000 {
		if _, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: benchJobs(from, 5000)}); err != nil {
			t.Fatal(err)
		}
	}
	if perJob := float64(usedMemory(t, c)-before) / jobs; perJob > ceiling {
		t.Errorf("a pending job takes %.0f bytes, the ceiling is %d", perJob, ceiling)
	}
}
