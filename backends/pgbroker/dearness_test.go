package pgbroker

import (
	"testing"
	"time"
)

func TestDearness_PausesAreLongerThanWhatTheySave(t *testing.T) {
	t.Parallel()
	for took, want := range map[time.Duration]time.Duration{
		49 * time.Millisecond: 0, 50 * time.Millisecond: time.Second, time.Second: 20 * time.Second, time.Minute: time.Minute,
	} {
		if got := isDear.pause(took.Microseconds()); got != want {
			t.Errorf("what takes %v is done again after %v, want %v", took, got, want)
		}
	}
}
