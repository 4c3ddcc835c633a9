package relay

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

func TestRelay_TakesAJobAlongWhole(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		body := broker.Body{Type: "email:welcome", TypeVersion: 3, Payload: []byte("\xff\x00"),
			Headers:  map[string]string{"traceparent": "00-\xfe"},
			Priority: broker.PriorityLow, MaxRetries: 7, CrashBudget: 2, Timeout: time.Minute, Deadline: time.Now().Add(time.Hour).UTC(),
			Retention: 2 * time.Hour, Backoff: broker.Backoff{Kind: broker.BackoffLinear, Base: time.Second, Max: time.Minute},
			Unique: broker.Unique{Key: "u", TTL: time.Hour}, Key: "acme", CorrelationID: "c", IdempotencyKey: "i", PayloadRef: "p", Source: "shop"}
		accepted(t, w.from, broker.NewJob{Queue: outbox, ID: "one", Body: body})
		pass(time.Second)
		w.run(w.relay(w.from, w.to))
		pass(time.Second)
		j := find(t, w.to, mail, "one")
		if j == nil {
			t.Fatal("the job did not arrive")
		}
		body.GivenID = true
		if !reflect.DeepEqual(j.Body, body) {
			t.Errorf("the job arrived as\n%+v\nwant\n%+v", j.Body, body)
		}
		if !reflect.DeepEqual(j.Head, broker.Head{}) || j.State != broker.StatePending {
			t.Errorf("the job arrived %v, with the history %+v; want a fresh one", j.State, j.Head)
		}
		if j := find(t, w.from, outbox, "one"); j == nil || j.State != broker.StateCompleted {
			t.Errorf("at the source the job is %+v, want completed", j)
		}
	})
}

// Delayed jobs wait at the source, where they can be cancelled. The relay moves them
// in time even if the store does not wake a waiting claim.
func TestRelay_MovesJobsWhenTheyAreDue(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		const delay = time.Hour + 31*time.Second // no claim happens to come at that time
		accepted(t, w.from, broker.NewJob{Queue: outbox, ID: "later", Delay: delay,
			Body: broker.Body{Type: "t", Priority: broker.PriorityNormal, DueAfter: delay}})
		asleep := broker.Wrap(w.from, func(ctx context.Context, c *broker.Call, next func(context.Context) error) error {
			if req, ok := c.Request.(*broker.ClaimRequest); ok && req.Wait > 0 {
				time.Sleep(req.Wait)
				req.Wait = 0
			}
			return next(ctx)
		})
		w.run(w.relay(asleep, w.to))
		pass(delay - time.Second)
		if j := find(t, w.to, mail, "later"); j != nil {
			t.Errorf("the job arrived %v before its time", time.Second)
		}
		pass(time.Second + 100*time.Millisecond)
		if j := find(t, w.to, mail, "later"); j == nil || j.State != broker.StatePending || j.DueAfter != 0 {
			t.Errorf("when it is due the job is %+v at the target, want it pending, and due since it arrived", j)
		}
	})
}

func TestRelay_StopsWhenEmpty(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		w.serve(0)
		w.put(threeKeys, 25)
		if err := w.relay(w.from, w.to, func(c *Config) { c.StopWhenEmpty, c.Batch = true, 10 }).Run(t.Context()); err != nil {
			t.Error(err)
		}
		pass(time.Second)
		w.exactlyOnce("until none was left")
	})
}

// The relay prunes the source, since no server may do so.

func TestRelay_PrunesTheSource(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		body := broker.Body{Type: "t", Priority: broker.PriorityNormal, Retention: time.Hour}
		accepted(t, w.from, broker.NewJob{Queue: outbox, ID: "kept", Body: body})
		w.run(w.relay(w.from, w.to))
		pass(time.Minute)
		if find(t, w.from, outbox, "kept") == nil {
			t.Fatal("the record is gone before its time")
		}
		pass(time.Hour + 2*time.Minute)
		if n := w.counts(w.from, outbox)[broker.StateCompleted]; n != 0 {
			t.Errorf("%d records are left after their time", n)
		}
	})
}

// A server runs the relays in its Extensions, also without a queue of the
// framework.

