package jobs

import (
	"context"
	"strings"
	"testing"
	"time"
)

func TestServer_AHandlerIsStuckByTheBoundThatAMiddlewareSet(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		gate := make(chan struct{})
		reports := make(chan StuckEvent, 10)
		cfg := Config{Concurrency: 2, Timeout: time.Hour, Hooks: Hooks{Stuck: func(e StuckEvent) { reports <- e }}}
		s := serve(t, b, cfg, func(ctx context.Context, j *Job) error {
			derived, cancel := context.WithCancel(ctx)
			defer cancel()
			_, release := WithBound(derived, Bound{End: time.Now().Add(time.Minute), Grace: 10 * time.Second})
			if j.Type() == "stuck" {
				ignoresItsContext(gate)
			}
			release()
			time.Sleep(10 * time.Minute) // no bound holds any more
			return nil
		})
		add(t, b, DefaultQueue, "withdrawn", 1)
		add(t, b, DefaultQueue, "stuck", 1)
		pass(69 * time.Second)
		if len(reports) != 0 {
			t.Fatalf("before the grace was over: %+v", <-reports)
		}
		pass(3 * time.Second)
		if len(reports) != 1 {
			t.Fatalf("%d reports, want 1", len(reports))
		}
		if e := <-reports; e.Job.Type() != "stuck" || e.Cause != ErrTimeout || e.Overdue < 10*time.Second ||
			!strings.Contains(e.Stack, "ignoresItsContext") {
			t.Errorf("the report is %+v", e)
		}
		if err := s.Ready(); err == nil {
			t.Error("the server is ready with half of its slots stuck")
		}
		close(gate)
		pass(time.Hour)
		if len(reports) != 0 {
			t.Errorf("reported although all returned in time: %+v", <-reports)
		}
	})
}

func TestServer_BoundsSideBySideCountUntilTheyAreReleased(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newStore()
		reports := make(chan StuckEvent, 10)
		cfg := Config{Timeout: time.Hour, Hooks: Hooks{Stuck: func(e StuckEvent) { reports <- e }}}
		serve(t, b, cfg, func(ctx context.Context, j *Job) error {
			within := func(d time.Duration) (release func()) {
				_, release = WithBound(ctx, Bound{End: time.Now().Add(d), Grace: time.Second})
				return release
			}
			first, second := within(time.Minute), within(30*time.Second)
			first()
			if j.Type() == "fine" {
				second()
			}
			time.Sleep(10 * time.Minute)
			second()
			return nil
		})
		add(t, b, DefaultQueue, "fine", 1)
		add(t, b, DefaultQueue, "stuck", 1)
		pass(30 * time.Second)
		if len(reports) != 0 {
			t.Fatalf("before the grace was over: %+v", <-reports)
		}
		pass(20 * time.Minute)
		if len(reports) != 1 {
			t.Fatalf("%d reports, want 1, of the handler whose second bound passed", len(reports))
		}
		if e := <-reports; e.Job.Type() != "stuck" || e.Overdue > 3*time.Second {
			t.Errorf("the report is of %s, %v after its bound; want stuck, about a second", e.Job.Type(), e.Overdue)
		}
	})
}

func TestServer_ABoundEndsItsContextAndNoneAround(t *testing.T) {
	bubble(t, func(t *testing.T) {
		type key struct{}
		b := newStore()
		var nested []string
		serve(t, b, Config{Timeout: time.Hour}, func(ctx context.Context, j *Job) error {
			if end, ok := ctx.Deadline(); !ok || time.Until(end) != time.Hour {
				t.Errorf("the run ends in %v", time.Until(end))
			}
			outer, releaseOuter := WithBound(context.WithValue(ctx, key{}, "kept"), Bound{End: time.Now().Add(time.Minute)})
			inner, releaseInner := WithBound(outer, Bound{End: time.Now().Add(2 * time.Minute)})
			for name, c := range map[string]context.Context{"outer": outer, "inner": inner} {
				if end, ok := c.Deadline(); !ok || time.Until(end) != time.Minute || c.Err() != nil {
					t.Errorf("%s ends in %v, want the sooner bound (error %v)", name, time.Until(end), c.Err())
				}
				if c.Value(key{}) != "kept" || JobFromContext(c) != j {
					t.Errorf("%s has lost values: %v, %v", name, c.Value(key{}), JobFromContext(c))
				}
			}
			<-inner.Done()
			nested = append(nested, context.Cause(inner).Error(), context.Cause(outer).Error())
			if inner.Err() != context.DeadlineExceeded || ctx.Err() != nil {
				t.Errorf("inside: %v, around: %v", inner.Err(), ctx.Err())
			}
			releaseInner()
			releaseOuter()

			released, release := WithBound(ctx, Bound{End: time.Now().Add(time.Minute)})
			below, cancel := context.WithTimeout(released, time.Hour)
			defer cancel()
			release()
			if released.Err() != context.Canceled || below.Err() != context.Canceled || context.Cause(below) != context.Canceled {
				t.Errorf("released: %v, below it: %v", released.Err(), below.Err())
			}
			return nil
		})
		add(t, b, DefaultQueue, "a", 1)
		pass(2 * time.Minute)
		if want := ErrTimeout.Error(); len(nested) != 2 || nested[0] != want || nested[1] != want {
			t.Errorf("the causes are %q, want twice %q", nested, want)
		}
		expect(t, b, DefaultQueue, "a-0", StateCompleted)
	})
}

func TestServer_ACancellationGoesThroughABound(t *testing.T) {
	t.Parallel()
	around, cancel := context.WithCancelCause(context.Background())
	bounded, release := WithBound(around, Bound{End: time.Now().Add(time.Hour)})
	defer release()
	cancel(ErrShutdown)
	if <-bounded.Done(); context.Cause(bounded) != ErrShutdown || bounded.Err() != context.Canceled {
		t.Errorf("the cause is %v (%v), want %v", context.Cause(bounded), bounded.Err(), ErrShutdown)
	}
}
