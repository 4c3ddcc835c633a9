package integration

import (
	"os"
	"testing"

	"github.com/seed81422ce9/jobs"
)

// A worker can die before or after the effect is recorded. Before is the window
// that docs/guide/idempotency.md describes; after is harmless.
func TestProgram_AKillAfterTheEffectOfADedupedJob(t *testing.T) {
	t.Parallel()
	for where, effects := range map[string]int{afterEffect: 2, afterRecorded: 1} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			onStores(t, func(t *testing.T, s *store) {
				ledger := t.TempDir()
				victim := startWorker(t, s.url, settings{})
				opts := []jobs.Option{jobs.WithIdempotencyKey("invoice-987")}
				first := s.enqueue(t, 1, typeCharge, ledger, append(opts, jobs.WithHeader(waitHeader, where))...)
				victim.awaitKind("begun", first)
				victim.kill()

				startWorker(t, s.url, settings{ordered: true})
				// The redelivery owns the dead run's marker, so it does not wait until its hold is over.
				again := s.completed(t, first)[0]
				duplicate := s.completed(t, s.enqueue(t, 1, typeCharge, ledger, opts...))[0]
				if string(again.Result) != "receipt" || string(duplicate.Result) != "receipt" || again.Crashes != 1 ||
					again.Failures+duplicate.Failures != 0 {
					t.Errorf("the redelivery has the result %q, %d crashes and %d failures, the duplicate %q and %d failures; "+
						"want two receipts and one crash",
						again.Result, again.Crashes, again.Failures, duplicate.Result, duplicate.Failures)
				}
				if files, err := os.ReadDir(ledger); err != nil || len(files) != effects {
					t.Errorf("the effect happened %d times (error %v), want %d", len(files), err, effects)
				}
			})
		})
	}
}
