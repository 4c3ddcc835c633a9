package jobs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

type receipt struct {
	ID   string
	Cent int
}

func TestStep_RunsOnceInTheLifeOfAJob(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		var calls tally
		var got []receipt
		runs := 0
		serve(t, b, Config{RetryPolicy: Constant(time.Minute)}, func(ctx context.Context, job *Job) error {
			runs++
			charge := func() error {
				r, err := Step(ctx, job, "charge", func(context.Context) (receipt, error) {
					calls.add("charge", 1)
					return receipt{"r1", 1250}, nil
				})
				got = append(got, r)
				return err
			}
			ship := func() error {
				_, err := Step(ctx, job.WithPayload(nil), "ship", func(context.Context) (struct{}, error) {
					if calls.add("ship", 1) == 1 {
						return struct{}{}, errors.New("no stock")
					}
					return struct{}{}, nil
				})
				return err
			}
			steps := []func() error{charge, ship}
			if runs == 3 { // another release put them in another order
				steps = []func() error{ship, charge}
			}
			for _, step := range steps {
				if err := step(); err != nil {
					return err
				}
			}
			if runs == 2 {
				return errors.New("after all steps")
			}
			return nil
		})
		id := add(t, b, DefaultQueue, "order", 1)[0]
		pass(time.Hour)
		expect(t, b, DefaultQueue, id, StateCompleted)
		if runs != 3 || calls.get("charge") != 1 || calls.get("ship") != 2 {
			t.Errorf("in %d runs charge was called %d times and ship %d times; want 3 runs, 1, and 2 for its error", runs, calls.get("charge"),
				calls.get("ship"))
		}
		for i, r := range got {
			if r != (receipt{"r1", 1250}) {
				t.Errorf("run %d got the result %+v, want that of the first", i+1, r)
			}
		}
	})
}

// The documented gap: the effect is there, and its record is not.
func TestStep_RunsAgainIfTheServerDiesBeforeItsResultIsStored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		dying := newCable(b)
		var effects tally
		cfg := Config{Lease: 9 * time.Second, Logger: (&testLog{}).logger()}
		steps := func(ctx context.Context, job *Job, die func()) error {
			for _, name := range []string{"first", "second"} {
				if _, err := Step(ctx, job, name, func(context.Context) (int, error) {
					if effects.add(name, 1); name == "second" {
						die()
					}
					return 1, nil
				}); err != nil {
					return err
				}
			}
			return nil
		}
		var failed error
		serve(t, dying, cfg, func(ctx context.Context, job *Job) error {
			failed = steps(ctx, job, func() { dying.setCut(true) })
			return failed
		})
		id := add(t, b, DefaultQueue, "order", 1)[0]
		pass(time.Second)
		serve(t, b, cfg, func(ctx context.Context, job *Job) error { return steps(ctx, job, func() {}) })
		pass(time.Hour)
		expect(t, b, DefaultQueue, id, StateCompleted)
		if effects.get("first") != 1 || effects.get("second") != 2 {
			t.Errorf("the first step ran %d times and the second %d times, want once and, as its record was lost, twice",
				effects.get("first"), effects.get("second"))
		}
		if !errors.Is(failed, ErrLeaseLost) || !strings.Contains(fmt.Sprint(failed), `step "second"`) {
			t.Errorf("the step whose result was not stored returned %v, want ErrLeaseLost about that step", failed)
		}
	})
}

func TestStep_IsRefusedWithAReason(t *testing.T) {
	t.Parallel()
	job := NewJob(&broker.Job{Queue: "q", ID: "17", Head: broker.Head{Kept: &broker.Kept{
		Steps: []broker.DoneStep{{Name: "typed", Result: []byte(`"text"`)}}}}})
	one := func(context.Context) (int, error) { return 1, nil }
	if _, err := Step(t.Context(), job, "twice", one); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		step  string
		fn    func(context.Context) (any, error)
		is    error
		parts []string
	}{
		"a name that was used": {"twice", func(context.Context) (any, error) { t.Error("it was called"); return nil, nil }, ErrInvalid,
			[]string{"twice", "its own name"}},
		"no name":             {"", nil, ErrInvalid, []string{"step"}},
		"a long name":         {strings.Repeat("n", 256), nil, ErrInvalid, []string{"step", "255"}},
		"an error of its own": {"fails", func(context.Context) (any, error) { return nil, errCut }, errCut, []string{errCut.Error()}},
		"a result without JSON": {"channel", func(context.Context) (any, error) { return make(chan int), nil }, SkipRetry,
			[]string{"channel", "cannot be encoded", "chan int"}},
		"a result that panics": {"panics", func(context.Context) (any, error) { return panicky{}, nil }, SkipRetry,
			[]string{"panics", "cannot be encoded", "panicky", "boom"}},
		"a result without room": {"large", func(context.Context) (any, error) { return strings.Repeat("x", MaxCheckpoint), nil }, ErrTooLarge,
			[]string{`step "large"`, "65536", "store it elsewhere"}},
		"which no retry can help": {"larger", func(context.Context) (any, error) { return strings.Repeat("x", MaxCheckpoint), nil },
			SkipRetry, nil},
		"an error beside result": {"both", func(context.Context) (any, error) { return 1, errCut }, errCut, nil},
	} {
		result, err := Step(t.Context(), job, test.step, test.fn)
		if err == nil || result != nil || test.is != nil && !errors.Is(err, test.is) {
			t.Errorf("%s: got %v, %v; want no result and the error %v", name, result, err, test.is)
		}
		for _, part := range test.parts {
			if !strings.Contains(fmt.Sprint(err), part) {
				t.Errorf("%s: the error %q does not say %q", name, err, part)
			}
		}
	}
	if _, err := Step(t.Context(), job, "typed", one); err == nil || !strings.Contains(err.Error(), "does not fit int") ||
		strings.Contains(err.Error(), "text") {
		t.Errorf("a stored result of another type: got %v, want an error that names the types and does not quote it", err)
	}
	if steps := job.Kept().Steps; len(steps) != 2 || steps[1].Name != "twice" {
		t.Errorf("what was refused is stored: %v", steps)
	}
}

func TestStep_StepsMayRunAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		var calls tally
		serve(t, b, Config{RetryPolicy: Constant(time.Minute)}, func(ctx context.Context, job *Job) error {
			var all sync.WaitGroup
			for i := range 20 {
				all.Go(func() {
					name := fmt.Sprint("part ", i)
					got, err := Step(ctx, job, name, func(context.Context) (int, error) {
						calls.add(name, 1)
						return i, nil
					})
					if err != nil || got != i {
						t.Errorf("step %s: %d, %v", name, got, err)
					}
				})
			}
			all.Wait()
			if job.Attempt() == 0 {
				return errors.New("once more")
			}
			return nil
		})
		id := add(t, b, DefaultQueue, "order", 1)[0]
		pass(time.Hour)
		expect(t, b, DefaultQueue, id, StateCompleted)
		for i := range 20 {
			if n := calls.get(fmt.Sprint("part ", i)); n != 1 {
				t.Errorf("part %d ran %d times", i, n)
			}
		}
	})
}
