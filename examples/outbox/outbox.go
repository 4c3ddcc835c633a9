// Package outbox shows an application with rows in Postgres and workers on Redis: it
// enqueues in the transaction of the rows, and a relay moves the jobs to Redis.
package outbox

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/pgbroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/relay"
)

// Step asks for one step of an order.
type Step struct{ Order, What string }

// DoStep is the task of a step.
var DoStep = jobs.Define[Step]("order:step", jobs.WithQueue("orders"))

// Shop takes orders.
type Shop struct {
	DB     *pgxpool.Pool
	Outbox *pgbroker.Broker
	Client *jobs.Client // of Outbox
}

// begin enqueue

// Place stores an order and the jobs of its steps, or nothing of it. The key
// keeps the steps of one order in sequence, on their way to Redis and there.
func (s *Shop) Place(ctx context.Context, order string) error {
	return pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "insert into orders (id) values ($1)", order); err != nil {
			return err
		}
		inTx := s.Client.In(s.Outbox.Tx(tx))
		for _, what := range []string{"reserve", "charge", "ship"} {
			if _, err := DoStep.Enqueue(ctx, inTx, Step{order, what}, jobs.WithPartitionKey(order)); err != nil {
				return err
			}
		}
		return nil
	})
}

// end enqueue

// begin relay

// Work handles the steps on Redis until ctx ends. The relay runs in the same
// server. If several servers run it, one of them moves jobs at a time.
func Work(ctx context.Context, outbox, redis broker.Broker, do func(context.Context, Step) error) error {
	order := inspect.OrderStop // a step starts when the one before it has succeeded, whichever server ran it
	if _, err := inspect.New(redis).SetPolicy(ctx, inspect.PolicyRequest{Queue: "orders", Ordered: &order}); err != nil {
		return err
	}
	r, err := relay.New(relay.Config{From: outbox, FromQueue: "orders", To: redis})
	if err != nil {
		return err
	}
	mux := jobs.NewServeMux()
	jobs.Handle(mux, DoStep, func(ctx context.Context, s Step, _ *jobs.Job) error { return do(ctx, s) })
	server, err := jobs.NewServer(redis, jobs.Config{
		Queues:     map[string]int{"orders": 1},
		Extensions: []jobs.Extension{r.Extension()},
	})
	if err != nil {
		return err
	}
	return server.Run(ctx, mux)
}

// end relay
