package relay

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/backends/pgbroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/handworker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// soon bounds the wait for events that take milliseconds.
const soon = time.Minute

// Jobs that an application enqueues in transactions arrive at Redis once and in
// order, or never if the transaction is rolled back; also while relays start and
// stop, and while the target is full.
func TestRelay_FromTransactionsToRedis(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	url := testenv.PostgresPlace(t)
	if err := backends.Migrate(ctx, url); err != nil {
		t.Fatal(err)
	}
	from, to := open(t, url), open(t, testenv.RedisPlace(t))
	postgres, _ := broker.As[*pgbroker.Broker](from)
	db, err := pgxpool.New(ctx, testenv.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := to.Policy(ctx, broker.PolicyRequest{Queue: mail, MaxDepth: new(int64(300))}); err != nil {
		t.Fatal(err)
	}
	starting := func() (stop func()) {
		r, err := New(Config{From: from, FromQueue: outbox, To: to, ToQueue: mail, Lease: 2 * time.Second,
			Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := r.Run(ctx); err != nil {
				t.Error(err)
			}
		}()
		return func() { cancel(); <-done }
	}
	stops := []func(){starting(), starting()}
	client := jobs.NewClient(from, jobs.ClientConfig{})
	defer client.Close()
	const producers, each = 4, 150
	var producing sync.WaitGroup
	for p := range producers {
		producing.Go(func() {
			for n := range each {
				err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
					inTx := client.In(postgres.Tx(tx))
					for i := range 3 {
						task := jobs.NewTask("task", []byte(fmt.Sprintf("%c-%05d", 'a'+p, 3*n+i)))
						if _, err := inTx.Enqueue(ctx, task, jobs.WithQueue(outbox), jobs.WithPartitionKey(fmt.Sprint(p))); err != nil {
							return err
						}
					}
					if n%10 == 9 {
						return errRolledBack
					}
					return nil
				})
				if err != nil && err != errRolledBack {
					t.Error(err)
					return
				}
			}
		})
	}
	quarters := make(chan struct{}, 3) // each time another quarter of the jobs has arrived
	producing.Go(func() {
		for range quarters { // one drains, and another starts
			stops[0]()
			stops = append(stops[1:], starting())
		}
	})
	// Meanwhile the jobs are handled, one after the other.
	const want = producers * each * 3 * 9 / 10
	var arrived []string
	worker := handworker.New(t, to, "worker", mail)
	for late := time.Now().Add(soon); len(arrived) < want && time.Now().Before(late); {
		for _, j := range worker.Complete(100, 100*time.Millisecond) {
			arrived = append(arrived, string(j.Payload))
			if len(arrived)%(want/4) == 0 && len(arrived) < want {
				quarters <- struct{}{}
			}
		}
	}
	close(quarters)
	producing.Wait()
	for _, j := range worker.Complete(100, time.Second) { // jobs that arrived twice
		arrived = append(arrived, string(j.Payload))
	}
	for _, stop := range stops {
		stop()
	}
	inOrder(t, "from transactions", arrived)
	if len(arrived) != want {
		t.Errorf("%d jobs were handled, want %d", len(arrived), want)
	}
}

var errRolledBack = fmt.Errorf("rolled back")

// The target is killed and comes back.
func TestRelay_RedisIsKilledAndComesBack(t *testing.T) {
	t.Parallel()
	url := testenv.PostgresPlace(t)
	if err := backends.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	server := testenv.PrivateRedis(t)
	from, to := open(t, url), open(t, server.URL)
	w := &world{T: t, from: from, to: to}
	r, err := New(Config{From: from, FromQueue: outbox, To: to, ToQueue: mail, Lease: 2 * time.Second,
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	stop := w.run(r)
	await := func(what string, is func(Stats) bool) {
		t.Helper()
		testenv.Eventually(t, what, func() bool { return is(r.Stats()) }, func() string { return fmt.Sprintf("the relay says %+v", r.Stats()) })
	}
	w.put(threeKeys, 50)
	await("at first", func(s Stats) bool { return s.Relayed == 50 })
	server.Kill()
	w.put(threeKeys, 50)
	await("while Redis is away", func(s Stats) bool { return s.Err != nil && s.Held > 0 && s.Lag > 0 })
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	await("when Redis is back", func(s Stats) bool { return s.Relayed == 100 && s.Err == nil })
	if err := stop(); err != nil {
		t.Error(err)
	}
	w.serve(0)
	testenv.Eventually(t, "all jobs are handled", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.arrived) >= 100 })
	w.exactlyOnce("Redis was killed")
}
