package pgbroker_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed81422ce9/jobs/broker"
)

// The end of a job also changes the job that waits behind it, whose ID may be any: it locks these jobs last, in the order of their
// unique keys. An operation does the same. Otherwise each of the two would hold what the other waits for.
func TestLocks_JobsThatWaitBehindOthersAreLockedLast(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		hold    string // a settle of the jobs 1, 2 and 9 waits for this job
		operate []string
	}{
		{"an operation on one of them and on an active job", "9", []string{"0", "2"}},
		{"an operation on two of them", "01", []string{"0", "01"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			last := func(j *broker.NewJob) { j.Body.Unique.Conflict = broker.ConflictKeepLast }
			f.store(f, aJob("1", withKey("z", broker.UniqueUntilDone)), aJob("2", withKey("y", broker.UniqueUntilDone)), aJob("9"))
			active := f.claim(3, time.Minute)
			f.store(f, aJob("0", withKey("z", broker.UniqueUntilDone), last), aJob("01", withKey("y", broker.UniqueUntilDone), last))
			tx := f.begin(pgx.TxOptions{})
			_, err := tx.Exec(t.Context(), f.in("select from jobs.job where id = $1 for update"), c.hold)
			f.ok(err)
			done := make(chan error, 2)
			go func() {
				req := broker.SettleRequest{Worker: testWorker, Number: 1}
				for i := range active {
					req.Items = append(req.Items, broker.Settlement{Job: &active[i], Outcome: broker.Complete(nil)})
				}
				_, err := f.Settle(t.Context(), req)
				done <- err
			}()
			f.awaitLockWait()
			go func() {
				op := broker.Operation{Kind: broker.OpCancel}
				for _, id := range c.operate {
					op.Refs = append(op.Refs, broker.Ref{Queue: testQueue, ID: id, Epoch: broker.AnyEpoch})
				}
				_, err := f.Operate(t.Context(), op)
				done <- err
			}()
			for f.lockWaits() < 2 && len(done) == 0 {
			}
			f.ok(tx.Rollback(t.Context()))
			for range 2 {
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		})
	}
}
