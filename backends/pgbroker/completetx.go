package pgbroker

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed81422ce9/jobs/broker"
)

// Completing is the job that CompleteTx completes: the *jobs.Job of a handler.
type Completing interface {
	Record() *broker.Job
	Result() []byte
	Kept() broker.Kept
	CompletesInTx()
}

// CompleteTx completes the job of a handler in the handler's own transaction. The rows that
// the handler writes in the transaction and the end of the job are stored together, or not at
// all. So the effect happens exactly once, however often the job is delivered. Call CompleteTx
// last, then commit, and return nil only if the commit succeeded. Return the error of any step
// that fails, also of the commit. The job's result is the one that SetResult set before.
//
// The call checks the lease and locks the job until the transaction ends. Commit at once, since
// a settle of the same job waits for that. After an error the transaction can only be rolled
// back: CompleteTx makes a commit fail. The error is ErrLeaseLost if the worker no longer has
// the lease. It is ErrInvalid if the transaction is READ ONLY, or has ended or failed. If the
// transaction itself reports that it has ended, the error is also pgx.ErrTxClosed (for
// database/sql: sql.ErrTxDone). If the answer to the commit is lost, return the error of the
// commit: if the transaction did commit, the job is gone and nothing else happens; if not, the job
// is retried.
//
// It takes two round trips. The transaction may have any isolation level; it
// belongs to one goroutine.
func (b *Broker) CompleteTx(ctx context.Context, tx pgx.Tx, job Completing) error {
	return b.completeIn(ctx, txSession{tx, b.config.PollOnly}, job)
}

// CompleteSQLTx is CompleteTx for a transaction of database/sql, of any driver
// that numbers its parameters $1, $2, …. It takes about five round trips.
func (b *Broker) CompleteSQLTx(ctx context.Context, tx *sql.Tx, job Completing) error {
	return b.completeIn(ctx, sqlSession{tx, pgtype.NewMap()}, job)
}

func (b *Broker) completeIn(ctx context.Context, in session, job Completing) error {
	j := job.Record()
	err := b.usable(ctx)
	if err == nil {
		err = b.complete(ctx, in, j, broker.Complete(job.Result()).With(job.Kept()))
	}
	if err != nil {
		abort(ctx, in)
		return broker.About(err, "complete in a transaction", j.Queue, j.ID)
	}
	job.CompletesInTx()
	return nil
}

func (b *Broker) complete(ctx context.Context, in session, j *broker.Job, o broker.Outcome) error {
	req := broker.SettleRequest{Worker: j.Worker, Number: 1, Items: []broker.Settlement{{Job: j, Outcome: o}}}
	if err := req.Check(); err != nil {
		return err
	}
	req.Number = 0 // this settle is not one of the server's numbered settles
	kept := new(keptSettings)
	s := newSettling(b, &req)
	steps := []step{{sql: inSchema("lock table jobs.queue in access share mode", b.config.Schema)}, // fails without a transaction
		kept.read(b), b.byIndex(false)}
	if err := in.run(ctx, append(steps, s.steps()...)...); err != nil {
		return kept.refuse(err)
	}
	t := s.turns[0]
	if !t.served {
		if err := in.run(ctx, b.notNewer(t.queue)); err != nil {
			return err
		}
	}
	if len(t.verdicts) == 0 {
		return broker.ErrLeaseLost
	}
	last := []step{kept.restore(b)}
	if t.watched {
		events := newEvents(settledKind, j.Queue)
		events.add(broker.StateCompleted, j.ID)
		last = append(last, b.step("tell", nil, b.channel, j.Queue, events.payloads, false)) // the commit sends it
	}
	if t.opens {
		wake := messageInTx(manyJobs)
		last = append(last, b.step("wake", nil, j.Queue, wake.self, wake.payload(j.Queue), false))
	}
	return in.run(ctx, last...)
}

// abort makes a transaction fail, so that a caller that ignores the error commits nothing.
func abort(ctx context.Context, in session) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTime)
	defer cancel()
	_ = in.run(ctx, step{sql: "do $$ begin raise 'jobs: the job could not be completed, this transaction must be rolled back'; end $$"})
}
