// Package putoff computes for how long a job is put off that has to wait for
// something else.
package putoff

import (
	"math/rand/v2"
	"time"
)

// Growing is min at first, each time half as long again as the time before, up
// to max; a tenth more or less, so that jobs that wait do not come back
// together. snoozes counts the times before.
func Growing(min, max time.Duration, snoozes int) time.Duration {
	delay := min
	for range snoozes {
		if delay += delay / 2; delay >= max {
			delay = max
			break
		}
	}
	return delay*9/10 + rand.N(delay/5+1)
}
