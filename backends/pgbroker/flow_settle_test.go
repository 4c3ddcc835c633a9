package pgbroker_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed81422ce9/jobs/broker"
)

// A settle that waits for a job sees the policy from before. A claim that meanwhile blocks a key under a new limit must
// be called again when the settle ends the key's job.
func TestSettle_CallsAKeyWhoseLimitIsNewer(t *testing.T) {
	t.Parallel()
	for name, outcome := range map[string]broker.Outcome{"complete": broker.Complete(nil),
		"retry": broker.Retry(time.Hour, broker.Failure{Message: "x"})} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.register(testWorker)
			withKey := func(j *broker.NewJob) { j.Body.Key = "k" }
			f.store(f, aJob("1"), aJob("2", withKey))
			jobs := f.claim(2, 0)
			tx := f.begin(pgx.TxOptions{})
			_, err := tx.Exec(t.Context(), f.in("select from jobs.job where id = '1' for update"))
			f.ok(err)
			settled := make(chan error, 1)
			go func() {
				req := broker.SettleRequest{Worker: testWorker, Number: 1}
				for i := range jobs {
					req.Items = append(req.Items, broker.Settlement{Job: &jobs[i], Outcome: outcome})
				}
				_, err := f.Settle(t.Context(), req)
				settled <- err
			}()
			f.awaitLockWait()
			_, err = f.Policy(t.Context(), broker.PolicyRequest{Queue: testQueue, KeyMaxActive: new(int64(1))})
			f.ok(err)
			f.store(f, aJob("3", withKey))
			if got := f.claim(1, 0); len(got) != 0 {
				t.Fatalf("a key at its limit gave %d jobs, want 0", len(got))
			}
			f.ok(tx.Rollback(t.Context()))
			f.ok(<-settled)
			if got := f.claim(1, 0); len(got) != 1 {
				t.Errorf("after the settle the key gave %d jobs, want 1", len(got))
			}
		})
	}
}
