package pgbroker

import (
	"testing"
	"testing/synctest"
	"time"
)

// A worker of many queues is counted once a minute, and more often while it gets jobs; one of few, always.
func TestLeases_OfManyQueuesAreCountedNowAndThen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l leases
		many := make([]string, countQueues+1)
		count := func(after time.Duration, queues []string, want bool) {
			t.Helper()
			time.Sleep(after)
			if got := l.count("w", queues, time.Now()); got != want {
				t.Errorf("%v after the last renewal, of %d queues: counted %t, want %t", after, len(queues), got, want)
			}
		}
		count(0, many, true)
		count(countSoon, many, false)
		count(0, many[1:], true)
		count(countPause, many, true)
		l.add("w", 1)
		count(time.Second, many, false)
		count(countSoon, many, true)
		l.doubt("w")
		count(countSoon, many, true)
		count(countPause-time.Second, many, false)
		count(countSoon, many, true)
	})
}
