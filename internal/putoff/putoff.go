// Package putoff computes the delay of a job that has to wait for something else.
package putoff

import (
	"math/rand/v2"
	"time"
)

// Growing returns min for the first delay and half as much again for each further one, up to max. It
// varies the delay by a tenth, so that waiting jobs do not return together. snoozes is the number of
// earlier delays.
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
