package redisbroker

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
)

// backup copies all keys of a broker. What it returns restores them, while brokers are open.
func backup(t *testing.T, b *Broker, c *redis.Client) (restore func()) {
	t.Helper()
	keys := func() []string {
		t.Helper()
		all, err := c.Keys(t.Context(), b.config.Prefix+"*").Result()
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	dumps := make(map[string]string)
	for _, key := range keys() {
		dump, err := c.Dump(t.Context(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		dumps[key] = dump
	}
	return func() {
		t.Helper()
		_, err := c.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
			p.Del(t.Context(), keys()...)
			for key, dump := range dumps {
				p.Restore(t.Context(), key, 0, dump)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A worker ran out and was reclaimed, and then the store was restored from a backup that has it alive. A process that reclaimed it must
// look for it again: there may be no other that does.
func TestRenew_AfterARestoreSaysWhichLeasesRanOutBefore(t *testing.T) {
	t.Parallel()
	c := client(t)
	b := open(t, c)
	enqueue(t, b, job("q", "a"))
	register(t, b, "dies", "q")
	register(t, b, "lives", "q")
	claimAt(t, b, at(0), "dies", 1, "q")
	renew := func(now time.Time) broker.Renewed {
		t.Helper()
		got, err := b.Renew(t.Context(), broker.RenewRequest{Now: now, Worker: "lives", Queues: []string{"q"}, Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	reclaim := func(now time.Time) []broker.Job {
		t.Helper()
		got, err := b.Reclaim(t.Context(), broker.ReclaimRequest{Now: now, Worker: "lives", Queues: []string{"q"}, Max: 5})
		if err != nil {
			t.Fatal(err)
		}
		return got.Jobs
	}
	renew(at(30))
	restore := backup(t, b, c)
	renew(at(60))
	if n := len(reclaim(at(61))); n != 1 {
		t.Fatalf("reclaimed %d jobs", n)
	}
	if got := renew(at(62)); got.NextLapse.Before(at(62)) {
		t.Fatalf("after a Reclaim, leases ran out at %v", got.NextLapse)
	}
	restore()
	b.members.of["lives"].queues["q"].looked = time.Now().Add(-trustSearch - time.Second)
	if got := renew(at(80)); got.Lost || got.NextLapse.IsZero() || got.NextLapse.After(at(80)) {
		t.Errorf("a minute after the restore, the next leases run out at %v, want before now, %v", got.NextLapse, at(80))
	}
	if got := reclaim(at(80)); len(got) != 1 || got[0].ID != "a" {
		t.Errorf("reclaimed %v, want the job of the worker that died", got)
	}
}
