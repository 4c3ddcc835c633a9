package integration

import (
	"context"
	"net/url"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/pgbroker"
)

// typeBill writes a row and completes its job in one transaction. Its payload
// says where the handler waits for the order "go" or the end of its process:
// before the completion or after the commit.
const (
	typeBill        = "bill"
	beforeCompleted = "before"
	afterCommitted  = "after"
)

// billing is what the handler of typeBill needs besides the worker's own broker.
type billing struct {
	pool   *pgxpool.Pool
	broker *pgbroker.Broker
	table  string
}

// openBilling returns nil for stores without transactions.
func openBilling(ctx context.Context, place string) (*billing, error) {
	u, err := url.Parse(place)
	if err != nil || u.Scheme != "postgres" {
		return nil, err
	}
	q := u.Query()
	schema := q.Get("schema")
	q.Del("schema")
	u.RawQuery = q.Encode()
	pool, err := pgxpool.New(ctx, u.String())
	if err != nil {
		return nil, err
	}
	b, err := pgbroker.New(ctx, pool, pgbroker.Config{Schema: schema})
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &billing{pool, b, pgx.Identifier{schema, "bill"}.Sanitize()}, nil
}

func (b *billing) close() {
	b.broker.Close()
	b.pool.Close()
}

func (b *billing) handler(tell func(kind, id, text string), orders <-chan struct{}) jobs.HandlerFunc {
	return func(ctx context.Context, job *jobs.Job) error {
		err := pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "insert into "+b.table+" values ($1)", job.ID()); err != nil {
				return err
			}
			if string(job.Payload()) == beforeCompleted {
				tell("begun", job.ID(), beforeCompleted)
				<-orders
			}
			job.SetResult([]byte("billed"))
			return b.broker.CompleteTx(context.WithoutCancel(ctx), tx, job)
		})
		if err != nil {
			tell("ended", job.ID(), err.Error())
			return err
		}
		if string(job.Payload()) == afterCommitted {
			tell("begun", job.ID(), afterCommitted)
			<-orders
		}
		return nil
	}
}
