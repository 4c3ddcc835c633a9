package transaction

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/inspect"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/pgbroker"
	"github.com/seed81422ce9/jobs/internal/testenv"
	"github.com/seed81422ce9/jobs/workflow"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// open returns a shop without orders.
func open(ctx context.Context, t *testing.T) *Shop {
	t.Helper()
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
	t.Cleanup(func() { shop.Broker.Close() })
	return shop
}

func TestTransaction_AnOrderAndItsReceiptAreStoredTogetherOrNotAtAll(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	shop := open(ctx, t)
	b, db := shop.Broker, shop.DB

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

func TestTransaction_AnOrderAndItsWorkflowAreStoredTogetherOrNotAtAll(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	shop := open(ctx, t)
	started := func(order string) bool {
		t.Helper()
		_, err := workflow.Get(ctx, shop.Client, "order-"+order)
		if err != nil && !errors.Is(err, jobs.ErrNotFound) {
			t.Fatal(err)
		}
		return err == nil
	}

	if err := shop.Fulfil(ctx, "1001"); err != nil || !started("1001") {
		t.Fatalf("the first order: %v", err)
	}
	if err := shop.Fulfil(ctx, "1001"); err == nil {
		t.Error("the same order was taken twice")
	}
	full := int64(3) // two nodes are stored, one more has room
	if _, err := inspect.New(shop.Broker).SetPolicy(ctx, inspect.PolicyRequest{Queue: jobs.DefaultQueue, MaxDepth: &full}); err != nil {
		t.Fatal(err)
	}
	if err := shop.Fulfil(ctx, "1002"); !errors.Is(err, jobs.ErrQueueFull) || started("1002") {
		t.Errorf("an order whose second node was refused: %v; its workflow exists: %v", err, started("1002"))
	}
	tx, err := shop.DB.Begin(ctx) // its process dies before the commit
	if err != nil {
		t.Fatal(err)
	}
	one := workflow.New("order-1003").Add(workflow.Node{Name: "ship", Task: jobs.NewTask("order:ship", nil)})
	if err := workflow.Start(ctx, shop.Client.In(shop.Broker.Tx(tx)), one); err != nil {
		t.Fatal(err)
	}
	if err := tx.Conn().Close(ctx); err != nil {
		t.Fatal(err)
	}
	_ = tx.Rollback(ctx)
	info, err := inspect.New(shop.Broker).Queue(ctx, jobs.DefaultQueue)
	if parked := info.Counts[jobs.StateScheduled]; err != nil || started("1003") || parked != 2 {
		t.Errorf("%d nodes are stored, %v; want the two of the first order", parked, err)
	}

	var shipped atomic.Value
	server, err := jobs.NewServer(shop.Broker, jobs.Config{Logger: slog.New(slog.DiscardHandler),
		Extensions: []jobs.Extension{workflow.Extension(shop.Client, workflow.ExtensionConfig{})}})
	if err == nil {
		err = server.Start(ctx, jobs.HandlerFunc(func(_ context.Context, j *jobs.Job) error {
			if j.Type() == "order:ship" {
				shipped.Store(string(j.Payload()))
			}
			return nil
		}))
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := workflow.Wait(ctx, shop.Client, "order-1001"); err != nil || shipped.Load() != "1001" {
		t.Errorf("the first order: %v, shipped %v", err, shipped.Load())
	}
	if err := server.Shutdown(ctx); err != nil {
		t.Error(err)
	}
}
