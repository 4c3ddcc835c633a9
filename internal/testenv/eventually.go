package testenv

import (
	"testing"
	"time"
)

// Eventually waits until done returns true, and fails the test after a minute, with what instead says. It is for what
// happens in a server or in another process; tests in memory use testing/synctest. Call it on the test's goroutine.
func Eventually(tb testing.TB, what string, done func() bool, instead ...func() string) {
	tb.Helper()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for late := time.After(time.Minute); !done(); {
		select {
		case <-again.C:
		case <-late:
			for _, say := range instead {
				what += "\n" + say()
			}
			tb.Fatalf("waited a minute for this: %s", what)
		}
	}
}
