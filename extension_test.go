package jobs

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

const reserved = broker.ReservedPrefix + "test"

// putReserved stores a job in the queue of an extension, as packages of the
// framework do: past the client.
func putReserved(t *testing.T, b broker.Broker, body broker.Body) {
	t.Helper()
	body.Type, body.Priority = "tick", PriorityNormal
	receipts, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{{Queue: reserved, ID: "one", Body: body}}})
	if err != nil || receipts[0].Err != nil {
		t.Fatal(err, receipts)
	}
}

func TestExtension_RunsWhileEverySlotIsTaken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := membroker.New()
		ran, release, started := make(chan string, 1), make(chan struct{}), make(chan struct{})
		var ended context.Context
		serve(t, b, Config{Concurrency: 1, Extensions: []Extension{{
			Queue:   reserved,
			Handler: HandlerFunc(func(_ context.Context, j *Job) error { ran <- j.Queue(); return nil }),
			Start:   func(ctx context.Context) { ended = ctx; <-ctx.Done() },
		}}, Middleware: []Middleware{func(h Handler) Handler {
			return HandlerFunc(func(ctx context.Context, j *Job) error {
				if j.Queue() == reserved {
					t.Error("the server's middleware ran for the extension's job")
				}
				return h.ProcessJob(ctx, j)
			})
		}}}, func(context.Context, *Job) error { close(started); <-release; return nil })
		if _, err := NewClient(b, ClientConfig{}).Enqueue(t.Context(), NewTask("long", nil)); err != nil {
			t.Fatal(err)
		}
		<-started
		putReserved(t, b, broker.Body{})
		if got := <-ran; got != reserved {
			t.Errorf("the extension's handler got a job of %q", got)
		}
		synctest.Wait()
		if ended == nil || ended.Err() != nil {
			t.Errorf("the context of Start is %v while the server runs", ended)
		}
		close(release)
	})
}

func TestExtension_DrainsWithItsServer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := membroker.New()
		var start context.Context
		finished := false
		s := serve(t, b, Config{Extensions: []Extension{{
			Queue: reserved, Start: func(ctx context.Context) { start = ctx; <-ctx.Done() },
			Handler: HandlerFunc(func(context.Context, *Job) error { time.Sleep(time.Second); finished = true; return nil }),
		}}}, func(context.Context, *Job) error { return nil })
		putReserved(t, b, broker.Body{})
		pass(100 * time.Millisecond)
		if err := s.Ready(); err != nil {
			t.Errorf("Ready says %v", err)
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if !finished {
			t.Error("the drain did not wait for the extension's handler")
		}
		if start.Err() == nil {
			t.Error("the context of Start outlives the server")
		}
		info, err := inspect.New(b).Queue(t.Context(), reserved)
		if err != nil || len(info.Workers) != 0 {
			t.Errorf("after the drain the queue is served by %v (%v)", info.Workers, err)
		}
	})
}

func TestExtension_WithoutAQueue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := membroker.New()
		var start context.Context
		stopped := false
		s := serve(t, b, Config{Extensions: []Extension{{
			Start: func(ctx context.Context) { start = ctx; <-ctx.Done(); time.Sleep(startsGrace / 2); stopped = true },
		}}}, func(context.Context, *Job) error { return nil })
		pass(time.Second)
		if err := s.Ready(); err != nil {
			t.Errorf("Ready says %v", err)
		}
		if start == nil || start.Err() != nil {
			t.Fatalf("the context of Start is %v while the server runs", start)
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if start.Err() == nil || !stopped {
			t.Error("the drain did not end Start, or did not wait for it")
		}
	})
}

