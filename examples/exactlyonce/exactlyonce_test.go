package exactlyonce

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/pgbroker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestExactlyonce_MoneyIsMovedOnceAlthoughTheHandlerFailsAfterItsCommit(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	db, schema := testenv.PostgresPool(t)
	if err := pgbroker.Migrate(ctx, db, schema); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(ctx, `create table accounts (id text primary key, cents bigint);
		insert into accounts values ('ada', 1000), ('bob', 0)`); err != nil {
		t.Fatal(err)
	}
	b, err := pgbroker.New(ctx, db, pgbroker.Config{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()

	bank := &Bank{DB: db, Broker: b}
	mux := jobs.NewServeMux()
	runs := 0
	jobs.Handle(mux, MoveMoney, func(ctx context.Context, args Transfer, job *jobs.Job) error {
		if runs++; runs == 1 {
			args.To = "\x00" // Postgres refuses this text: the second statement fails
		}
		if err := bank.Transfer(ctx, args, job); err != nil {
			return err
		}
		return errors.New("the answer to the commit was lost")
	})
	server, err := jobs.NewServer(b, jobs.Config{RetryPolicy: jobs.Constant(10 * time.Millisecond)})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(ctx, mux); err != nil {
		t.Fatal(err)
	}
	client := jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()
	info, err := MoveMoney.Enqueue(ctx, client, Transfer{From: "ada", To: "bob", Cents: 300}, jobs.WithRetention(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	record, err := client.Wait(ctx, info.Queue, info.ID)
	if err != nil || record.Failures != 1 {
		t.Errorf("the transfer ended with error %v after %d failures, want success after the one of the first run", err, record.Failures)
	}
	if err := server.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	var ada, bob int64
	if err := db.QueryRow(ctx, `select (select cents from accounts where id = 'ada'),
		(select cents from accounts where id = 'bob')`).Scan(&ada, &bob); err != nil {
		t.Fatal(err)
	}
	if ada != 700 || bob != 300 || runs != 2 {
		t.Errorf("the accounts hold %d and %d after %d runs, want 700 and 300 after 2", ada, bob, runs)
	}
}
