// Package exactlyonce ends a job in the transaction of its effect: both are committed,
// or neither, however often the job is delivered.
package exactlyonce

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/pgbroker"
)

// Transfer asks for money to be moved.
type Transfer struct {
	From, To string
	Cents    int64
}

// MoveMoney is the task of a transfer.
var MoveMoney = jobs.Define[Transfer]("bank:transfer")

// Bank keeps accounts in the database that has the jobs.
type Bank struct {
	DB     *pgxpool.Pool
	Broker *pgbroker.Broker
}

// begin exactlyonce

// Transfer handles MoveMoney: both accounts change exactly once.
func (b *Bank) Transfer(ctx context.Context, t Transfer, job *jobs.Job) error {
	return pgx.BeginFunc(ctx, b.DB, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "update accounts set cents = cents - $1 where id = $2", t.Cents, t.From); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "update accounts set cents = cents + $1 where id = $2", t.Cents, t.To); err != nil {
			return err
		}
		return b.Broker.CompleteTx(ctx, tx, job) // last; or CompleteSQLTx, for a transaction of database/sql
	})
}

// end exactlyonce
