package jobs

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

type sms struct{ To string }

var smsJobs = Define[sms]("sms")

// batches collects what a batch handler was given.
type batches struct {
	mu  sync.Mutex
	all [][]string // IDs
	at  []time.Duration
}

func (b *batches) add(begun time.Time, batch []*BatchJob[sms]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var ids []string
	for _, j := range batch {
		ids = append(ids, j.Job.ID())
	}
	slices.Sort(ids)
	b.all, b.at = append(b.all, ids), append(b.at, time.Since(begun))
}

// serveMany starts a server whose only handler is one of batches.
func serveMany(t *testing.T, b broker.Broker, cfg Config, many ManyConfig, f func(context.Context, []*BatchJob[sms]) error,
	chain ...Middleware) *Server {
	t.Helper()
	mux := NewServeMux()
	HandleMany(mux, smsJobs, many, f, chain...)
	cfg.Logger = (&testLog{}).logger()
	s, err := NewServer(b, cfg)
	if err == nil {
		err = s.Start(context.Background(), mux)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Shutdown(context.Background()) })
	return s
}

func text(payload string) func(*broker.NewJob) {
	return func(j *broker.NewJob) { j.Body.Payload = []byte(payload) }
}

func TestHandleMany_AFullBatchIsHandedOverAtOnceAndTheRestAfterItsWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		var got batches
		begun := time.Now()
		serveMany(t, b, Config{Concurrency: 10}, ManyConfig{Max: 4, Wait: 7 * time.Second},
			func(_ context.Context, batch []*BatchJob[sms]) error {
				got.add(begun, batch)
				for _, j := range batch {
					if j.Args.To != "ada" {
						t.Errorf("job %s has the arguments %+v", j.Job.ID(), j.Args)
					}
				}
				return nil
			})
		ids := add(t, b, DefaultQueue, "sms", 10, text(`{"To":"ada"}`))
		pass(time.Minute)
		if len(got.all) != 3 || len(got.all[0]) != 4 || len(got.all[1]) != 4 || len(got.all[2]) != 2 {
			t.Fatalf("the batches are %v, want two of four and one of two", got.all)
		}
		if got.at[1] > time.Second || got.at[2] < 7*time.Second || got.at[2] > 8*time.Second {
			t.Errorf("the batches were handed over after %v, want two at once and one after 7 s", got.at)
		}
		for _, id := range ids {
			expect(t, b, DefaultQueue, id, StateCompleted)
		}
	})
}

func TestHandleMany_EachJobHasItsOwnOutcome(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		calls := 0
		serveMany(t, b, Config{RetryPolicy: Constant(time.Hour)}, ManyConfig{Max: 5}, func(_ context.Context, batch []*BatchJob[sms]) error {
			calls++
			for _, j := range batch {
				switch j.Args.To {
				case "nobody":
					j.Err = fmt.Errorf("%w: no such number", SkipRetry)
				case "busy":
					j.Err = errors.New("busy")
				case "later":
					j.Err = Snooze(time.Hour)
				default:
					j.Job.SetResult([]byte(`"sent"`))
				}
			}
			return nil
		})
		for to, state := range map[string]State{"nobody": StateDead, "busy": StateRetry, "later": StateRetry, "ada": StateCompleted} {
			add(t, b, DefaultQueue, "sms", 1, func(j *broker.NewJob) { j.ID, j.Body.Payload = to, []byte(`{"To":"`+to+`"}`) })
			defer func() {
				j := expect(t, b, DefaultQueue, to, state)
				if charged := to != "later" && to != "ada"; (j.Failures == 1) != charged {
					t.Errorf("job %s has %d failures", to, j.Failures)
				}
			}()
		}
		add(t, b, DefaultQueue, "sms", 1, func(j *broker.NewJob) { j.ID, j.Body.Payload = "garbled", []byte("no JSON") })
		pass(time.Minute)
		expect(t, b, DefaultQueue, "garbled", StateDead)
		if calls != 1 {
			t.Errorf("%d calls, want one for all that could be decoded", calls)
		}
		if j := stored(t, b, DefaultQueue, "ada"); string(j.Result) != `"sent"` {
			t.Errorf("the result is %q", j.Result)
		}
	})
}

