package jobs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

func TestClient_UnavailableStoreIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpyStore(t)
		store.before = func(call int, _ context.Context, _ broker.EnqueueRequest) error {
			if call < 2 {
				return fmt.Errorf("dial: %w", broker.ErrUnavailable)
			}
			return nil
		}
		start := time.Now()
		mustEnqueue(t, newTestClient(t, store, ClientConfig{}), NewTask("mail", nil))
		if n := len(store.sizes()); n != 3 {
			t.Errorf("%d calls, want 3", n)
		}
		if d := time.Since(start); d < 250*time.Millisecond || d > 500*time.Millisecond {
			t.Errorf("the repeats came within %v, want pauses of about 0.1 s and 0.4 s", d)
		}
		store.only(t, "default")
	})
}

func TestClient_StoreThatStaysAwayIsGivenUpAsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpyStore(t)
		store.before = func(int, context.Context, broker.EnqueueRequest) error { return broker.ErrUnavailable }
		for retries, calls := range map[int]int{0: 3, 1: 2, -1: 1} {
			store.calls = nil
			start := time.Now()
			info, err := newTestClient(t, store, ClientConfig{Retries: retries}).Enqueue(t.Context(), NewTask("mail", nil))
			if info != nil || !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrOutcomeUnknown) {
				t.Errorf("Retries %d: got %v, %v", retries, info, err)
			}
			if n := len(store.sizes()); n != calls || time.Since(start) > time.Second {
				t.Errorf("Retries %d: %d calls in %v, want %d within a second", retries, n, time.Since(start), calls)
			}
		}
	})
}

func TestClient_LostAnswerIsFoundOutByTheRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpyStore(t)
		store.after = func(call int) error {
			if call%2 == 0 {
				return errReset
			}
			return nil
		}
		c := newTestClient(t, store, ClientConfig{})
		info := mustEnqueue(t, c, NewTask("mail", nil), WithUniqueKey("k"), WithQueue("now"))
		if first, repeat := store.calls[0].jobs[0], store.calls[1].jobs[0]; !first.FirstSend || repeat.FirstSend {
			t.Errorf("FirstSend is %v, and %v in the repeat; want true and false", first.FirstSend, repeat.FirstSend)
		}
		if job := store.only(t, "now"); info.ID != job.ID || info.State != StatePending {
			t.Errorf("info is %+v, the job is %s", info, job.ID)
		}
		info = mustEnqueue(t, c, NewTask("mail", nil), WithDelay(time.Hour), WithQueue("later"))
		job := store.only(t, "later")
		if d := info.RunAt.Sub(job.RunAt); info.State != StateScheduled || d < 0 || d > time.Second {
			t.Errorf("info is %+v, the job is due at %v", info, job.RunAt)
		}
	})
}

func TestClient_LostAnswerOfAReplacingJobIsFoundOutByTheRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpyStore(t)
		c := newTestClient(t, store, ClientConfig{})
		first := mustEnqueue(t, c, NewTask("sync", nil), WithUniqueKey("k"))
		for name, options := range map[string][]Option{
			"replace":  {WithUniqueReplace()},
			"debounce": {WithUniqueDebounce(time.Hour, 2*time.Hour)},
		} {
			lost := false
			store.after = func(int) error {
				if lost {
					return nil
				}
				lost = true
				return errReset
			}
			info := mustEnqueue(t, c, NewTask("sync", []byte(name)), append(options, WithUniqueKey("k"))...)
			state := StatePending
			if name == "debounce" {
				state = StateScheduled
			}
			if info.ID != first.ID || !info.Replaced || info.State != state || info.RunAt.IsZero() == (state == StateScheduled) {
				t.Errorf("%s: info is %+v, want %s replaced and %v", name, info, first.ID, state)
			}
		}
	})
}

// A client knows that nobody has sent an ID only if it generated the ID itself.
func TestClient_AnIDThatMiddlewareChangedIsNoFirstSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpyStore(t)
		renamed := func(next EnqueueFunc) EnqueueFunc {
			return func(ctx context.Context, batch []*Outgoing) {
				for _, o := range batch {
					if o.Body.Type == "renamed" {
						o.ID = "another"
					}
				}
				next(ctx, batch)
			}
		}
		c := newTestClient(t, store, ClientConfig{Middleware: []EnqueueMiddleware{renamed}})
		mustEnqueue(t, c, NewTask("renamed", nil))
		mustEnqueue(t, c, NewTask("plain", nil))
		if renamed, plain := store.calls[0].jobs[0], store.calls[1].jobs[0]; renamed.FirstSend || !plain.FirstSend {
			t.Errorf("FirstSend is %v for the changed ID, %v for the other; want false and true", renamed.FirstSend, plain.FirstSend)
		}
	})
}

