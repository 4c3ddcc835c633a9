package jobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/internal/sleep"

	"github.com/seed81422ce9/jobs/broker"
)

// slowStore is a spyStore each call of which takes a second.
func slowStore(t *testing.T) *spyStore {
	store := newSpyStore(t)
	store.before = func(_ int, ctx context.Context, _ broker.EnqueueRequest) error {
		return sleep.For(ctx, time.Second)
	}
	return store
}

// outcome is what one caller got.
type outcome struct {
	typ   string
	info  *JobInfo
	err   error
	after time.Duration
}

// callers runs Enqueue in goroutines of their own.
type callers struct {
	c       *Client
	start   time.Time
	wg      sync.WaitGroup
	mu      sync.Mutex
	results map[string]outcome
}

func newCallers(c *Client) *callers {
	return &callers{c: c, start: time.Now(), results: make(map[string]outcome)}
}

func (c *callers) enqueue(ctx context.Context, task *Task, opts ...Option) {
	c.wg.Go(func() {
		info, err := c.c.Enqueue(ctx, task, opts...)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.results[task.Type()] = outcome{task.Type(), info, err, time.Since(c.start)}
	})
}

func (c *callers) wait() map[string]outcome {
	c.wg.Wait()
	return c.results
}

func TestClient_ConcurrentCallsShareTheNextCallToTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := slowStore(t)
		cs := newCallers(newTestClient(t, store, ClientConfig{}))
		cs.enqueue(t.Context(), NewTask("first", nil))
		synctest.Wait()
		for i := range 2500 {
			cs.enqueue(t.Context(), NewTask(fmt.Sprint(i), nil))
		}
		results := cs.wait()
		ids := make(map[string]bool)
		for _, r := range results {
			if r.err != nil {
				t.Fatalf("%s: %v", r.typ, r.err)
			}
			ids[r.info.ID] = true
		}
		if len(ids) != 2501 {
			t.Errorf("2501 callers got %d different IDs", len(ids))
		}
		if got := store.sizes(); len(got) > 6 || slices.Max(got) > maxSendJobs {
			t.Errorf("the calls had %v jobs, want few calls of at most %d", got, maxSendJobs)
		}
		for _, job := range store.stored(t, "default") {
			if r := results[job.Type]; r.info.ID != job.ID {
				t.Fatalf("the caller of %s got the receipt of another", job.Type)
			}
		}
		if d := results["first"].after; d != time.Second {
			t.Errorf("the first caller was kept for %v by those who came later", d)
		}
	})
}

func TestClient_CallersAloneAreNotHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := slowStore(t)
		c := newTestClient(t, store, ClientConfig{})
		start := time.Now()
		for range 3 {
			mustEnqueue(t, c, NewTask("mail", nil))
		}
		if d := time.Since(start); d != 3*time.Second {
			t.Errorf("three calls of a second each, one after another, took %v", d)
		}
	})
}

func TestClient_GroupedBatchesStayBelowFourMiB(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := slowStore(t)
		cs := newCallers(newTestClient(t, store, ClientConfig{}))
		cs.enqueue(t.Context(), NewTask("first", nil))
		synctest.Wait()
		for i := range 7 {
			cs.enqueue(t.Context(), NewTask(fmt.Sprint(i), make([]byte, 1<<20)))
		}
		for _, r := range cs.wait() {
			if r.err != nil {
				t.Errorf("%s: %v", r.typ, r.err)
			}
		}
		if got, want := store.sizes(), []int{1, 3, 3, 1}; !slices.Equal(got, want) {
			t.Errorf("the calls had %v jobs, want %v", got, want)
		}
	})
}

func TestClient_GroupedCallHasADeadlineOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpyStore(t)
		store.before = func(call int, ctx context.Context, _ broker.EnqueueRequest) error {
			if call == 0 {
				return sleep.For(ctx, time.Second)
			}
			return sleep.For(ctx, time.Hour)
		}
		c := newTestClient(t, store, ClientConfig{CallTimeout: 2 * time.Second, Retries: -1})
		cs := newCallers(c)
		cs.enqueue(t.Context(), NewTask("first", nil))
		synctest.Wait()
		cs.enqueue(t.Context(), NewTask("second", nil))
		if r := cs.wait()["second"]; !errors.Is(r.err, ErrOutcomeUnknown) || r.after != 3*time.Second {
			t.Errorf("got %v after %v, want an unknown outcome 2s after the batch was sent", r.err, r.after)
		}
	})
}

// A store that hangs fails one call after another; who waited behind more than
// one of them is told at once that nothing was sent.
func TestClient_ALineThatWaitsForTooLongIsTurnedAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpyStore(t)
		store.before = func(_ int, ctx context.Context, _ broker.EnqueueRequest) error { return sleep.For(ctx, time.Hour) }
		cs := newCallers(newTestClient(t, store, ClientConfig{CallTimeout: 2 * time.Second, Retries: -1}))
		before := 1 + secondCall + 2*maxSendJobs
		for i := range before + 1 {
			cs.enqueue(t.Context(), NewTask(fmt.Sprint(i), nil))
			synctest.Wait()
		}
		results := cs.wait()
		last := results[fmt.Sprint(before)]
		if !errors.Is(last.err, ErrUnavailable) || errors.Is(last.err, ErrOutcomeUnknown) || last.after != 4*time.Second {
			t.Errorf("who waited behind two calls of two seconds got %v after %v", last.err, last.after)
		}
		if got, want := store.sizes(), []int{1, secondCall, maxSendJobs, maxSendJobs}; !slices.Equal(got, want) {
			t.Errorf("the calls had %v jobs, want %v", got, want)
		}
	})
}