func TestHandleMany_AFailedCallIsEverybodys(t *testing.T) {
	for name, test := range map[string]struct {
		fail  func() error
		class string
		text  string
	}{
		"error":  {func() error { return errors.New("gateway is away") }, ClassRetryable, "gateway is away"},
		"panic":  {func() error { panic("out of order") }, ClassPanic, "out of order"},
		"goexit": {func() error { runtime.Goexit(); return nil }, ClassRetryable, "Goexit"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newStore()
				serveMany(t, b, Config{RetryPolicy: Constant(time.Hour)}, ManyConfig{Max: 3}, func(_ context.Context, batch []*BatchJob[sms]) error {
					for _, j := range batch {
						if j.Args.To == "nobody" {
							j.Err = SkipRetry
						}
					}
					return test.fail()
				})
				add(t, b, DefaultQueue, "sms", 2, text(`{"To":"ada"}`))
				add(t, b, DefaultQueue, "sms", 1, func(j *broker.NewJob) { j.ID, j.Body.Payload = "own", []byte(`{"To":"nobody"}`) })
				pass(time.Minute)
				for _, id := range []string{"sms-0", "sms-1"} {
					j := expect(t, b, DefaultQueue, id, StateRetry)
					if f := j.Errors.Last(); f.Class != test.class || !strings.Contains(f.Message, test.text) ||
						(f.Stack != "") != (test.class == ClassPanic) {
						t.Errorf("job %s failed by %+v, want class %s and %q", id, f, test.class, test.text)
					}
				}
				if name != "goexit" { // that job's goroutine may be the one that ended
					expect(t, b, DefaultQueue, "own", StateDead)
				}
			})
		})
	}
}

func TestHandleMany_ByKeyEachBatchHasOneKey(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		var got batches
		serveMany(t, b, Config{Concurrency: 12}, ManyConfig{Max: 4, ByKey: true}, func(_ context.Context, batch []*BatchJob[sms]) error {
			got.add(time.Now(), batch)
			for _, j := range batch {
				if j.Job.PartitionKey() != batch[0].Job.PartitionKey() {
					t.Errorf("a batch has the keys %q and %q", j.Job.PartitionKey(), batch[0].Job.PartitionKey())
				}
			}
			return nil
		})
		for i := range 12 {
			add(t, b, DefaultQueue, "sms", 1, func(j *broker.NewJob) {
				j.ID, j.Body.Key, j.Body.Payload = fmt.Sprint(i), fmt.Sprint("tenant", i%3), []byte("{}")
			})
		}
		pass(time.Minute)
		if len(got.all) != 3 {
			t.Errorf("the batches are %v, want one for each of three keys", got.all)
		}
	})
}

func TestHandleMany_ADrainDoesNotWaitForMore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		var got batches
		s := serveMany(t, b, Config{ShutdownTimeout: time.Minute}, ManyConfig{Max: 5, Wait: 10 * time.Minute},
			func(_ context.Context, batch []*BatchJob[sms]) error {
				got.add(time.Now(), batch)
				return nil
			})
		ids := add(t, b, DefaultQueue, "sms", 3, text("{}"))
		pass(time.Second)
		if len(got.all) != 0 {
			t.Fatalf("%v was handed over before its wait is over", got.all)
		}
		begun := time.Now()
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took > time.Second || len(got.all) != 1 || len(got.all[0]) != 3 {
			t.Errorf("the drain took %v and handed over %v, want all three at once", took, got.all)
		}
		for _, id := range ids {
			expect(t, b, DefaultQueue, id, StateCompleted)
		}
	})
}

