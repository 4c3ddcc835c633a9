package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/internal/sleep"

	"github.com/seed81422ce9/jobs/broker"
)

// TestClient_CallerThatLeavesHarmsNobody ends the context of a caller in each place it
// can be in: making the call in flight, in a batch under way, in the line.
func TestClient_CallerThatLeavesHarmsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := slowStore(t)
		cs := newCallers(newTestClient(t, store, ClientConfig{}))
		leave := func(after time.Duration) context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			t.Cleanup(cancel)
			return ctx
		}
		cs.enqueue(leave(500*time.Millisecond), NewTask("calling", nil))
		synctest.Wait()
		cs.enqueue(leave(300*time.Millisecond), NewTask("in line", nil))
		cs.enqueue(leave(700*time.Millisecond), NewTask("in a batch", nil))
		cs.enqueue(t.Context(), NewTask("staying", nil))
		results := cs.wait()
		for typ, want := range map[string]struct {
			after   time.Duration
			unknown bool
		}{
			"calling":    {500 * time.Millisecond, true},
			"in line":    {300 * time.Millisecond, false},
			"in a batch": {700 * time.Millisecond, true},
		} {
			r := results[typ]
			if !errors.Is(r.err, context.DeadlineExceeded) || errors.Is(r.err, ErrOutcomeUnknown) != want.unknown || r.after != want.after {
				t.Errorf("%s: got %v after %v; want the context's error, outcome unknown: %v, after %v", typ, r.err, r.after, want.unknown, want.after)
			}
		}
		if r := results["staying"]; r.err != nil || r.after != 1500*time.Millisecond {
			t.Errorf("who stayed got %v after %v, want the receipt after 1.5s", r.err, r.after)
		}
		var stored []string
		for _, job := range store.stored(t, "default") {
			stored = append(stored, job.Type)
		}
		slices.Sort(stored)
		if want := []string{"in a batch", "staying"}; !slices.Equal(stored, want) {
			t.Errorf("stored are %v, want %v", stored, want)
		}
	})
}

// A call that takes all its time, and the moment that it takes to return, ends
// nobody's but its own.
func TestClient_OneCallThatHangsCostsTheNextNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpyStore(t)
		store.before = func(call int, ctx context.Context, _ broker.EnqueueRequest) error {
			if call > 0 {
				return nil
			}
			<-ctx.Done()
			time.Sleep(10 * time.Millisecond)
			return ctx.Err()
		}
		cs := newCallers(newTestClient(t, store, ClientConfig{CallTimeout: 2 * time.Second, Retries: -1}))
		cs.enqueue(t.Context(), NewTask("hangs", nil))
		synctest.Wait()
		cs.enqueue(t.Context(), NewTask("next", nil))
		if r := cs.wait()["next"]; r.err != nil {
			t.Errorf("who waited behind one call that hung got %v after %v", r.err, r.after)
		}
	})
}

func TestClient_ABatchThatEveryoneLeftIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := slowStore(t)
		cs := newCallers(newTestClient(t, store, ClientConfig{}))
		cs.enqueue(t.Context(), NewTask("first", nil))
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cs.enqueue(ctx, NewTask("a", nil))
		cs.enqueue(ctx, NewTask("b", nil))
		synctest.Wait()
		cancel()
		cs.wait()
		synctest.Wait()
		if got := store.sizes(); !slices.Equal(got, []int{1}) {
			t.Errorf("the calls had %v jobs, want that of the first caller alone", got)
		}
	})
}

func TestClient_BadJobInABatchHarmsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := slowStore(t)
		c := newTestClient(t, store, ClientConfig{})
		mustEnqueue(t, c, NewTask("held", nil), WithUniqueKey("k"))
		cs := newCallers(c)
		cs.enqueue(t.Context(), NewTask("first", nil))
		synctest.Wait()
		cs.enqueue(t.Context(), NewTask("good", nil))
		cs.enqueue(t.Context(), NewTask("invalid", nil), WithQueue("{}"))
		cs.enqueue(t.Context(), NewTask("duplicate", nil), WithUniqueKey("k"))
		cs.enqueue(t.Context(), NewTask("good too", nil))
		results := cs.wait()
		for typ, want := range map[string]error{"first": nil, "good": nil, "good too": nil, "invalid": ErrInvalid, "duplicate": ErrDuplicate} {
			if !errors.Is(results[typ].err, want) {
				t.Errorf("%s got %v, want %v", typ, results[typ].err, want)
			}
		}
	})
}

// TestClient_PoisonedBatchIsTakenApart has a job that makes every call that carries
// it fail in a way the broker cannot explain.
func TestClient_PoisonedBatchIsTakenApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpyStore(t)
		store.before = func(_ int, ctx context.Context, req broker.EnqueueRequest) error {
			_ = sleep.For(ctx, time.Second)
			for _, job := range req.Jobs {
				if job.Body.Type == "poison" {
					return errReset
				}
			}
			return nil
		}
		cs := newCallers(newTestClient(t, store, ClientConfig{}))
		cs.enqueue(t.Context(), NewTask("first", nil))
		synctest.Wait()
		cs.enqueue(t.Context(), NewTask("poison", nil))
		for i := range 50 {
			cs.enqueue(t.Context(), NewTask(fmt.Sprint(i), nil))
		}
		for typ, r := range cs.wait() {
			if poison := typ == "poison"; (r.err != nil) != poison {
				t.Errorf("%s got %v", typ, r.err)
			}
		}
	})
}

func TestClient_PanicOfTheBrokerReachesEveryCallerAsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpyStore(t)
		store.before = func(call int, ctx context.Context, _ broker.EnqueueRequest) error {
			_ = sleep.For(ctx, time.Second)
			if call == 1 {
				panic("boom")
			}
			return nil
		}
		c := newTestClient(t, store, ClientConfig{Retries: -1})
		cs := newCallers(c)
		cs.enqueue(t.Context(), NewTask("first", nil))
		synctest.Wait()
		cs.enqueue(t.Context(), NewTask("a", nil))
		cs.enqueue(t.Context(), NewTask("b", nil))
		results := cs.wait()
		if !errors.Is(results["a"].err, ErrOutcomeUnknown) || !errors.Is(results["b"].err, ErrOutcomeUnknown) {
			t.Errorf("the callers got %v and %v", results["a"].err, results["b"].err)
		}
		mustEnqueue(t, c, NewTask("after", nil))
	})
}