func TestClient_LostAnswerForAGivenIDIsADuplicate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpyStore(t)
		store.after = func(int) error { return errReset }
		info, err := newTestClient(t, store, ClientConfig{}).Enqueue(t.Context(), NewTask("mail", nil), WithID("mine"))
		if !errors.Is(err, ErrOutcomeUnknown) {
			t.Errorf("while answers are lost: %v, %v", info, err)
		}
		store.after = func(call int) error {
			if call == 0 {
				return errReset
			}
			return nil
		}
		store.calls = nil
		info, err = newTestClient(t, store, ClientConfig{}).Enqueue(t.Context(), NewTask("mail", nil), WithID("mine"))
		if !errors.Is(err, ErrDuplicate) || errors.Is(err, ErrOutcomeUnknown) || info == nil || info.ID != "mine" {
			t.Errorf("got %v, %v; want ErrDuplicate with the ID, since another caller may have taken it", info, err)
		}
	})
}

func TestClient_OutcomeStaysUnknownWhateverTheRepeatsMeet(t *testing.T) {
	for name, later := range map[string]error{
		"unavailable": broker.ErrUnavailable,
		"refused":     broker.ErrQueueFull,
		"reset again": errReset,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newSpyStore(t)
				store.before = func(call int, _ context.Context, _ broker.EnqueueRequest) error {
					if call == 0 {
						return errReset
					}
					return later
				}
				info, err := newTestClient(t, store, ClientConfig{}).Enqueue(t.Context(), NewTask("mail", nil))
				if !errors.Is(err, ErrOutcomeUnknown) || !errors.Is(err, errReset) || !broker.MayHaveApplied(err) {
					t.Errorf("the error is %v", err)
				}
				if info == nil || info.ID == "" || info.Queue != "default" || !strings.Contains(fmt.Sprint(err), info.ID) {
					t.Errorf("the info is %+v, want the ID to look for", info)
				}
			})
		})
	}
}

func TestClient_HangingStoreIsGivenUpInBoundedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpyStore(t)
		store.before = func(_ int, ctx context.Context, _ broker.EnqueueRequest) error {
			<-ctx.Done()
			return ctx.Err()
		}
		c := newTestClient(t, store, ClientConfig{})
		start := time.Now()
		results := make(chan error)
		for range 5000 {
			go func() {
				_, err := c.Enqueue(context.Background(), NewTask("mail", nil))
				results <- err
			}()
		}
		for range 5000 {
			if err := <-results; !errors.Is(err, ErrOutcomeUnknown) && !errors.Is(err, ErrUnavailable) {
				t.Fatalf("got %v", err)
			}
		}
		if d := time.Since(start); d > 15*time.Second {
			t.Errorf("5000 callers were held up for %v by a store that hangs, want at most three times 5 s", d)
		}
	})
}

func TestClient_CallersContextBoundsTheRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpyStore(t)
		store.before = func(int, context.Context, broker.EnqueueRequest) error { return broker.ErrUnavailable }
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		start := time.Now()
		if _, err := newTestClient(t, store, ClientConfig{}).Enqueue(ctx, NewTask("mail", nil)); !errors.Is(err, ErrUnavailable) {
			t.Errorf("got %v", err)
		}
		if d := time.Since(start); d != 10*time.Millisecond {
			t.Errorf("Enqueue returned after %v, its context had 10ms", d)
		}
	})
}

func TestClient_EndedContextSendsNothing(t *testing.T) {
	t.Parallel()
	store := newSpyStore(t)
	c := newTestClient(t, store, ClientConfig{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	info, err := c.Enqueue(ctx, NewTask("mail", nil))
	if info != nil || !errors.Is(err, context.Canceled) || errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("Enqueue answered %v, %v", info, err)
	}
	receipts, err := c.EnqueueMany(ctx, []*Task{NewTask("mail", nil)})
	if !errors.Is(err, context.Canceled) || !errors.Is(receipts[0].Err, context.Canceled) {
		t.Errorf("EnqueueMany answered %v, %v", receipts, err)
	}
	if n := store.sizes(); n != nil {
		t.Errorf("the store was asked, with %v jobs", n)
	}
}

func TestClient_BatchIsRepeatedOnlyWhereItFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpyStore(t)
		store.after = func(call int) error {
			if call == 1 {
				return errReset
			}
			return nil
		}
		tasks := make([]*Task, 2500)
		for i := range tasks {
			tasks[i] = NewTask("mail", nil)
		}
		receipts, err := newTestClient(t, store, ClientConfig{}).EnqueueMany(t.Context(), tasks)
		if err != nil || len(receipts) != 2500 {
			t.Fatalf("EnqueueMany: %v", err)
		}
		if got := fmt.Sprint(store.sizes()); got != "[1000 1000 1000 500]" {
			t.Errorf("the calls had %s jobs, want the second thousand twice", got)
		}
		if n := len(store.stored(t, "default")); n != 2500 {
			t.Errorf("%d jobs are stored, want 2500", n)
		}
	})
}

