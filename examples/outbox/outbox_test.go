package outbox

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/backends/pgbroker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestOutbox_StepsOfPlacedOrdersRunOnRedis(t *testing.T) {
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
	outbox, err := pgbroker.New(ctx, db, pgbroker.Config{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	defer outbox.Close()
	redis, err := backends.Open(ctx, testenv.RedisPlace(t))
	if err != nil {
		t.Fatal(err)
	}
	defer redis.Close()
	shop := &Shop{DB: db, Outbox: outbox, Client: jobs.NewClient(outbox, jobs.ClientConfig{})}
	defer shop.Client.Close()

	var mu sync.Mutex
	var steps []string
	var failed bool // the first charge fails once
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- Work(working, outbox, redis, func(_ context.Context, s Step) error {
			mu.Lock()
			defer mu.Unlock()
			if s.What == "charge" && !failed {
				failed = true
				return jobs.RetryAfter(200*time.Millisecond, errors.New("the bank does not answer"))
			}
			if steps = append(steps, s.Order+" "+s.What); len(steps) == 6 {
				stop()
			}
			return nil
		})
	}()
	for _, order := range []string{"1001", "1002"} {
		if err := shop.Place(ctx, order); err != nil {
			t.Fatal(err)
		}
	}
	if err := shop.Place(ctx, "1001"); err == nil {
		t.Error("the same order was placed twice")
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	// The steps of an order share its key: orders take turns, and the steps of each run in
	// order, also if one has to be repeated.
	slices.SortStableFunc(steps, func(a, b string) int { return strings.Compare(a[:len("1001")], b[:len("1001")]) })
	want := []string{"1001 reserve", "1001 charge", "1001 ship", "1002 reserve", "1002 charge", "1002 ship"}
	if !slices.Equal(steps, want) {
		t.Errorf("these steps ran, by order: %v, want %v", steps, want)
	}
}
