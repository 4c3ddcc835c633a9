package inspect_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

// examined returns what an inspector finds, as "code queue id", and how many steps it
// took.
func examined(t *testing.T, b broker.Broker, e inspect.Examination) (found []string, steps int, err error) {
	t.Helper()
	e.OnStep = func(broker.Examined) { steps++ }
	for f, failed := range inspect.New(b).Examine(t.Context(), e) {
		if failed != nil {
			return found, steps, failed
		}
		if f.Code == "" || f.Means == "" || f.What == "" {
			t.Errorf("the finding does not say what it is: %+v", f)
		}
		found = append(found, f.Code+" "+f.Queue+" "+f.ID)
	}
	return found, steps, nil
}

func TestExamine_SaysWhatNobodyServes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := membroker.New()
		defer b.Close()
		client := jobs.NewClient(b, jobs.ClientConfig{})
		defer client.Close()
		if _, err := client.Enqueue(t.Context(), jobs.NewTask("x", nil), jobs.WithQueue("mail")); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Enqueue(t.Context(), jobs.NewTask("x", nil), jobs.WithQueue("late"), jobs.WithDelay(time.Minute)); err != nil {
			t.Fatal(err)
		}
		expect := func(when string, queue string, want ...string) {
			t.Helper()
			found, steps, err := examined(t, b, inspect.Examination{Queue: queue})
			if err != nil || len(found) != len(want) || steps == 0 {
				t.Fatalf("%s: found %q, %v in %d steps, want %q", when, found, err, steps, want)
			}
			for i := range want {
				if found[i] != want[i] {
					t.Errorf("%s: found %q, want %q", when, found[i], want[i])
				}
			}
		}
		expect("a queue without a worker", "", "queue-not-served mail ")
		expect("that queue alone", "mail", "queue-not-served mail ")
		expect("the other queue alone", "late")

		if _, err := b.Renew(t.Context(), broker.RenewRequest{Worker: "w", Queues: []string{"mail"}, Lease: 15 * time.Second,
			Register: true}); err != nil {
			t.Fatal(err)
		}
		expect("a queue with a worker", "")
		time.Sleep(30 * time.Second)
		expect("a worker that ran out just now", "", "queue-not-served mail ")
		time.Sleep(5 * time.Minute)
		expect("a worker that nobody reclaims, and a job that is due", "", "queue-not-served late ", "worker-not-reclaimed mail w",
			"queue-not-served mail ")
		if err := inspect.New(b).Pause(t.Context(), "mail"); err != nil {
			t.Fatal(err)
		}
		expect("a queue that is paused", "mail", "worker-not-reclaimed mail w")
		// The framework's jobs recur for ever: they need a server even while none is
		// due.
		own := broker.ReservedPrefix + "own"
		if _, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{{Queue: own, ID: "a", Delay: time.Hour,
			Body: broker.Body{Type: "x", Priority: broker.PriorityNormal}}}}); err != nil {
			t.Fatal(err)
		}
		expect("a queue of the framework without a worker", own, "queue-not-served "+own+" ")
	})
}

// plain is a broker that cannot examine.
type plain struct{ broker.Broker }

func (plain) Examine(context.Context, broker.ExamineRequest) (broker.Examined, error) {
	return broker.Examined{}, broker.About(broker.ErrUnsupported, "examine", "", "")
}

func TestInspector_ExamineNeedsAStoreThatCanAndAQueue(t *testing.T) {
	t.Parallel()
	b := membroker.New()
	defer b.Close()
	if _, _, err := examined(t, plain{b}, inspect.Examination{}); !errors.Is(err, broker.ErrUnsupported) {
		t.Errorf("a store that cannot examine itself: %v, want ErrUnsupported", err)
	}
	if _, _, err := examined(t, b, inspect.Examination{Queue: "none"}); !errors.Is(err, broker.ErrNotFound) {
		t.Errorf("a queue that is not there: %v, want ErrNotFound", err)
	}
	for f, err := range (*inspect.Inspector)(nil).Examine(t.Context(), inspect.Examination{}) {
		if !errors.Is(err, broker.ErrInvalid) {
			t.Errorf("no inspector: %+v, %v", f, err)
		}
	}
}
