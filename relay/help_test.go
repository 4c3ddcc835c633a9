package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const (
	outbox = "outbox"
	mail   = "mail"
)

// world is two stores in a bubble of virtual time, and the jobs that the target has
// handled, in order.
type world struct {
	*testing.T
	from, to broker.Broker

	mu      sync.Mutex
	arrived []string
	sent    []string
}

func inWorld(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, from: backwards(membroker.New()), to: membroker.New()}
		t.Cleanup(func() { w.from.Close(); w.to.Close() })
		f(t, w)
	})
}

// backwards is a store that uses the freedom of the contract: reclaims return jobs
// in any order, and released jobs do not keep theirs.
func backwards(b broker.Broker) broker.Broker {
	return broker.Wrap(b, func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
		err := next(ctx)
		switch reply := c.Reply.(type) {
		case *broker.Claimed:
			if c.Method == "Reclaim" {
				slices.Reverse(reply.Jobs)
			}
		case *broker.Retired:
			for _, ref := range reply.Released { // each goes before the one before it
				for _, kind := range []broker.OperationKind{broker.OpHold, broker.OpUnhold} {
					if _, err := b.Operate(ctx, broker.Operation{Kind: kind, Holder: "test", Refs: []broker.Ref{{Queue: ref.Queue, ID: ref.ID,
						Epoch: broker.AnyEpoch}}}); err != nil {
						return err
					}
				}
			}
		}
		return err
	})
}

// put enqueues jobs into the outbox, five in a call. Their IDs are key and number.
func (w *world) put(keys []string, n int) {
	w.Helper()
	var batch []broker.NewJob
	for i := range n {
		key := keys[i%len(keys)]
		id := fmt.Sprintf("%s-%05d", key, len(w.sent))
		w.sent = append(w.sent, id)
		batch = append(batch, broker.NewJob{Queue: outbox, ID: id,
			Body: broker.Body{Type: "task", Priority: broker.PriorityNormal, Key: key, MaxRetries: 3}})
		if len(batch) == 5 || i == n-1 {
			accepted(w.T, w.from, batch...)
			batch = nil
		}
	}
}

// accepted enqueues jobs, which must be accepted.
func accepted(t testing.TB, b broker.Broker, batch ...broker.NewJob) {
	t.Helper()
	receipts, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: batch})
	for _, r := range receipts {
		err = errors.Join(err, r.Err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// serve handles the jobs of the target, one at a time.
func (w *world) serve(took time.Duration) {
	w.Helper()
	s, err := jobs.NewServer(w.to, jobs.Config{Queues: map[string]int{mail: 1}, Concurrency: 1, Prefetch: jobs.NoPrefetch, Logger: discard})
	if err == nil {
		err = s.Start(context.Background(), jobs.HandlerFunc(func(_ context.Context, j *jobs.Job) error {
			time.Sleep(took)
			w.mu.Lock()
			defer w.mu.Unlock()
			w.arrived = append(w.arrived, j.ID())
			return nil
		}))
	}
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { s.Shutdown(context.Background()) })
}

var discard = slog.New(slog.DiscardHandler)

// relay returns a relay between two views of the stores.
func (w *world) relay(from, to broker.Broker, change ...func(*Config)) *Relay {
	w.Helper()
	cfg := Config{From: from, FromQueue: outbox, To: to, ToQueue: mail, Logger: discard}
	for _, f := range change {
		f(&cfg)
	}
	r, err := New(cfg)
	if err != nil {
		w.Fatal(err)
	}
	return r
}

// run starts a relay. stop drains it and returns what Run returned.
func (w *world) run(r *Relay) (stop func() error) {
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stop = sync.OnceValue(func() error { cancel(); return <-ended })
	w.Cleanup(func() { stop() })
	return stop
}

// exactlyOnce checks that each job arrived once, that those of each key arrived in
// order, and that the source is empty.
func (w *world) exactlyOnce(what string) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	inOrder(w.T, what, w.arrived)
	got, want := slices.Sorted(slices.Values(w.arrived)), slices.Sorted(slices.Values(w.sent))
	if !slices.Equal(got, want) {
		w.Errorf("%s: %d jobs arrived, want these %d, once each\ngot  %v\nwant %v", what, len(got), len(want), got, want)
	}
	if left := w.counts(w.from, outbox); len(left) > 0 {
		w.Errorf("%s: at the source are %v, want nothing", what, left)
	}
}

// inOrder checks that the IDs of each key rise.
func inOrder(t testing.TB, what string, ids []string) {
	t.Helper()
	last := make(map[byte]string)
	for n, id := range ids {
		if id <= last[id[0]] {
			t.Errorf("%s: %s arrived after %s, want the order of the key (number %d of %v)", what, id, last[id[0]], n, ids)
			return
		}
		last[id[0]] = id
	}
}

// counts returns the numbers of jobs of a queue by state, without zeros.
func (w *world) counts(b broker.Broker, queue string) map[broker.State]int64 {
	w.Helper()
	info := w.queue(b, queue)
	for state, n := range info.Counts {
		if n == 0 {
			delete(info.Counts, state)
		}
	}
	return info.Counts
}

func (w *world) queue(b broker.Broker, name string) (info broker.QueueInfo) {
	w.Helper()
	reply, err := b.Queues(context.Background(), broker.QueuesRequest{Names: []string{name}, Workers: true})
	if err != nil {
		w.Fatal(err)
	}
	if len(reply.Queues) > 0 {
		info = reply.Queues[0]
	}
	return info
}

// find returns the job with an ID, or nil.
func find(t testing.TB, b broker.Broker, queue, id string) *broker.Job {
	t.Helper()
	page, err := b.Find(t.Context(), broker.Query{Queue: queue, IDs: []string{id}, Suppressed: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Jobs) == 0 {
		return nil
	}
	return &page.Jobs[0]
}

// pass lets virtual time pass and waits until all goroutines are blocked.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
