package transaction

import (
	"context"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/inspect"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/pgbroker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestTransaction_AnOrderAndItsReceiptAreStoredTogetherOrNotAtAll(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	db, schema := testenv.PostgresPool(t)
	if err := pgbroker.Migrate(ctx, db, schema); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(ctx, "create table orders (id text primary key)"); err != nil {
		t.Fatal(err)
	}
	shop, err := New(ctx, db, pgbroker.Config{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	b := shop.Broker
	defer b.Close()

	if err := shop.Place(ctx, "1001"); err != nil {
		t.Fatal(err)
	}
	if err := shop.Place(ctx, "1001"); err == nil {
		t.Error("the same order was placed twice")
	}
	full := int64(1)
	if _, err := inspect.New(b).SetPolicy(ctx, inspect.PolicyRequest{Queue: jobs.DefaultQueue, MaxDepth: &full}); err != nil {
		t.Fatal(err)
	}
	if err := shop.Place(ctx, "1002"); err == nil {
		t.Error("an order was placed although its receipt was refused by a full queue")
	}

	var orders int
	if err := db.QueryRow(ctx, "select count(*) from orders").Scan(&orders); err != nil {
		t.Fatal(err)
	}
	info, err := inspect.New(b).Queue(ctx, jobs.DefaultQueue)
	if err != nil {
		t.Fatal(err)
	}
	if receipts := info.Counts[jobs.StatePending]; orders != 1 || receipts != 1 {
		t.Errorf("there are %d orders and %d receipts; want one of each", orders, receipts)
	}
}