func TestClient_BatchStopsWhereTheStoreFailsForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpyStore(t)
		store.before = func(call int, _ context.Context, _ broker.EnqueueRequest) error {
			if call > 0 {
				return errReset
			}
			return nil
		}
		tasks := make([]*Task, 2500)
		for i := range tasks {
			tasks[i] = NewTask("mail", nil)
		}
		receipts, _ := newTestClient(t, store, ClientConfig{}).EnqueueMany(t.Context(), tasks)
		for i, want := range []error{nil, ErrOutcomeUnknown, ErrUnavailable} {
			if got := receipts[i*1000].Err; !errors.Is(got, want) {
				t.Errorf("receipt %d has %v, want %v", i*1000, got, want)
			}
		}
		if n := len(store.sizes()); n != 4 {
			t.Errorf("%d calls, want one that succeeded and three attempts at the second thousand", n)
		}
	})
}

func TestClient_BatchStopsWhereTheCallersContextEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	store := newSpyStore(t)
	store.before = func(call int, _ context.Context, _ broker.EnqueueRequest) error {
		if call == 0 {
			return nil
		}
		cancel()
		return context.Canceled // as of a store that was asked and may have stored them
	}
	tasks := make([]*Task, 2500)
	for i := range tasks {
		tasks[i] = NewTask("mail", nil)
	}
	receipts, _ := newTestClient(t, store, ClientConfig{}).EnqueueMany(ctx, tasks)
	for i, want := range []error{nil, ErrOutcomeUnknown, context.Canceled} {
		if got := receipts[i*1000].Err; !errors.Is(got, want) {
			t.Errorf("receipt %d has %v, want %v", i*1000, got, want)
		}
	}
	if got := receipts[2000].Err; errors.Is(got, ErrUnavailable) || errors.Is(got, ErrOutcomeUnknown) {
		t.Errorf("a task that was not sent has %v", got)
	}
}

// shortBroker gives fewer receipts than it was given jobs.
type shortBroker struct{ *spyStore }

func (s shortBroker) Enqueue(context.Context, broker.EnqueueRequest) ([]broker.Receipt, error) {
	return nil, nil
}

func TestClient_BrokerThatAnswersTooFewIsNotBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestClient(t, shortBroker{newSpyStore(t)}, ClientConfig{})
		if _, err := c.Enqueue(t.Context(), NewTask("mail", nil)); !errors.Is(err, ErrOutcomeUnknown) {
			t.Errorf("got %v", err)
		}
	})
}

func TestClient_PanicOfTheBrokerIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpyStore(t)
		store.before = func(int, context.Context, broker.EnqueueRequest) error { panic("boom") }
		c := newTestClient(t, store, ClientConfig{})
		_, err := c.Enqueue(t.Context(), NewTask("mail", nil))
		var p *PanicError
		if !errors.Is(err, ErrOutcomeUnknown) || !errors.As(err, &p) || p.Value != "boom" || !strings.Contains(p.Stack, "send_test.go") {
			t.Errorf("got %v", err)
		}
		store.before = nil
		mustEnqueue(t, c, NewTask("mail", nil))
	})
}

func TestClient_ACallTimeoutThatLacksItsUnitIsRefused(t *testing.T) {
	t.Parallel()
	store := newSpyStore(t)
	client := newTestClient(t, store, ClientConfig{CallTimeout: 5})
	_, err := client.Enqueue(t.Context(), NewTask("a", nil))
	if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "CallTimeout: invalid: is 5ns") {
		t.Errorf("the error is %v, want ErrInvalid that names CallTimeout", err)
	}
	if n := len(store.calls); n != 0 {
		t.Errorf("%d calls were made", n)
	}
}