func TestHandleMany_AJobWhoseRunEndsLeavesItsBatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		var got batches
		serveMany(t, b, Config{Lease: 3 * time.Second}, ManyConfig{Max: 5, Wait: time.Minute},
			func(_ context.Context, batch []*BatchJob[sms]) error {
				got.add(time.Now(), batch)
				return nil
			})
		add(t, b, DefaultQueue, "sms", 3, text("{}"))
		add(t, b, DefaultQueue, "sms", 1, text("{}"), func(j *broker.NewJob) { j.ID, j.Body.Timeout = "short", 30*time.Second })
		pass(20 * time.Second)
		_, err := b.Operate(t.Context(), broker.Operation{Kind: broker.OpCancel,
			Refs: []broker.Ref{{Queue: DefaultQueue, ID: "sms-1", Epoch: broker.AnyEpoch}}})
		if err != nil {
			t.Fatal(err)
		}
		pass(20 * time.Second)
		expect(t, b, DefaultQueue, "sms-1", StateCancelled)
		if j := expect(t, b, DefaultQueue, "short", StateActive); j.Failures != 1 || j.Errors.Last().Class != ClassTimeout {
			t.Errorf("the job whose timeout passed has %+v, want a failure by that", j.Head) // it runs again, in the same batch or the next
		}
		pass(2 * time.Minute)
		for _, id := range []string{"sms-0", "sms-2"} {
			if j := expect(t, b, DefaultQueue, id, StateCompleted); j.Deliveries != 1 || j.Crashes != 0 {
				t.Errorf("%s has %+v, want one delivery: its lease was renewed while it waited", id, j.Head)
			}
		}
		for _, batch := range got.all {
			if slices.Contains(batch, "sms-1") {
				t.Errorf("the cancelled job was handed over in %v", batch)
			}
		}
	})
}

func TestHandleMany_TheContextEndsWhenAllJobsShould(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		var ended []time.Duration
		var cause error
		begun := time.Now()
		serveMany(t, b, Config{RetryPolicy: Constant(time.Hour)}, ManyConfig{Max: 2}, func(ctx context.Context, batch []*BatchJob[sms]) error {
			if JobFromContext(ctx) != nil {
				t.Error("the context of the call has a job")
			}
			for _, j := range batch {
				if JobFromContext(j.Context) != j.Job {
					t.Error("the context of a job has another job, or none")
				}
			}
			slices.SortFunc(batch, func(a, b *BatchJob[sms]) int { return strings.Compare(a.Job.ID(), b.Job.ID()) })
			for _, done := range []<-chan struct{}{batch[0].Context.Done(), ctx.Done()} {
				<-done
				ended = append(ended, time.Since(begun).Round(time.Second))
			}
			cause = context.Cause(ctx)
			return cause
		})
		for i, timeout := range []time.Duration{10 * time.Second, 20 * time.Second} {
			add(t, b, DefaultQueue, "sms", 1, text("{}"), func(j *broker.NewJob) { j.ID, j.Body.Timeout = fmt.Sprint(i), timeout })
		}
		pass(time.Minute)
		if want := []time.Duration{10 * time.Second, 20 * time.Second}; !slices.Equal(ended, want) || !errors.Is(cause, ErrTimeout) {
			t.Errorf("the contexts of the first job and of the call ended after %v by %v, want after %v by ErrTimeout", ended, cause, want)
		}
		expect(t, b, DefaultQueue, "0", StateRetry)
	})
}