func TestExtension_NoCrashEndsAJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := membroker.New()
		runs := 0
		serve(t, b, Config{Lease: time.Second, Extensions: []Extension{{
			Queue: reserved, Handler: HandlerFunc(func(context.Context, *Job) error { runs++; return nil })}}},
			func(context.Context, *Job) error { return nil })
		head := broker.Head{Crashes: 1000}
		receipts, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{{Queue: reserved, ID: "crashed",
			Body: broker.Body{Type: "x", Priority: PriorityNormal}, Restore: &broker.Restored{State: broker.StatePending, Head: head}}}})
		if err != nil || receipts[0].Err != nil {
			t.Fatal(err, receipts)
		}
		pass(time.Second)
		if runs != 1 {
			t.Fatalf("a job that crashed a thousand times ran %d times", runs)
		}
		s, err := NewServer(b, Config{})
		if err != nil {
			t.Fatal(err)
		}
		p := extensionPolicy{policy{Server: s}}
		first := p.Crashed(&broker.Job{Head: head}, "w")
		if first.Kind() != broker.OutcomeCrash || first.Delay() != 0 {
			t.Errorf("a crash gives %v after %v, want crash at once", first.Kind(), first.Delay())
		}
		for n, want := range []time.Duration{crashedMin, 2 * crashedMin, 4 * crashedMin, 8 * crashedMin, crashedMax, crashedMax} {
			head = first.Apply(head, time.Now(), 10)
			if o := p.Crashed(&broker.Job{Head: head}, "w"); o.Kind() != broker.OutcomeCrash || o.Delay() < want/2 || o.Delay() > want*3/2 {
				t.Errorf("crash %d in a row gives %v after %v, want crash after about %v", n+2, o.Kind(), o.Delay(), want)
			}
		}
		pass(crashedRecently)
		if o := p.Crashed(&broker.Job{Head: head}, "w"); o.Delay() != 0 {
			t.Errorf("a crash long after others gives a delay of %v", o.Delay())
		}
	})
}

func TestExtension_AnUnreadableJobWaitsAndSaysWhy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := &tap{Broker: newStore()}
		b.claim = func(ctx context.Context, req broker.ClaimRequest) (broker.Claimed, error) {
			got, err := b.Broker.Claim(ctx, req)
			for i := range got.Jobs {
				got.Jobs[i].Broken = broker.ErrMalformed
			}
			return got, err
		}
		log := new(testLog)
		serve(t, b, Config{Logger: log.logger(), UnknownTypeLimit: -1, Extensions: []Extension{{
			Queue: reserved, Handler: HandlerFunc(func(context.Context, *Job) error { return nil })}}},
			func(context.Context, *Job) error { return nil })
		putReserved(t, b, broker.Body{})
		pass(time.Hour)
		j := expect(t, b, reserved, "one", StateRetry)
		if n := j.Snoozes; n < 50 || n > 150 || j.PutOffFor(broker.ReasonUndecodable.String()).Times != n {
			t.Errorf("in an hour it was snoozed %d times, %+v", n, j.PutOffs)
		}
		if len(j.Errors.Entries) != 1 || j.Errors.Last().Class != ClassUnreadable || j.Errors.Dropped != 0 {
			t.Errorf("its history is %+v, want one entry that says why", j.Errors)
		}
		if len(log.lines("cannot run a job")) == 0 {
			t.Error("the log says nothing")
		}
	})
}

func TestExtension_ReservedQueuesAreNotTheApplications(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := membroker.New()
		client := NewClient(b, ClientConfig{})
		_, err := client.Enqueue(t.Context(), NewTask("a", nil), WithQueue(reserved))
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "the framework itself") {
			t.Errorf("enqueueing into a reserved queue says %v", err)
		}
		moved := NewClient(b, ClientConfig{Middleware: []EnqueueMiddleware{func(next EnqueueFunc) EnqueueFunc {
			return func(ctx context.Context, batch []*Outgoing) { batch[0].Queue = reserved; next(ctx, batch) }
		}}})
		if _, err := moved.Enqueue(t.Context(), NewTask("a", nil)); !errors.Is(err, ErrInvalid) {
			t.Errorf("a middleware that changes the queue to a reserved one gets %v", err)
		}
		if _, err := client.Enqueue(t.Context(), NewTask("a", nil)); err != nil {
			t.Fatal(err)
		}
		putReserved(t, b, broker.Body{})
		i := inspect.New(b)
		all, err := i.Queues(t.Context())
		if err != nil || len(all) != 1 || all[0].Name != DefaultQueue {
			t.Errorf("the list of all queues is %v (%v), want %s alone", all, err, DefaultQueue)
		}
		if named, err := i.Queues(t.Context(), reserved); err != nil || len(named) != 1 {
			t.Errorf("a reserved queue asked for by name: %v (%v)", named, err)
		}
	})
}

