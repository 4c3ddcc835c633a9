package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// Each group of a prefix has its slot in another sixteenth of a Cluster, and the server
// computes the same slot as we do. The slot of a queue differs by prefix.
func TestGroups_LieEvenlyOverACluster(t *testing.T) {
	t.Parallel()
	c := clusterClient(t)
	of := make(map[string]int) // the slot of a queue, by prefix
	for _, prefix := range []string{"jobs", "north", "south", strings.Repeat("long", 32)} {
		var parts []int
		for n, tag := range tagsOf(prefix) {
			slot := slotOfTag(tag)
			if told, err := c.ClusterKeySlot(t.Context(), prefix+":{"+tag+"}:q:m").Result(); int(told) != slot || err != nil {
				t.Errorf("slot of the tag %s: %d, the server says %d, %v", tag, slot, told, err)
			}
			parts = append(parts, slot*queueGroups/clusterSlots)
			if n == groupOf("q") {
				of[prefix] = slot
			}
		}
		if slices.Sort(parts); len(slices.Compact(parts)) != queueGroups {
			t.Errorf("groups of %s lie in the sixteenths %v of the slots, want one in each", prefix, parts)
		}
	}
	if of["jobs"] == of["north"] || of["north"] == of["south"] {
		t.Errorf("one queue of several prefixes lies in the slots %v, want several", of)
	}
}

// Names of queues may have colons.
func TestKeys_TellTheirQueue(t *testing.T) {
	t.Parallel()
	for _, queue := range []string{"q", "a:b", "a:", "e"} {
		for _, suffix := range []string{"m", "b0", "e"} {
			if got := queueOfKey("jobs", baseOf("jobs", queue)+suffix); got != queue {
				t.Errorf("key %s of the queue %q is taken for one of %q", suffix, queue, got)
			}
		}
	}
	otherPrefix := "jobs2" + strings.TrimPrefix(baseOf("jobs", "q"), "jobs") + "m"
	for _, key := range []string{"jobs:queues", "jobs:{x}:q:m", "jobs:marks:{00}:h", otherPrefix} {
		if got := queueOfKey("jobs", key); got != "" {
			t.Errorf("the key %s is taken for one of the queue %q", key, got)
		}
	}
}

// waitersOf returns the connections of a client, to all nodes, whose last command was a wait;
// whether each still waits; and how many do.
func waitersOf(t *testing.T, c redis.UniversalClient, name string) (waits map[string]bool, blocked int) {
	t.Helper()
	var mu sync.Mutex
	waits = make(map[string]bool)
	err := eachServer(c, func(node *redis.Client) error {
		list, err := node.ClientList(t.Context()).Result()
		mu.Lock()
		defer mu.Unlock()
		for line := range strings.Lines(list) {
			if strings.Contains(line, "name="+name+" ") && strings.Contains(line, "cmd=blpop") {
				id, _, _ := strings.Cut(line, " ")
				if waits[node.Options().Addr+" "+id] = strings.Contains(line, " flags=b "); strings.Contains(line, " flags=b ") {
					blocked++
				}
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return waits, blocked
}

// In a Cluster a claim of many queues looks at them by groups, asks those that have
// something, and waits for all of them on one connection per group.
func TestCluster_ClaimOfManyQueues(t *testing.T) {
	t.Parallel()
	name := testenv.Name(t)
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: testenv.RedisCluster(t), ClientName: name})
	t.Cleanup(func() { _ = c.Close() })
	count := &sent{}
	count.take()
	b := open(t, c)
	nodes, err := b.store.masters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes {
		node.AddHook(count)
	}
	queues := names("q", 100)
	registerNow(t, b, "w", queues...)
	var all []broker.NewJob
	for _, q := range queues {
		all = append(all, job(q, "of-"+q))
	}
	enqueueNow(t, b, all...)
	taken := make(map[string]bool)
	req := waitFor("w", 0, queues...)
	req.Max = 30
	for calls := 0; ; calls++ {
		got, err := b.Claim(t.Context(), req)
		if err != nil || len(got.Jobs) > req.Max {
			t.Fatalf("Claim: %d jobs of %d at most, %v", len(got.Jobs), req.Max, err)
		}
		for _, j := range got.Jobs {
			taken[j.Queue] = true
		}
		if !got.More {
			break
		}
		if calls == 10 {
			t.Fatalf("after %d calls of 30 jobs, %d of 100 were claimed, and there is more", calls, len(taken))
		}
	}
	if len(taken) != len(queues) {
		t.Errorf("claimed jobs of %d queues, want all %d", len(taken), len(queues))
	}

	claim := func() broker.Claimed {
		t.Helper()
		count.take()
		got, err := b.Claim(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	claim()
	claim()
	if calls := count.take()["claim"]; len(calls) > 1 {
		t.Errorf("a claim of 100 quiet queues called %d scripts, with so many keys: %v; want one", len(calls), calls)
	}
	enqueueNow(t, b, job("q0042", "one"))
	if got := claim(); len(got.Jobs) != 1 || got.More {
		t.Errorf("claimed %d jobs, more %t, want the one there is", len(got.Jobs), got.More)
	}
	if calls := count.take()["claim"]; len(calls) > 2 {
		t.Errorf("a claim of one job in 100 queues called %d scripts, with so many keys: %v; want two at most", len(calls), calls)
	}

	for n, queue := range []string{"q0007", "q0077"} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		done := make(chan broker.Claimed)
		go func() {
			wait := req
			wait.Wait = 30 * time.Second
			got, err := b.Claim(ctx, wait)
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("Claim: %v", err)
			}
			done <- got
		}()
		blocked := 0
		for ctx.Err() == nil && blocked < queueGroups {
			_, blocked = waitersOf(t, c, name)
			time.Sleep(10 * time.Millisecond)
		}
		enqueueNow(t, b, job(queue, fmt.Sprint("wakes", n)))
		if got := <-done; len(got.Jobs) != 1 || got.Jobs[0].Queue != queue {
			t.Errorf("a claim that waits for 100 queues got %d jobs, want the one of %s", len(got.Jobs), queue)
		}
		cancel()
		b.active.Wait() // the other connections have come back
		if blocked != queueGroups {
			t.Errorf("%d connections waited for 100 queues, want one for each of %d groups", blocked, queueGroups)
		}
	}

	// Wait repeatedly, like an idle server.
	before, _ := waitersOf(t, c, name)
	for range 3 {
		wait := req
		wait.Wait = 10 * time.Millisecond
		if got, err := b.Claim(t.Context(), wait); err != nil || len(got.Jobs) > 0 {
			t.Fatalf("a wait for nothing: %d jobs, %v", len(got.Jobs), err)
		}
		b.active.Wait()
		after, _ := waitersOf(t, c, name)
		for id := range after {
			if _, ok := before[id]; !ok {
				t.Errorf("a wait of a worker without work opened a connection, %s; want only the %d that there were", id, len(before))
			}
		}
	}
}
