package backends_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/handworker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// A server that was set up without a locale, as in some minimal images, makes databases in SQL_ASCII. They keep bytes as
// they come, but do not name an encoding that the driver knows.
func TestOpen_APostgresDatabaseWithoutAnEncodingWorksToo(t *testing.T) {
	t.Parallel()
	server, name := testenv.Postgres(t), testenv.Name(t)
	c, err := pgx.Connect(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	create := "create database " + name + " template template0 encoding 'SQL_ASCII' lc_collate 'C' lc_ctype 'C'"
	if _, err := c.Exec(t.Context(), create); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c, err := pgx.Connect(context.Background(), server)
		if err == nil {
			_, err = c.Exec(context.Background(), "drop database "+name+" with (force)")
			c.Close(context.Background())
		}
		if err != nil {
			t.Error(err)
		}
	})
	url := testenv.WithParam(t, server, "dbname", name)
	if err := backends.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	b, err := backends.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	w := handworker.New(t, b, "w", "grün")
	if _, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{{Queue: "grün", ID: "字", Body: broker.Body{Type: "t",
		Key: "ключ", Payload: []byte("\x00\xff"), Priority: broker.PriorityNormal}}}}); err != nil {
		t.Fatal(err)
	}
	if got := w.Complete(1, time.Second); len(got) != 1 || got[0].ID != "字" || string(got[0].Payload) != "\x00\xff" {
		t.Errorf("completed %+v", got)
	}
}
