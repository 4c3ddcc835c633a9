package sleep_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed81422ce9/jobs/internal/sleep"
)

func TestFor_WaitsUnlessTheContextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ended, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		for _, c := range []struct {
			d, took time.Duration
			want    error
		}{{-1, 0, nil}, {0, 0, nil}, {time.Millisecond, time.Millisecond, nil}, {time.Minute, 999 * time.Millisecond, context.DeadlineExceeded},
			{0, 0, context.DeadlineExceeded}} {
			began := time.Now()
			if err := sleep.For(ended, c.d); !errors.Is(err, c.want) || time.Since(began) != c.took {
				t.Errorf("For(%v) = %v after %v, want %v after %v", c.d, err, time.Since(began), c.want, c.took)
			}
		}
	})
}
