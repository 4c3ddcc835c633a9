package pgbroker_test

import (
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// A claim takes longer than a quick rate needs to allow the next start. When the claim looks what is left, the rate
// allows a start already, so there is no time to wait for. A server that is not told to ask again would wait for its next poll.
func TestRate_AClaimDuringWhichTheRateAllowedMoreSaysToAskAgain(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*broker.NewJob){"without keys": func(*broker.NewJob) {}, "with a key": ofKey("k")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.policy(broker.PolicyRequest{Rate: &broker.Rate{Jobs: 100_000, Per: time.Second}})
			const n = 20
			f.store(f, series("j", n, change)...)
			for taken, claims := 0, 0; taken < n; claims++ {
				got, err := f.Claim(t.Context(), broker.ClaimRequest{Worker: testWorker, Max: n, Queues: []broker.Share{{Queue: testQueue, Max: n}}})
				f.ok(err)
				taken += len(got.Jobs)
				if taken < n && !got.More && got.NextDue.IsZero() || claims == 1000 {
					t.Fatalf("claim %d brought %d of %d jobs, and says neither that there are more nor when", claims+1, len(got.Jobs), n)
				}
			}
		})
	}
}
