package jobs

import (
	"os"
	"os/signal"
	"testing"

	"go.uber.org/goleak"
)

// The runtime makes the channels of package signal when it is first used. Made
// in the synctest bubble of one test, they would end the process in the next one
// that uses them.
func TestMain(m *testing.M) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt)
	signal.Stop(signals)
	goleak.VerifyTestMain(m)
}
