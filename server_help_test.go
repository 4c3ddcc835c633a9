package jobs

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

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

// tap is a broker whose calls a test may look at and change. A nil field
// passes the call on.
type tap struct {
	broker.Broker
	claim   func(context.Context, broker.ClaimRequest) (broker.Claimed, error)
	settle  func(context.Context, broker.SettleRequest) ([]broker.Verdict, error)
	renew   func(context.Context, broker.RenewRequest) (broker.Renewed, error)
	reclaim func(context.Context, broker.ReclaimRequest) (broker.Claimed, error)
	retire  func(context.Context, broker.RetireRequest) (broker.Retired, error)
	find    func(context.Context, broker.Query) (broker.Page, error)
	limits  *broker.Limits
}

// or returns the first of two methods that is not nil.
func or[Request, Reply any](own, other func(context.Context, Request) (Reply, error)) func(context.Context, Request) (Reply, error) {
	if own != nil {
		return own
	}
	return other
}

func (b *tap) Claim(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
	return or(b.claim, b.Broker.Claim)(ctx, req)
}

func (b *tap) Settle(ctx context.Context, req broker.SettleRequest) ([]broker.Verdict, error) {
	return or(b.settle, b.Broker.Settle)(ctx, req)
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

func (b *tap) Limits() broker.Limits {
	if b.limits != nil {
		return *b.limits
	}
	return b.Broker.Limits()
}

// cable is a connection to a store that can be cut: calls then hang until
// their context ends, and whether they took effect nobody says.
type cable struct {
	tap
	mu  sync.Mutex
	cut bool
}

func (c *cable) setCut(cut bool) {
	c.mu.Lock()
	c.cut = cut
	c.mu.Unlock()
}

func (c *cable) isCut() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cut
}

var errCut = errors.New("i/o timeout")

func through[Req, Reply any](c *cable, call func(context.Context, Req) (Reply, error)) func(context.Context, Req) (Reply, error) {
	return func(ctx context.Context, req Req) (reply Reply, err error) {
		if !c.isCut() {
			reply, err = call(ctx, req)
		}
		if c.isCut() {
			<-ctx.Done()
			return *new(Reply), errCut
		}
		return reply, err
	}
}

func newCable(b broker.Broker) *cable {
	c := &cable{tap: tap{Broker: b}}
	c.claim, c.settle, c.renew = through(c, b.Claim), through(c, b.Settle), through(c, b.Renew)
	c.reclaim, c.retire, c.find = through(c, b.Reclaim), through(c, b.Retire), through(c, b.Find)
	return c
}

// testLog collects what a server logs.
type testLog struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *testLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *testLog) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *testLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// lines returns those that contain text.
func (l *testLog) lines(text string) []string {
	var found []string
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// serve starts a server and shuts it down when the test ends.
func serve(t testing.TB, b broker.Broker, cfg Config, h HandlerFunc) *Server {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	s, err := NewServer(b, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(context.Background(), h); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		s.Shutdown(ctx)
	})
	return s
}

// add enqueues jobs of one type, named by number, and returns their IDs.
func add(t testing.TB, b broker.Broker, queue, typ string, n int, change ...func(*broker.NewJob)) []string {
	t.Helper()
	req := broker.EnqueueRequest{Jobs: make([]broker.NewJob, n)}
	ids := make([]string, n)
	for i := range req.Jobs {
		ids[i] = typ + "-" + strconv.Itoa(i)
		req.Jobs[i] = broker.NewJob{Queue: queue, ID: ids[i],
			Body: broker.Body{Type: typ, Priority: broker.PriorityNormal, MaxRetries: 3, Retention: 24 * 365 * time.Hour}}
		for _, f := range change {
			f(&req.Jobs[i])
		}
	}
	receipts, err := b.Enqueue(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range receipts {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	return ids
}

// stored returns a job as the store has it.
func stored(t testing.TB, b broker.Broker, queue, id string) broker.Job {
	t.Helper()
	page, err := b.Find(context.Background(), broker.Query{Queue: queue, IDs: []string{id}})
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Jobs) != 1 {
		t.Fatalf("the store has %d jobs with the ID %q", len(page.Jobs), id)
	}
	return page.Jobs[0]
}

// expect checks the state of a job in the store.
func expect(t testing.TB, b broker.Broker, queue, id string, state State) broker.Job {
	t.Helper()
	j := stored(t, b, queue, id)
	if j.State != state {
		t.Errorf("the job %q is %v, want %v; its last error: %+v", id, j.State, state, j.Errors.Last())
	}
	return j
}

// count returns how many jobs of a queue are in a state.
func count(t testing.TB, b broker.Broker, queue string, state State) int {
	t.Helper()
	reply, err := b.Queues(context.Background(), broker.QueuesRequest{Names: []string{queue}})
	if err != nil || len(reply.Queues) != 1 {
		t.Fatal(reply.Queues, err)
	}
	return int(reply.Queues[0].Counts[state])
}

func newStore() serving { return serving{membroker.New()} }

// serving is a store in memory that servers treat like one that serves other
// processes: with short leases.
type serving struct{ *membroker.Broker }

func (serving) Limits() broker.Limits { return broker.Limits{} }

// tally counts by name, from any goroutine.
type tally struct {
	mu   sync.Mutex
	n    map[string]int
	most map[string]int
}

func (c *tally) add(name string, n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n, c.most = map[string]int{}, map[string]int{}
	}
	c.n[name] += n
	c.most[name] = max(c.most[name], c.n[name])
	return c.n[name]
}

func (c *tally) get(name string) int { return c.add(name, 0) }

// peak is the highest that the count of a name has been.
func (c *tally) peak(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.most[name]
}