func TestRelay_InAServer(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		r := w.relay(w.from, w.to)
		s, err := jobs.NewServer(w.to, jobs.Config{Queues: map[string]int{mail: 1}, Concurrency: 1, Logger: discard,
			Extensions: []jobs.Extension{r.Extension()}})
		if err == nil {
			err = s.Start(context.Background(), jobs.HandlerFunc(func(_ context.Context, j *jobs.Job) error {
				w.arrived = append(w.arrived, j.ID())
				return nil
			}))
		}
		if err != nil {
			t.Fatal(err)
		}
		w.put(threeKeys, 10)
		pass(time.Second)
		if err := s.Ready(); err != nil {
			t.Errorf("Ready says %v", err)
		}
		w.exactlyOnce("in a server")
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if r.Stats().Active || len(w.queue(w.from, outbox).Workers) > 0 {
			t.Errorf("the relay outlives its server: %+v", r.Stats())
		}
	})
}

func TestNew_ConfigsThatCannotBe(t *testing.T) {
	t.Parallel()
	from, to := membroker.New(), membroker.New()
	good := Config{From: from, FromQueue: outbox, To: to}
	for name, change := range map[string]func(*Config){
		"From":     func(c *Config) { c.From = nil },
		"From: ":   func(c *Config) { c.From = (*membroker.Broker)(nil) },
		"To":       func(c *Config) { c.To = nil },
		"To: ":     func(c *Config) { c.To = (*membroker.Broker)(nil) },
		"queue":    func(c *Config) { c.FromQueue = "" },
		"@relays":  func(c *Config) { c.FromQueue = "@relays" },
		"@x":       func(c *Config) { c.ToQueue = "@x" },
		"Batch":    func(c *Config) { c.Batch = 1001 },
		"Lease":    func(c *Config) { c.Lease = time.Millisecond },
		"mail+*":   func(c *Config) { c.FromQueue = "mail+*" },
		"several":  func(c *Config) { c.ToQueue = "mail+*" },
		"{braces}": func(c *Config) { c.ToQueue = "{braces}" },
	} {
		cfg := good
		change(&cfg)
		if _, err := New(cfg); !errors.Is(err, broker.ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: New says %v, want ErrInvalid that names it", name, err)
		}
	}
	if _, err := New(good); err != nil {
		t.Errorf("a good config: %v", err)
	}
}

func TestRelay_OntoItself(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		store := membroker.NewStore()
		from, to := store.Open(), store.Open()
		defer from.Close()
		defer to.Close()
		same := w.relay(from, to, func(c *Config) { c.ToQueue = outbox })
		if err := same.Run(t.Context()); !errors.Is(err, broker.ErrInvalid) || !strings.Contains(err.Error(), "target") {
			t.Errorf("a relay onto itself says %v, want ErrInvalid", err)
		}
		stop := w.run(w.relay(from, to))
		pass(time.Second)
		accepted(t, from, broker.NewJob{Queue: outbox, ID: "x", Body: broker.Body{Type: "t", Priority: broker.PriorityNormal}})
		pass(time.Second)
		if _, err := inspect.New(to).Job(t.Context(), mail, "x"); err != nil {
			t.Errorf("into another queue of the same store: %v", err)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		r := w.relay(w.from, w.to)
		w.run(r)
		pass(time.Second)
		if err := r.Run(t.Context()); !errors.Is(err, ErrRunning) {
			t.Errorf("a second Run says %v, want ErrRunning", err)
		}
		w.from.Close()
		closed := w.relay(w.from, w.to)
		if err := closed.Run(t.Context()); !errors.Is(err, broker.ErrClosed) {
			t.Errorf("with a closed source Run says %v, want ErrClosed", err)
		}
	})
}

func TestMarkOf_LongNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("q", broker.MaxNameLen)
	for _, queue := range []string{"mail", long} {
		if err := broker.CheckName("name", markOf(queue)); err != nil {
			t.Errorf("the mark of a queue of %d bytes: %v", len(queue), err)
		}
	}
	if markOf(long) == markOf(fmt.Sprintf("%sx", long[1:])) {
		t.Error("two queues have one mark")
	}
}
