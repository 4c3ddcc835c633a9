// Package chaintest runs middleware on a server in virtual time. The tests of middleware packages use
// it.
package chaintest

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

// InBubble runs f in virtual time, in parallel with other tests.
func InBubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, f)
}

// LetPass sleeps for d of virtual time and then waits until every goroutine of the bubble is blocked.
func LetPass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// World is a server on a memory store.
type World struct {
	t      *testing.T
	B      *membroker.Broker
	Client *jobs.Client
	Server *jobs.Server
}

// NewWorld starts a server, which ends with the test.
func NewWorld(t *testing.T, cfg jobs.Config, h jobs.HandlerFunc, chain ...jobs.Middleware) *World {
	t.Helper()
	w := &World{t: t, B: membroker.New()}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	cfg.Middleware = chain
	var err error
	if w.Server, err = jobs.NewServer(w.B, cfg); err != nil {
		t.Fatal(err)
	}
	w.Client = jobs.NewClient(w.B, jobs.ClientConfig{Defaults: []jobs.Option{jobs.WithRetention(1000 * time.Hour)}})
	if err := w.Server.Start(context.Background(), h); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		w.Server.Shutdown(ctx)
		w.Client.Close()
		w.B.Close()
	})
	return w
}

// Add enqueues a job and returns its ID.
func (w *World) Add(typ string, opts ...jobs.Option) string {
	w.t.Helper()
	info, err := w.Client.Enqueue(context.Background(), jobs.NewTask(typ, []byte("secret payload")), opts...)
	if err != nil {
		w.t.Fatal(err)
	}
	return info.ID
}

// Record returns the stored record of a job.
func (w *World) Record(id string) *broker.Job {
	w.t.Helper()
	page, err := w.B.Find(context.Background(), broker.Query{Queue: jobs.DefaultQueue, IDs: []string{id}})
	if err != nil || len(page.Jobs) != 1 {
		w.t.Fatalf("the store has %d jobs with the ID %q: %v", len(page.Jobs), id, err)
	}
	return &page.Jobs[0]
}

// Want returns the record of a job and fails the test if its state differs.
func (w *World) Want(id string, state jobs.State) *broker.Job {
	w.t.Helper()
	j := w.Record(id)
	if j.State != state {
		w.t.Errorf("the job %s is %v, want %v; its errors: %+v", id, j.State, state, j.Errors.Entries)
	}
	return j
}

// Call runs a handler inside a middleware, without a server.
func Call(m jobs.Middleware, job *jobs.Job, h jobs.HandlerFunc) error {
	return m(h).ProcessJob(context.Background(), job)
}

// AJob returns a job that is in no store.
func AJob(typ string) *jobs.Job {
	return jobs.NewJob(&broker.Job{Queue: "q", ID: "1", Body: broker.Body{Type: typ, MaxRetries: 3, Payload: []byte("secret payload")}})
}

// Returning returns a handler that returns err.
func Returning(err error) jobs.HandlerFunc {
	return func(context.Context, *jobs.Job) error { return err }
}

// WantRefusal fails the test unless make panics with an error that contains words.
func WantRefusal(t *testing.T, words string, make func()) {
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

// Quiet discards what is logged.
var Quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// Nobody returns a hook that fails the test if it is called.
func Nobody(t *testing.T) func(context.Context, *jobs.Job, *jobs.PanicError) {
	return func(_ context.Context, job *jobs.Job, p *jobs.PanicError) {
		t.Errorf("the hook was called for %s: %v", job.ID(), p)
	}
}

// ErrFlaky is an error to retry.
var ErrFlaky = fmt.Errorf("no luck")

// PlainLogger returns a logger that writes to standard output, without the attributes that differ from run to run, and
// without those that would make a line of an example too long to read.
func PlainLogger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		switch a.Key {
		case slog.TimeKey, slog.MessageKey, "id", "duration", "stack", "next_attempt_at", "event", "queue", "attempt", "delivery":
			return slog.Attr{}
		}
		return a
	}}))
}
