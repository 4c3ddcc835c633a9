// Package transaction enqueues a job, or starts a workflow, in the transaction that writes its
// rows: both are committed, or neither.
package transaction

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/pgbroker"
	"github.com/seed81422ce9/jobs/workflow"
)

// Receipt asks for the mail about an order.
type Receipt struct{ Order string }

// SendReceipt is the task that sends the receipt.
var SendReceipt = jobs.Define[Receipt]("order:receipt")

// Shop takes orders.
type Shop struct {
	DB     *pgxpool.Pool
	Broker *pgbroker.Broker
	Client *jobs.Client
}

// begin new

// New makes a shop on a database that has the orders and, after pgbroker.Migrate or jobsctl migrate, a schema of jobs.
func New(ctx context.Context, db *pgxpool.Pool, config pgbroker.Config) (*Shop, error) {
	b, err := pgbroker.New(ctx, db, config)
	if err != nil {
		return nil, err
	}
	return &Shop{DB: db, Broker: b, Client: jobs.NewClient(b, jobs.ClientConfig{})}, nil
}

// end new

// begin transaction

// Place stores an order and the job that mails its receipt, or neither.
func (s *Shop) Place(ctx context.Context, order string) error {
	return pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "insert into orders (id) values ($1)", order); err != nil {
			return err
		}
		inTx := s.Client.In(s.Broker.Tx(tx)) // or SQLTx, for a transaction of database/sql
		_, err := SendReceipt.Enqueue(ctx, inTx, Receipt{Order: order})
		return err
	})
}

// end transaction

// begin workflow

// Fulfil stores an order and the workflow that fulfils it, or neither.
func (s *Shop) Fulfil(ctx context.Context, order string) error {
	return pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "insert into orders (id) values ($1)", order); err != nil {
			return err
		}
		wf := workflow.New("order-" + order).Add(workflow.Chain(
			workflow.Node{Name: "reserve", Task: jobs.NewTask("order:reserve", []byte(order))},
			workflow.Node{Name: "ship", Task: jobs.NewTask("order:ship", []byte(order))},
		))
		return workflow.Start(ctx, s.Client.In(s.Broker.Tx(tx)), wf)
	})
}

// end workflow
