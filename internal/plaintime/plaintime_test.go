package plaintime

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

func TestPlaintime_TimeoutOfAContextNobodyCancelsEndsByTimeAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, watched := range map[string]bool{"watched": true, "not watched": false} {
			ctx, cancel := WithTimeout(context.WithValue(context.Background(), testKey(name), 1), time.Second)
			defer cancel()
			if !OnlyTime(ctx) || ctx.Value(testKey(name)) != 1 {
				t.Fatalf("%s: OnlyTime is %v, its value %v", name, OnlyTime(ctx), ctx.Value(testKey(name)))
			}
			if d, ok := ctx.Deadline(); !ok || time.Until(d) != time.Second {
				t.Errorf("%s: the deadline is in %v, %v", name, time.Until(d), ok)
			}
			if watched {
				select {
				case <-ctx.Done():
					t.Errorf("%s: done at once", name)
				case <-time.After(time.Second - 1):
				}
			} else {
				time.Sleep(time.Second - 1)
			}
			if err := ctx.Err(); err != nil {
				t.Errorf("%s: %v before its time", name, err)
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if err := ctx.Err(); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: at its deadline: %v", name, err)
			}
			<-ctx.Done()
		}
	})
}

func TestPlaintime_CancelEndsATimeoutWatchedOrNot(t *testing.T) {
	t.Parallel()
	for _, before := range []bool{true, false} {
		ctx, cancel := WithTimeout(context.Background(), time.Hour)
		if before {
			ctx.Done()
		}
		cancel()
		if err := ctx.Err(); !errors.Is(err, context.Canceled) {
			t.Errorf("watched before %v: %v", before, err)
		}
		<-ctx.Done()
	}
}

func TestPlaintime_TimeoutOfAContextThatCanBeCancelledIsAnOrdinaryOne(t *testing.T) {
	t.Parallel()
	parent, stop := context.WithCancel(context.Background())
	ctx, cancel := WithTimeout(parent, time.Hour)
	defer cancel()
	if OnlyTime(ctx) || OnlyTime(parent) {
		t.Error("a context that can be cancelled counts as one that cannot")
	}
	stop()
	<-ctx.Done()
}

func TestPlaintime_TimeoutDoesNotOutliveItsParentsDeadline(t *testing.T) {
	t.Parallel()
	parent, cancel := WithTimeout(context.Background(), time.Minute)
	defer cancel()
	want, _ := parent.Deadline()
	ctx, cancel := WithTimeout(parent, time.Hour)
	defer cancel()
	if got, _ := ctx.Deadline(); !got.Equal(want) {
		t.Errorf("its deadline is %v after its parent's", got.Sub(want))
	}
}

func TestPlaintime_ContextsOfATimeoutNeedNoGoroutine(t *testing.T) {
	ctx, cancel := WithTimeout(context.Background(), time.Hour)
	defer cancel()
	before := runtime.NumGoroutine()
	child, stop := context.WithCancel(ctx)
	if n := runtime.NumGoroutine(); n > before {
		t.Errorf("%d goroutines more", n-before)
	}
	cancel()
	<-child.Done()
	stop()
}

type testKey string
