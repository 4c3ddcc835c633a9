package sleep_test

import (
	"math"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/internal/sleep"
)

// The number of doublings comes from counts in the store, and a damaged record can have any.
func TestDoubled_TakesAnyNumber(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]time.Duration{math.MinInt: time.Second, -1: time.Second, 0: time.Second, 1: 2 * time.Second,
		6: time.Minute, 63: time.Minute, math.MaxInt: time.Minute} {
		if got := sleep.Doubled(time.Second, n, time.Minute); got != want {
			t.Errorf("a second doubled %d times, at most a minute, is %v, want %v", n, got, want)
		}
	}
}
