package redisbroker

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// A process forgets queues that it does not use any more, but not those in use.
func TestQueue_QueuesThatAreNotUsedAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &Broker{config: Config{Prefix: "p", Buckets: 1}}
		known := func() (n int) {
			b.queues.Range(func(any, any) bool { n++; return true })
			return n
		}
		b.learn("busy", 3)
		b.queue("busy").listed.Store(true)
		const minutes, each = 60, 20
		for minute := range minutes {
			for i := range each {
				b.queue(fmt.Sprint("tenant", minute, "-", i))
			}
			time.Sleep(time.Minute)
			b.queue("busy")
			if n := known(); n > 1+12*each {
				t.Fatalf("after %d minutes %d queues are known, want those of the last ten minutes or so", minute, n)
			}
		}
		if q := b.queue("busy"); q.buckets != 3 || !q.listed.Load() {
			t.Errorf("what was known of a queue in use is lost: %d buckets, listed %t", q.buckets, q.listed.Load())
		}
		b.learn("busy", 5)
		if q := b.queue("busy"); q.buckets != 5 || !q.listed.Load() {
			t.Errorf("a queue of another layout: %d buckets, listed %t; want 5, true", q.buckets, q.listed.Load())
		}
		if n := known(); n < 1+9*each {
			t.Errorf("%d queues are known, want those of the last ten minutes at least", n)
		}
	})
}

// A process that named many queues once and then uses one remembers only that one.
func TestQueue_ManyQueuesAreForgottenAlsoWhenNoneIsNew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &Broker{config: Config{Prefix: "p", Buckets: 1}}
		for i := range 10_000 {
			b.queue(fmt.Sprint("tenant", i))
		}
		for range 12 {
			time.Sleep(time.Minute)
			b.queue("busy")
		}
		n := 0
		b.queues.Range(func(any, any) bool { n++; return true })
		if n != 1 {
			t.Errorf("%d queues are known 12 minutes after 10,000 were used once, want the one in use", n)
		}
	})
}
