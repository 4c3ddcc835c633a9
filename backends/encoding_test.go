package backends_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/handworker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// databaseIn makes a database in an encoding, and returns its URL.
func databaseIn(t *testing.T, encoding string) string {
	t.Helper()
	server, name := testenv.Postgres(t), testenv.Name(t)
	c, err := pgx.Connect(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	create := "create database " + name + " template template0 encoding '" + encoding + "' lc_collate 'C' lc_ctype 'C'"
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
	return url
}

// A server that was set up without a locale, as in some minimal images, makes databases in SQL_ASCII. They keep bytes as
// they come, but do not name an encoding that the driver knows.
func TestOpen_APostgresDatabaseWithoutAnEncodingWorksToo(t *testing.T) {
	t.Parallel()
	b, err := backends.Open(t.Context(), databaseIn(t, "SQL_ASCII"))
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

// An encoding without all characters would refuse the names of some jobs, as if the store were unavailable.
func TestOpen_APostgresDatabaseInANarrowEncodingIsRefused(t *testing.T) {
	t.Parallel()
	b, err := backends.Open(t.Context(), databaseIn(t, "LATIN1"))
	if err == nil {
		b.Close()
	}
	if !errors.Is(err, broker.ErrUnsupported) || !strings.Contains(err.Error(), "LATIN1") {
		t.Errorf("the error is %v, want one that names the encoding", err)
	}
}
