package redisbroker

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed81422ce9/jobs/broker"
)

// sizes returns how many bytes each key of a store takes, by its name without the prefix.
func sizes(t *testing.T, c *redis.Client, b *Broker) (of map[string]int64, sum int64) {
	t.Helper()
	of = make(map[string]int64)
	err := walk(c, b.config.Prefix, func(node *redis.Client, key, _ string) error {
		n, err := node.MemoryUsage(t.Context(), key).Result()
		of[key[len(b.config.Prefix):]] = n
		sum += n
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return of, sum
}

func TestQueue_AnEmptyOneIsSmall(t *testing.T) {
	t.Parallel()
	const most = 6 << 10
	c := client(t)
	b := open(t, c)
	register(t, b, "w", "q")
	if of, sum := sizes(t, c, b); sum > most {
		t.Errorf("a new queue takes %d bytes, want %d at most: %v", sum, most, of)
	}
	jobs := several("q", 100, nil)
	for i := range jobs[:50] {
		jobs[i].Body.Key, jobs[i].Body.Priority = fmt.Sprint("key", i%10), broker.Priority(i%4+1)
	}
	enqueue(t, b, jobs...)
	l := &life{t: t, b: b, queue: "q"}
	l.settle(at(0), "w", claimAt(t, b, at(0), "w", 100, "q").Jobs, broker.Complete(nil))
	if _, err := b.Prune(t.Context(), broker.PruneRequest{Now: at(1), Queues: []string{"q"}, Max: 100}); err != nil {
		t.Fatal(err)
	}
	if of, sum := sizes(t, c, b); sum > most {
		t.Errorf("a queue that had jobs takes %d bytes, want %d at most: %v", sum, most, of)
	}
}

// A process that names very many queues remembers little of each, and forgets those that it does not use.
func TestQueue_TakesLittleOfAProcess(t *testing.T) {
	b := open(t, client(t))
	queues := names("queue-of-a-tenant", 2000)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	held := make(map[string]int, len(queues))
	b.members.count(&broker.RenewRequest{Worker: "w", Lease: time.Minute}, queues, held, true)
	for _, name := range queues {
		b.queue(name).see()
	}
	if each := (heap() - before) / uint64(len(queues)); each > 1<<10 {
		t.Errorf("a process holds %d bytes of a queue, want 1 KB at most", each)
	}
	runtime.KeepAlive(b)
}
