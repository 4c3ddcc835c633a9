package schedule

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
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

// world is a store in virtual time, which begins with the year 2000, and a record
// of what its servers ran.
type world struct {
	*testing.T
	store     broker.Broker
	schedules *Schedules

	mu      sync.Mutex
	ran     map[string]int       // by ID: how many jobs ran
	made    map[made]bool        // the jobs that ran
	begun   map[string]time.Time // by ID: when a job first began
	handler jobs.HandlerFunc     // nil returns at once

	served *Schedules        // of the last server
	client jobs.ClientConfig // of servers: defaults and middleware
	refuse string            // the client's middleware refuses tasks of this type
}

func inWorld(t *testing.T, f func(w *world)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := membroker.New()
		t.Cleanup(func() { b.Close() })
		f(&world{T: t, store: b, schedules: New(b, "test"), ran: make(map[string]int), made: make(map[made]bool),
			begun: make(map[string]time.Time)})
	})
}

// made distinguishes a job from a later one with the same ID.
type made struct {
	id string
	at time.Time
}

// serve starts a server on b, which is stopped after the test.
func (w *world) serve(b broker.Broker, cfg jobs.Config, ext ExtensionConfig) *jobs.Server {
	w.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	ext.Logger = cfg.Logger
	client := jobs.NewClient(b, jobs.ClientConfig{Defaults: w.client.Defaults,
		Middleware: append([]jobs.EnqueueMiddleware{w.refusing}, w.client.Middleware...)})
	w.served = New(b, "test")
	cfg.Extensions = []jobs.Extension{w.served.Extension(client, ext)}
	s, err := jobs.NewServer(b, cfg)
	if err != nil {
		w.Fatal(err)
	}
	err = s.Start(context.Background(), jobs.HandlerFunc(func(ctx context.Context, j *jobs.Job) error {
		w.mu.Lock()
		// A job may run again after its server died. A second job is created later.
		if job := (made{j.ID(), j.CreatedAt()}); !w.made[job] {
			w.made[job] = true
			if w.ran[j.ID()]++; w.ran[j.ID()] == 1 {
				w.begun[j.ID()] = time.Now()
			}
		}
		w.mu.Unlock()
		if w.handler != nil {
			return w.handler(ctx, j)
		}
		return nil
	}))
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		s.Shutdown(ctx)
	})
	return s
}

// refusing is client middleware that refuses tasks of the type w.refuse.
func (w *world) refusing(next jobs.EnqueueFunc) jobs.EnqueueFunc {
	return func(ctx context.Context, batch []*jobs.Outgoing) {
		for _, o := range batch {
			if w.refuse != "" && o.Body.Type == w.refuse {
				o.Err = broker.Invalid("type", "is not wanted")
			}
		}
		next(ctx, batch)
	}
}

// up starts a server with default settings.
func (w *world) up() *jobs.Server {
	w.Helper()
	return w.serve(w.store, jobs.Config{}, ExtensionConfig{})
}

func (w *world) down(s *jobs.Server) {
	w.Helper()
	if err := s.Shutdown(w.Context()); err != nil {
		w.Error(err)
	}
}

func (w *world) put(id string, spec Spec, opts ...Option) Change {
	w.Helper()
	change, err := w.schedules.Put(w.Context(), id, spec, jobs.NewTask("task", nil), opts...)
	if err != nil {
		w.Fatal(err)
	}
	return change
}

func (w *world) info(id string) Info {
	w.Helper()
	info, err := w.schedules.Get(w.Context(), id)
	if err != nil {
		w.Fatal(err)
	}
	return info
}

// ticks returns the times in the IDs of the jobs that ran, in order.
func (w *world) ticks() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ids []string
	for id := range w.ran {
		ids = append(ids, id[strings.Index(id, "@")+1:])
	}
	slices.Sort(ids)
	return ids
}

// exactly checks that each of the ticks ran once, and that nothing else ran.
func (w *world) exactly(what, id string, want []time.Time) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	var wrong []string
	for _, at := range want {
		if n := w.ran[tick{At: at}.jobID(id)]; n != 1 {
			wrong = append(wrong, fmt.Sprintf("%s ran %d times", at.UTC().Format(time.RFC3339), n))
		}
	}
	if len(wrong) > 0 || len(w.ran) != len(want) {
		w.Errorf("%s: of %d ticks %d ran, %d of them wrong: %v", what, len(want), len(w.ran), len(wrong), wrong[:min(len(wrong), 10)])
	}
}

func (w *world) nominal(spec Spec, from, to time.Time) []time.Time {
	w.Helper()
	timing, err := spec.parse(time.Time{})
	if err != nil {
		w.Fatal(err)
	}
	var times []time.Time
	for at, ok := timing.next(from); ok && !at.After(to); at, ok = timing.next(at) {
		times = append(times, at)
	}
	return times
}

// pass lets time pass, and waits until everything is idle.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// inWorld2 is inWorld for a test that has used inWorld already.
func inWorld2(t *testing.T, f func(w *world)) {
	t.Helper()
	t.Run("also", func(t *testing.T) { inWorld(t, f) })
}