func TestConfig_ExtensionsThatCannotBe(t *testing.T) {
	h := HandlerFunc(func(context.Context, *Job) error { return nil })
	for name, cfg := range map[string]Config{
		"a queue of the application": {Extensions: []Extension{{Queue: "mail", Handler: h}}},
		"braces":                     {Extensions: []Extension{{Queue: "@{}", Handler: h}}},
		"nothing":                    {Extensions: []Extension{{}}},
		"a handler without a queue":  {Extensions: []Extension{{Handler: h, Start: func(context.Context) {}}}},
		"no handler":                 {Extensions: []Extension{{Queue: reserved}}},
		"two of one queue":           {Extensions: []Extension{{Queue: reserved, Handler: h}, {Queue: reserved, Handler: h}}},
		"concurrency":                {Extensions: []Extension{{Queue: reserved, Handler: h, Concurrency: -1}}},
		"among Queues":               {Queues: map[string]int{reserved: 1}},
	} {
		if _, err := NewServer(membroker.New(), cfg); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: NewServer says %v, want ErrInvalid", name, err)
		}
	}
}

// An extension gives the server's own handlers what it knows, outside of the
// server's middleware, and hears of all that the server and extensions settle.
func TestExtension_MiddlewareAndSettled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := membroker.New()
		type key struct{}
		var mu sync.Mutex
		settled := make(map[string]State)
		got := make(map[string]any)
		met := func(who string, ctx context.Context) {
			mu.Lock()
			defer mu.Unlock()
			got[who] = ctx.Value(key{})
		}
		serve(t, b, Config{
			Extensions: []Extension{{
				Queue:   reserved,
				Handler: HandlerFunc(func(ctx context.Context, _ *Job) error { met("extension", ctx); return nil }),
				Middleware: func(h Handler) Handler {
					return HandlerFunc(func(ctx context.Context, j *Job) error {
						return h.ProcessJob(context.WithValue(ctx, key{}, "known"), j)
					})
				},
				Settled: func(e SettleEvent) {
					mu.Lock()
					defer mu.Unlock()
					for _, v := range e.Verdicts {
						settled[v.Queue] = v.State
					}
				},
			}},
			Middleware: []Middleware{func(h Handler) Handler {
				return HandlerFunc(func(ctx context.Context, j *Job) error {
					met("middleware", ctx)
					return h.ProcessJob(ctx, j)
				})
			}},
		}, func(ctx context.Context, _ *Job) error { met("handler", ctx); return SkipRetry })
		putReserved(t, b, broker.Body{})
		if _, err := NewClient(b, ClientConfig{}).Enqueue(t.Context(), NewTask("task", nil)); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		mu.Lock()
		defer mu.Unlock()
		if got["handler"] != "known" || got["middleware"] != "known" || got["extension"] != nil {
			t.Errorf("the extension's middleware reached %v, want the handler and the middleware", got)
		}
		if settled[DefaultQueue] != StateDead || settled[reserved] != StateCompleted {
			t.Errorf("Settled heard of %v, want a dead job and a completed one of %s", settled, reserved)
		}
	})
}

func TestClient_DraftAndBroker(t *testing.T) {
	b := membroker.New()
	defer b.Close()
	c := NewClient(b, ClientConfig{Defaults: []Option{WithQueue("mine"), WithMaxRetries(1)}})
	task := NewTask("t", []byte("p"), WithMaxRetries(2))
	more := task.With(WithMaxRetries(3), WithPartitionKey("k"))
	first, err1 := c.Draft(task)
	second, err2 := c.Draft(more, WithQueue("other"))
	if err1 != nil || first.Queue != "mine" || first.Body.MaxRetries != 2 || first.Body.Key != "" {
		t.Errorf("the draft is %+v, %v", first, err1)
	}
	if err2 != nil || second.Queue != "other" || second.Body.MaxRetries != 3 || second.Body.Key != "k" || string(second.Body.Payload) != "p" {
		t.Errorf("the draft with more options is %+v, %v", second, err2)
	}
	if _, err := c.Draft(nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("a draft of no task: %v", err)
	}
	if c.Broker() != b || c.In(b).Broker() != nil || (*Client)(nil).Broker() != nil {
		t.Error("Broker is not that of the client, or one of a transaction has one")
	}
}
