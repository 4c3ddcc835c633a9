package jobstest

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

// Broker is a broker in memory for one test. It is a broker.Broker: give it to the
// clients and servers of the code under test. It remembers for [Enqueued] which jobs
// were enqueued and which were refused. It is safe for concurrent use.
type Broker struct {
	broker.Broker // with faults, for the code under test

	t      testing.TB
	store  *membroker.Store
	handle *membroker.Broker
	plain  broker.Broker // the handle with the log and without faults, for helpers
	log    *enqueueLog
	faults *faults

	mu     sync.Mutex
	client *jobs.Client
	open   []*Tx
}

// New returns an empty broker and closes it when the test ends. Make one for each
// test and subtest that needs a broker of its own, and inside of the testing/synctest
// bubble, if the test has one.
func New(t testing.TB) *Broker {
	t.Helper()
	b := &Broker{t: t, store: membroker.NewStore(), log: newEnqueueLog(), faults: newFaults()}
	b.handle = b.store.Open()
	b.plain = b.log.around(b.handle)
	b.Broker = b.faults.around(b.plain)
	t.Cleanup(func() {
		b.mu.Lock()
		client := b.client
		b.mu.Unlock()
		client.Close()
		b.plain.Close()
	})
	return b
}

// Client returns a client of the broker with the zero ClientConfig. Each call returns the same client;
// it is closed when the test ends.
func (b *Broker) Client() *jobs.Client {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.client == nil {
		b.client = jobs.NewClient(b, jobs.ClientConfig{})
	}
	return b.client
}

// Now returns the time by the store's clock.
func (b *Broker) Now() time.Time {
	now, err := b.plain.Ping(context.Background())
	if err != nil {
		b.t.Helper()
		b.t.Fatalf("jobstest: the broker was closed: %v", err)
	}
	return now
}

// Advance lets d pass by the store's clock: delayed jobs and retries become due,
// leases and unique windows end. In a testing/synctest bubble it sleeps for d;
// elsewhere it advances the store's clock, and time.Now does not change. A negative d
// ends the test: time does not go back.
func (b *Broker) Advance(d time.Duration) {
	b.t.Helper()
	if d < 0 {
		b.t.Fatalf("jobstest: Advance: d is %v; use zero or more, time does not go back", d)
	}
	b.advance(d)
}

// lasting returns the context of a test without its end: a Cleanup can call helpers, too.
func lasting(t testing.TB) context.Context { return context.WithoutCancel(t.Context()) }

func (b *Broker) advance(d time.Duration) {
	if inBubble() {
		time.Sleep(d)
		return
	}
	b.store.Advance(d)
}

// inBubble reports whether its goroutine is in a testing/synctest bubble. It reads
// that from the stack trace; if Go ceases to print it there, Advance advances the
// store's clock in bubbles, too.
func inBubble() bool {
	buf := make([]byte, 128)
	header, _, _ := strings.Cut(string(buf[:runtime.Stack(buf, false)]), "\n")
	return strings.Contains(header, "synctest bubble")
}
