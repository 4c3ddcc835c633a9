package engine

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/guard"
)

const testQueue = "default"

// filled is o with what package jobs fills in.
func (o Options) filled() Options {
	if o.Queues == nil {
		o.Queues = map[string]int{testQueue: 1}
	}
	o.Concurrency, o.Prefetch, o.CrashBudget = cmp.Or(o.Concurrency, 20), cmp.Or(o.Prefetch, 1000), cmp.Or(o.CrashBudget, 3)
	o.ErrorHistory = cmp.Or(o.ErrorHistory, broker.DefaultErrorHistory)
	o.Lease, o.Timeout = cmp.Or(o.Lease, broker.DefaultLease), cmp.Or(o.Timeout, broker.DefaultTimeout)
	o.ShutdownTimeout, o.StuckGrace = cmp.Or(o.ShutdownTimeout, 20*time.Second), cmp.Or(o.StuckGrace, 30*time.Second)
	o.ReadinessWindow, o.PollInterval = cmp.Or(o.ReadinessWindow, 30*time.Second), cmp.Or(o.PollInterval, 5*time.Second)
	o.Logger, o.Reports = slog.New(slog.DiscardHandler), new(guard.Reports)
	var n atomic.Int64
	o.NewID = func() string { return "worker-" + strconv.FormatInt(n.Add(1), 10) }
	return o
}

// handler is a policy that retries at once what fails.
type handler func(context.Context, *broker.Job) error

func (h handler) Perform(r *Run) broker.Outcome {
	err := h(r, r.Job)
	r.Finish(context.Canceled, time.Now())
	if err != nil {
		return broker.Retry(0, broker.Failure{Message: err.Error()})
	}
	return broker.Complete(nil)
}

func (h handler) Exited(*Run) broker.Outcome { return broker.Release() }
func (h handler) Crashed(*broker.Job, string) broker.Outcome {
	return broker.Crash(0, broker.Failure{})
}
func (h handler) Refused(*broker.Job, string, time.Time, error) broker.Outcome {
	return broker.Retry(0, broker.Failure{})
}
func (h handler) Types() []string { return nil }

// serve starts a server and shuts it down when the test ends.
func serve(t *testing.T, b broker.Broker, opts Options, h handler) *Server {
	t.Helper()
	s := New(b, opts.filled())
	if !s.Start(context.Background(), h) {
		t.Fatal("it was started before")
	}
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// still is a server none of whose loops runs, with a registered worker: for
// tests of single decisions.
func still(t *testing.T, b broker.Broker, opts Options) (*Server, *worker) {
	t.Helper()
	s := New(b, opts.filled())
	s.policy = handler(nil)
	w := s.newWorker()
	w.registered, w.renewed = true, time.Now()
	s.worker = w
	s.listLocked(w)
	return s, w
}

// bubble runs a test in virtual time, beside others.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, f)
}

// pass lets time go by and then everything that it set off settle, so that the
// test sees it.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// serving is a store in memory that servers treat like one that serves other
// processes: with short leases.
type serving struct{ *membroker.Broker }

func (serving) Limits() broker.Limits { return broker.Limits{} }

func newStore() serving { return serving{membroker.New()} }

var errCut = errors.New("i/o timeout")

// tap is a broker whose calls a test may change. A nil field passes the call on.
type tap struct {
	broker.Broker
	renew   func(context.Context, broker.RenewRequest) (broker.Renewed, error)
	reclaim func(context.Context, broker.ReclaimRequest) (broker.Claimed, error)
	retire  func(context.Context, broker.RetireRequest) (broker.Retired, error)
	find    func(context.Context, broker.Query) (broker.Page, error)
	ping    func(context.Context) (time.Time, error)
}

// or returns the first of two methods that is not nil.
func or[Request, Reply any](own, other func(context.Context, Request) (Reply, error)) func(context.Context, Request) (Reply, error) {
	if own != nil {
		return own
	}
	return other
}

func (b *tap) Ping(ctx context.Context) (time.Time, error) {
	if b.ping != nil {
		return b.ping(ctx)
	}
	return b.Broker.Ping(ctx)
}

func (b *tap) Renew(ctx context.Context, req broker.RenewRequest) (broker.Renewed, error) {
	return or(b.renew, b.Broker.Renew)(ctx, req)
}

func (b *tap) Reclaim(ctx context.Context, req broker.ReclaimRequest) (broker.Claimed, error) {
	return or(b.reclaim, b.Broker.Reclaim)(ctx, req)
}

func (b *tap) Retire(ctx context.Context, req broker.RetireRequest) (broker.Retired, error) {
	return or(b.retire, b.Broker.Retire)(ctx, req)
}

func (b *tap) Find(ctx context.Context, q broker.Query) (broker.Page, error) {
	return or(b.find, b.Broker.Find)(ctx, q)
}

// add enqueues n jobs, named by number.
func add(t *testing.T, b broker.Broker, name string, n int) {
	t.Helper()
	req := broker.EnqueueRequest{Jobs: make([]broker.NewJob, n)}
	for i := range req.Jobs {
		req.Jobs[i] = broker.NewJob{Queue: testQueue, ID: name + "-" + strconv.Itoa(i),
			Body: broker.Body{Type: name, Priority: broker.PriorityNormal, MaxRetries: 3, Retention: 24 * time.Hour}}
	}
	if _, err := b.Enqueue(t.Context(), req); err != nil {
		t.Fatal(err)
	}
}

// stored returns a job as the store has it.
func stored(t *testing.T, b broker.Broker, id string) broker.Job {
	t.Helper()
	page, err := b.Find(t.Context(), broker.Query{Queue: testQueue, IDs: []string{id}})
	if err != nil || len(page.Jobs) != 1 {
		t.Fatalf("the store has %d jobs with the ID %q, error %v", len(page.Jobs), id, err)
	}
	return page.Jobs[0]
}