func TestClient_PayloadMayChangeOnceEnqueueHasReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := slowStore(t)
		cs := newCallers(newTestClient(t, store, ClientConfig{}))
		cs.enqueue(t.Context(), NewTask("first", nil))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		payload := bytes.Repeat([]byte("a"), 100)
		cs.enqueue(ctx, NewTask("left", payload))
		cs.wait() // the caller has left, its batch is under way
		clear(payload)
		_ = sleep.For(t.Context(), time.Minute)
		for _, job := range store.stored(t, "default") {
			if job.Type == "left" && !bytes.Equal(job.Payload, bytes.Repeat([]byte("a"), 100)) {
				t.Errorf("the stored payload is %q", job.Payload)
			}
		}
	})
}

func TestClient_ASecondCallGoesWhenManyGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inside int
		var mu sync.Mutex
		enter := func(n int) int {
			mu.Lock()
			defer mu.Unlock()
			inside += n
			return inside
		}
		store := newSpyStore(t)
		store.before = func(_ int, ctx context.Context, _ broker.EnqueueRequest) error {
			enter(1)
			defer enter(-1)
			return sleep.For(ctx, time.Second)
		}
		c := newTestClient(t, store, ClientConfig{})
		cs := newCallers(c)
		total := 0
		callers := func(n, want int, when string) {
			t.Helper()
			for range n {
				cs.enqueue(t.Context(), NewTask(fmt.Sprint(total), nil))
				total++
			}
			synctest.Wait()
			if got := enter(0); got != want {
				t.Errorf("%s: %d calls to the store under way, want %d", when, got, want)
			}
		}
		callers(1, 1, "the first caller")
		callers(secondCall-1, 1, "a few beside it")
		callers(1, 2, "enough for a second call")
		callers(1000, 2, "many beside them")
		if results := cs.wait(); len(results) != total {
			t.Errorf("%d of %d callers were answered", len(results), total)
		}
	})
}

func TestClient_IdleClientHasNoGoroutineAndKeepsNoJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := slowStore(t)
		c := newTestClient(t, store, ClientConfig{})
		cs := newCallers(c)
		for i := range 10 {
			cs.enqueue(t.Context(), NewTask(fmt.Sprint(i), nil))
		}
		cs.wait()
		synctest.Wait()
		if c.group.calls != 0 || c.group.inFlight != 0 || c.group.waiting != nil || c.gate.inside != 0 {
			t.Errorf("after the last call the group is %+v, %d calls inside", c.group, c.gate.inside)
		}
	})
}

// TestClient_EveryAnswerIsTrue has many callers, some of which leave, and a store that
// is slow, away, or loses its answers, and compares what each was told with
// what is stored.
func TestClient_EveryAnswerIsTrue(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		random := rand.New(rand.NewPCG(seed, 0))
		roll := func(n int) int {
			mu.Lock()
			defer mu.Unlock()
			return random.IntN(n)
		}
		store := newSpyStore(t)
		store.before = func(_ int, ctx context.Context, _ broker.EnqueueRequest) error {
			if err := sleep.For(ctx, time.Duration(roll(20))*time.Millisecond); err != nil || roll(10) > 0 {
				return err
			}
			return broker.ErrUnavailable
		}
		store.after = func(int) error {
			if roll(10) == 0 {
				return errReset
			}
			return nil
		}
		cs := newCallers(newTestClient(t, store, ClientConfig{}))
		for i := range 2000 {
			ctx := t.Context()
			if roll(4) == 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, time.Duration(roll(60))*time.Millisecond)
				defer cancel()
			}
			cs.enqueue(ctx, NewTask(fmt.Sprint(i), nil))
			if roll(5) == 0 {
				_ = sleep.For(t.Context(), time.Millisecond)
			}
		}
		results := cs.wait()
		synctest.Wait()
		stored := make(map[string]string)
		for _, job := range store.stored(t, "default") {
			if id, twice := stored[job.Type]; twice {
				t.Errorf("task %s is stored as %s and as %s", job.Type, id, job.ID)
			}
			stored[job.Type] = job.ID
		}
		told := make(map[string]int)
		for typ, r := range results {
			id, there := stored[typ]
			switch {
			case r.err == nil:
				told["stored"]++
				if !there || r.info.ID != id {
					t.Errorf("task %s was accepted as %s, stored is %q", typ, r.info.ID, id)
				}
			case errors.Is(r.err, ErrOutcomeUnknown):
				told["unknown"]++
				if there && r.info.ID != id {
					t.Errorf("task %s may be stored as %s, stored is %q", typ, r.info.ID, id)
				}
			default:
				told["not stored"]++
				if there {
					t.Errorf("task %s is stored although its caller was told otherwise: %v", typ, r.err)
				}
			}
		}
		if len(told) != 3 {
			t.Errorf("the callers were told %v: the test does not reach every answer", told)
		}
	})
}