func TestHandleMany_MiddlewareIsAroundEachJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		var seen tally
		around := func(h Handler) Handler {
			return HandlerFunc(func(ctx context.Context, job *Job) error {
				seen.add(job.ID(), 1)
				err := h.ProcessJob(ctx, job)
				if err != nil {
					seen.add("failed "+job.ID(), 1)
				}
				return err
			})
		}
		serveMany(t, b, Config{RetryPolicy: Constant(time.Hour)}, ManyConfig{Max: 3}, func(_ context.Context, batch []*BatchJob[sms]) error {
			for _, j := range batch {
				if j.Job.ID() == "sms-1" {
					j.Err = errors.New("no")
				}
			}
			return nil
		}, around)
		add(t, b, DefaultQueue, "sms", 3, text("{}"))
		pass(time.Minute)
		for _, id := range []string{"sms-0", "sms-1", "sms-2"} {
			if seen.get(id) != 1 || seen.get("failed "+id) != map[bool]int{true: 1}[id == "sms-1"] {
				t.Errorf("the middleware saw %s %d times and its failure %d times", id, seen.get(id), seen.get("failed "+id))
			}
		}
	})
}

func TestHandleMany_WhatCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	f := func(context.Context, []*BatchJob[sms]) error { return nil }
	mux := NewServeMux()
	HandleMany(mux, smsJobs, ManyConfig{Max: 20}, f)
	s, err := NewServer(newStore(), Config{Concurrency: 19})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Start(context.Background(), mux)
	for _, part := range []string{"Concurrency", "19", "sms", "20"} {
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), part) {
			t.Errorf("a server with fewer slots than a batch: %v, want ErrInvalid with %q", err, part)
		}
	}
	limits := map[string]int{"a": 12, "b": 7}
	if s, err = NewServer(newStore(), Config{Queues: map[string]int{"a": 1, "b": 1}, QueueConcurrency: limits, Concurrency: 20}); err != nil {
		t.Fatal(err)
	}
	err = s.Start(context.Background(), mux)
	for _, part := range []string{"QueueConcurrency", "19", "sms", "20"} {
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), part) {
			t.Errorf("a server whose queues together have fewer slots than a batch: %v, want ErrInvalid with %q", err, part)
		}
	}
	if s, err = NewServer(newStore(), Config{Concurrency: 20, Timeout: time.Second}); err != nil {
		t.Fatal(err)
	}
	err = s.Start(context.Background(), mux)
	for _, part := range []string{"Timeout", "is 1s", "sms", "ManyConfig.Wait"} {
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), part) {
			t.Errorf("a server whose timeout is no longer than the wait for a batch: %v, want ErrInvalid with %q", err, part)
		}
	}
	for name, test := range map[string]struct {
		cfg  ManyConfig
		f    func(context.Context, []*BatchJob[sms]) error
		part string
	}{
		"no Max":          {ManyConfig{}, f, "Max is 0; use 1 to 1000"},
		"a huge Max":      {ManyConfig{Max: 1001}, f, "Max is 1001"},
		"a negative Wait": {ManyConfig{Max: 1, Wait: -1}, f, "Wait is -1ns"},
		"no unit of Wait": {ManyConfig{Max: 1, Wait: 2}, f, "Wait is 2ns; use 1ms or more, or 0 for 1s"},
		"no function":     {ManyConfig{Max: 1}, nil, "the handler is nil"},
	} {
		func() {
			defer func() {
				if v := fmt.Sprint(recover()); !strings.Contains(v, test.part) || !strings.Contains(v, "sms") {
					t.Errorf("%s: the panic is %q, want %q", name, v, test.part)
				}
			}()
			HandleMany(NewServeMux(), smsJobs, test.cfg, test.f)
		}()
	}
}

// As a unit test of an application calls it.
func TestHandleMany_WorksWithoutAServer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		mux := NewServeMux()
		calls := 0
		HandleMany(mux, smsJobs, ManyConfig{Max: 10}, func(_ context.Context, batch []*BatchJob[sms]) error {
			calls++
			return nil
		})
		job := NewJob(&broker.Job{Queue: "q", ID: "1", Body: broker.Body{Type: "sms", Payload: []byte("{}")}})
		if err := mux.ProcessJob(t.Context(), job); err != nil || calls != 1 {
			t.Errorf("got %v after %d calls, want one call", err, calls)
		}
	})
}
