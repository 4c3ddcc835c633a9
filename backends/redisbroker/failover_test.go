package redisbroker

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
	"github.com/seed81422ce9/jobs/internal/testenv/servers"
)

// group returns a group with Sentinels, a client of it, and clients of its servers.
func group(t testing.TB) (g *servers.Group, client, master, replica *redis.Client) {
	t.Helper()
	g = testenv.PrivateRedisGroup(t)
	client = redis.NewFailoverClient(&redis.FailoverOptions{MasterName: servers.SentinelMaster, SentinelAddrs: []string{g.Sentinel},
		ClientName: "of-the-test"})
	master, replica = redis.NewClient(&redis.Options{Addr: g.Master}), redis.NewClient(&redis.Options{Addr: g.Replica})
	t.Cleanup(func() { _, _, _ = client.Close(), master.Close(), replica.Close() })
	return g, client, master, replica
}

// After a failover nothing is sent to the old master on any connection: it would accept
// the writes, which would then be lost.
func TestFailover_NothingIsSentToAnOldMaster(t *testing.T) {
	t.Parallel()
	g, client, old, promoted := group(t)
	b := openAs(t, client, Config{})
	sent := 0
	send := func(ctx context.Context) error {
		sent++
		receipts, err := b.Enqueue(ctx, broker.EnqueueRequest{Jobs: []broker.NewJob{job("q", fmt.Sprint("job-", sent))}})
		if err == nil {
			err = receipts[0].Err
		}
		return err
	}
	for range 20 {
		if err := send(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Renew(t.Context(), broker.RenewRequest{Worker: "w", Queues: []string{"idle", "q"}, Lease: time.Hour,
		Register: true}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	for range 3 { // connections that wait
		wait.Go(func() {
			for ctx.Err() == nil {
				_, _ = b.Claim(ctx, broker.ClaimRequest{Worker: "w", Queues: []broker.Share{{Queue: "idle", Max: 1}}, Max: 1, Wait: 10 * time.Minute})
			}
		})
	}
	defer wait.Wait()
	defer cancel()
	if _, err := b.Watch(ctx, broker.WatchRequest{Queues: []string{"q"}}); err != nil {
		t.Fatal(err)
	}
	connections := func(c *redis.Client) (n int) {
		list, err := c.ClientList(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(list, "name=of-the-test")
	}
	testenv.Eventually(t, "connections that wait", func() bool { return connections(old) >= 7 })

	if err := g.Failover(); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "the old master is left", func() bool { return connections(old) == 0 })
	testenv.Eventually(t, "the new master takes a job", func() bool { return send(t.Context()) == nil })
	q := b.queue("q")
	if n := promoted.HExists(t.Context(), q.bucket(0), fmt.Sprint("job-", sent)).Val(); !n {
		t.Errorf("job-%d was accepted and is not in the new master", sent)
	}
	if role := old.Do(t.Context(), "role").Val().([]any)[0]; role != "master" {
		t.Errorf("the old master has become a %v; the test shows nothing then", role)
	}
}

// With Config.Replicas a job is accepted once the replicas have it. A job that they do not
// acknowledge is stored in the master, so the error leaves open whether it was stored.
func TestFailover_NewJobsAreAcknowledgedByReplicas(t *testing.T) {
	t.Parallel()
	_, grouped, _, replica := group(t)
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: testenv.RedisCluster(t)})
	t.Cleanup(func() { _ = cluster.Close() })
	ways := map[string]func(*broker.NewJob){
		"enqueue_plain": func(*broker.NewJob) {},
		"enqueue":       func(j *broker.NewJob) { j.Delay = time.Hour },
		"enqueue_meet":  func(j *broker.NewJob) { j.Body.Unique = broker.Unique{Key: j.ID, Conflict: broker.ConflictReplace} },
		"restore":       func(j *broker.NewJob) { j.Restore = &broker.Restored{State: broker.StatePending} },
	}
	for name, test := range map[string]struct {
		client   redis.UniversalClient
		replicas int
		reached  bool
	}{
		"a group":                        {grouped, 1, true},
		"a group with too few":           {grouped, 2, false},
		"a server alone":                 {client(t), 1, false},
		"a Cluster without replicas":     {cluster, 1, false},
		"a server that need not wait":    {client(t), 0, true},
		"a Cluster that need not either": {cluster, 0, true},
	} {
		timeout := 20 * time.Millisecond
		if test.reached {
			timeout = 10 * time.Second
		}
		b := openAs(t, test.client, Config{Prefix: testenv.Name(t), Replicas: test.replicas, ReplicaTimeout: timeout})
		n := 0
		for way, form := range ways {
			for _, batch := range []int{1, 3} {
				jobs := make([]broker.NewJob, batch)
				for i := range jobs {
					jobs[i] = job("q", fmt.Sprint("job-", n))
					form(&jobs[i])
					n++
				}
				for _, what := range []string{"first", "again"} {
					receipts, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: jobs})
					if err != nil {
						t.Fatalf("%s, %s: %v", name, way, err)
					}
					for i, r := range receipts {
						switch {
						case !test.reached && (r.Err == nil || !broker.MayHaveApplied(r.Err) || !strings.Contains(r.Err.Error(), "acknowledged by")):
							t.Errorf("%s, %s, sent %s: %v; want an error that leaves open whether the job lasts", name, way, what, r.Err)
						case test.reached && what == "first" && r.Err != nil:
							t.Errorf("%s, %s: %v", name, way, r.Err)
						case test.reached && test.replicas > 0 && !replica.HExists(t.Context(), b.queue("q").bucket(slotOf(r.ID)), r.ID).Val():
							t.Errorf("%s, %s: job %d was accepted and is not in the replica", name, way, i)
						}
					}
				}
			}
		}
		counts, err := b.Queues(t.Context(), broker.QueuesRequest{Names: []string{"q"}})
		if err != nil {
			t.Fatal(err)
		}
		if got := counts.Queues[0].Counts; got[broker.StatePending]+got[broker.StateScheduled] != int64(n) {
			t.Errorf("%s: %v are stored, want %d jobs", name, got, n)
		}
	}
}

func BenchmarkEnqueueAcknowledged(b *testing.B) {
	for _, replicas := range []int{0, 1} {
		for _, batch := range []int{1, 100} {
			b.Run(fmt.Sprintf("%d/%d", replicas, batch), func(b *testing.B) {
				_, client, master, _ := group(b)
				q := openAs(b, client, Config{Replicas: replicas})
				n := 0
				measured(b, master, batch, func() {
					for b.Loop() {
						if _, err := q.Enqueue(b.Context(), broker.EnqueueRequest{Jobs: benchJobs(n, batch)}); err != nil {
							b.Fatal(err)
						}
						n += batch
					}
				})
			})
		}
	}
}
