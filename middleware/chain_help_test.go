package middleware_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

// inBubble runs a test in virtual time, beside others.
func inBubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, f)
}

// letPass lets time go by, and then all that it set off settle.
func letPass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// world is a server on a store of its own.
type world struct {
	t      *testing.T
	b      *membroker.Broker
	client *jobs.Client
	server *jobs.Server
}

// newWorld starts a server, for the time of a test.
func newWorld(t *testing.T, cfg jobs.Config, h jobs.HandlerFunc, chain ...jobs.Middleware) *world {
	t.Helper()
	w := &world{t: t, b: membroker.New()}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	cfg.Middleware = chain
	var err error
	if w.server, err = jobs.NewServer(w.b, cfg); err != nil {
		t.Fatal(err)
	}
	w.client = jobs.NewClient(w.b, jobs.ClientConfig{Defaults: []jobs.Option{jobs.WithRetention(1000 * time.Hour)}})
	if err := w.server.Start(h); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		w.server.Shutdown(ctx)
		w.client.Close()
		w.b.Close()
	})
	return w
}

// add enqueues a job and returns its ID.
func (w *world) add(typ string, opts ...jobs.Option) string {
	w.t.Helper()
	info, err := w.client.Enqueue(context.Background(), jobs.NewTask(typ, []byte("secret payload")), opts...)
	if err != nil {
		w.t.Fatal(err)
	}
	return info.ID
}

// record is a job as it is stored.
func (w *world) record(id string) *broker.Job {
	w.t.Helper()
	page, err := w.b.Find(context.Background(), broker.Query{Queue: jobs.DefaultQueue, IDs: []string{id}})
	if err != nil || len(page.Jobs) != 1 {
		w.t.Fatalf("the store has %d jobs with the ID %q: %v", len(page.Jobs), id, err)
	}
	return &page.Jobs[0]
}

// want checks the state of a job and returns it.
func (w *world) want(id string, state jobs.State) *broker.Job {
	w.t.Helper()
	j := w.record(id)
	if j.State != state {
		w.t.Errorf("the job %s is %v, want %v; its errors: %+v", id, j.State, state, j.Errors.Entries)
	}
	return j
}

// call runs a handler inside of middleware without a server.
func call(m jobs.Middleware, job *jobs.Job, h jobs.HandlerFunc) error {
	return m(h).ProcessJob(context.Background(), job)
}

// aJob is a job that no store knows.
func aJob(typ string) *jobs.Job {
	return jobs.NewJob(&broker.Job{Queue: "q", ID: "1", Body: broker.Body{Type: typ, MaxRetries: 3, Payload: []byte("secret payload")}})
}

func returning(err error) jobs.HandlerFunc {
	return func(context.Context, *jobs.Job) error { return err }
}

// wantRefusal checks that making a middleware panics, and with what words.
func wantRefusal(t *testing.T, words string, make func()) {
	t.Helper()
	defer func() {
		t.Helper()
		err, _ := recover().(error)
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("the panic says %v, want it to name %q", err, words)
		}
	}()
	make()
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// nobody is a hook that must not be called.
func nobody(t *testing.T) func(context.Context, *jobs.Job, *jobs.PanicError) {
	return func(_ context.Context, job *jobs.Job, p *jobs.PanicError) {
		t.Errorf("the hook was called for %s: %v", job.ID(), p)
	}
}

var errFlaky = fmt.Errorf("no luck")
