package jobs

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/internal/handworker"
	"github.com/seed81422ce9/jobs/internal/sleep"

	"github.com/seed81422ce9/jobs/broker"
)

func TestClient_WaitReturnsHowTheJobEnded(t *testing.T) {
	for name, test := range map[string]struct {
		outcome broker.Outcome
		err     error
		words   string
		state   State
	}{
		"completed": {broker.Complete([]byte("result")), nil, "", StateCompleted},
		"dead": {broker.Die(broker.ReasonSkipRetry, broker.Failure{Message: "no such user"}), ErrDead, "skip_retry: no such user",
			StateDead},
		"cancelled": {broker.Cancel(broker.Failure{}), ErrCancelled, "", StateCancelled},
		"cancelled by its handler": {broker.Cancel(broker.Failure{Message: "cancelled: sold out", Class: ClassCancelled}), ErrCancelled,
			"cancelled: sold out", StateCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newSpyStore(t)
				c := newTestClient(t, store, ClientConfig{})
				info := mustEnqueue(t, c, NewTask("mail", nil), WithRetention(time.Hour))
				w := handworker.New(t, store, "w", "default")
				go func() {
					_ = sleep.For(t.Context(), time.Minute)
					w.Settle(w.Claim(), test.outcome)
				}()
				start := time.Now()
				record, err := c.Wait(t.Context(), info.Queue, info.ID)
				if !errors.Is(err, test.err) || record == nil || record.State != test.state {
					t.Fatalf("Wait answered %+v, %v; want a %s job and %v", record, err, test.state, test.err)
				}
				if err != nil && !strings.Contains(err.Error(), test.words) {
					t.Errorf("the error is %q, want %q in it", err, test.words)
				}
				if test.state == StateCompleted && string(record.Result) != "result" {
					t.Errorf("the result is %q", record.Result)
				}
				if d := time.Since(start); d != time.Minute {
					t.Errorf("Wait returned after %v, the job ended after a minute", d)
				}
				if again, _ := c.Wait(t.Context(), info.Queue, info.ID); again == nil || again.State != test.state {
					t.Errorf("waiting for a job that has ended gave %+v", again)
				}
			})
		})
	}
}

func TestClient_WaitSaysWhenThereIsNoRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpyStore(t)
		c := newTestClient(t, store, ClientConfig{})
		_, err := c.Wait(t.Context(), "default", "nobody")
		if !errors.Is(err, ErrGone) || !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "WithRetention") {
			t.Errorf("a job that never was: %v", err)
		}
		info := mustEnqueue(t, c, NewTask("mail", nil))
		w := handworker.New(t, store, "w", "default")
		go func() {
			_ = sleep.For(t.Context(), time.Minute)
			w.Settle(w.Claim(), broker.Complete(nil))
		}()
		if record, err := c.Wait(t.Context(), info.Queue, info.ID); record != nil || !errors.Is(err, ErrGone) {
			t.Errorf("a job that was not retained: %v, %v", record, err)
		}
	})
}

// deafBroker never hears of anything.
type deafBroker struct {
	*spyStore
	breaksOff bool
	hangs     bool
	looks     int
	fail      func(look int) error
}

func (b *deafBroker) Watch(ctx context.Context, _ broker.WatchRequest) (<-chan broker.Event, error) {
	if b.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if b.breaksOff {
		events := make(chan broker.Event)
		close(events)
		return events, nil
	}
	return nil, broker.ErrUnsupported
}

func (b *deafBroker) Find(ctx context.Context, q broker.Query) (broker.Page, error) {
	b.looks++
	if b.fail != nil {
		if err := b.fail(b.looks); err != nil {
			return broker.Page{}, err
		}
	}
	return b.spyStore.Find(ctx, q)
}

func TestClient_WaitLooksAgainWhenItHearsNothing(t *testing.T) {
	t.Run("because the backend has no events", func(t *testing.T) { testDeafWait(t, false) })
	t.Run("because the events broke off", func(t *testing.T) { testDeafWait(t, true) })
}

func testDeafWait(t *testing.T, breaksOff bool) {
	synctest.Test(t, func(t *testing.T) {
		store := &deafBroker{spyStore: newSpyStore(t), breaksOff: breaksOff}
		store.fail = func(look int) error {
			if look == 2 {
				return errReset
			}
			return nil
		}
		c := newTestClient(t, store, ClientConfig{})
		info := mustEnqueue(t, c, NewTask("mail", nil), WithRetention(time.Hour))
		w := handworker.New(t, store, "w", "default")
		go func() {
			_ = sleep.For(t.Context(), time.Second)
			w.Settle(w.Claim(), broker.Complete(nil))
		}()
		start := time.Now()
		if _, err := c.Wait(t.Context(), info.Queue, info.ID); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d < time.Second || d > time.Second+pollWithoutEvents {
			t.Errorf("Wait returned after %v, the job ended after 1s", d)
		}
	})
}

func TestClient_WaitEndsWithItsContextOrItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &deafBroker{spyStore: newSpyStore(t)}
		c := newTestClient(t, store, ClientConfig{})
		info := mustEnqueue(t, c, NewTask("mail", nil))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := c.Wait(ctx, info.Queue, info.ID); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("when its context ended: %v", err)
		}
		store.fail = func(int) error { return broker.ErrUnavailable }
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := c.Wait(ctx, info.Queue, info.ID); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrUnavailable) {
			t.Errorf("when the store was away all the time: %v", err)
		}
		store.fail = nil
		go func() {
			_ = sleep.For(t.Context(), time.Minute)
			_ = c.Close()
		}()
		if _, err := c.Wait(t.Context(), info.Queue, info.ID); !errors.Is(err, ErrClosed) {
			t.Errorf("when the client was closed: %v", err)
		}
	})
}

func TestClient_WaitDoesNotHangWhereTheStoreCannotBeHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &deafBroker{spyStore: newSpyStore(t), hangs: true}
		c := newTestClient(t, store, ClientConfig{})
		info := mustEnqueue(t, c, NewTask("mail", nil), WithRetention(time.Hour))
		w := handworker.New(t, store, "w", "default")
		w.Settle(w.Claim(), broker.Complete(nil))
		start := time.Now()
		if _, err := c.Wait(t.Context(), info.Queue, info.ID); err != nil || time.Since(start) > 5*time.Second {
			t.Errorf("Wait answered %v after %v", err, time.Since(start))
		}
	})
}

func TestClient_WaitRefusesNamesThatCannotBe(t *testing.T) {
	t.Parallel()
	c := newTestClient(t, newSpyStore(t), ClientConfig{})
	for _, name := range [][2]string{{"", "id"}, {"q", ""}, {"{", "id"}} {
		if _, err := c.Wait(t.Context(), name[0], name[1]); !errors.Is(err, ErrInvalid) {
			t.Errorf("queue %q, ID %q: %v, want ErrInvalid", name[0], name[1], err)
		}
	}
}
