package engine

import (
	"testing"
	"time"
)

func TestOutage_IsToldOfAtGrowingIntervals(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var o outage
		var told []time.Duration
		began := time.Now()
		for time.Since(began) < time.Hour {
			if o.failed(time.Now(), errCut) {
				told = append(told, time.Since(began))
			}
			time.Sleep(time.Second)
		}
		for i, want := range []time.Duration{0, 10 * time.Second, 20 * time.Second, 40 * time.Second} {
			if len(told) <= i || told[i] != want {
				t.Fatalf("an outage of an hour was told of at %v, want a line at %v", told, want)
			}
		}
		if n := len(told); n < 10 || n > 20 {
			t.Errorf("an outage of an hour was told of %d times", n)
		}
		if !o.ended() || o.ended() || !o.failed(time.Now(), errCut) {
			t.Error("the end of an outage is not noticed once, or the next one not told of at once")
		}
	})
}
