package pgbroker

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed81422ce9/jobs/internal/testenv"
)

// A server or a database may refuse all writes, as before a planned failover. An examination only reads, and would find nothing.
func TestExamine_ADatabaseThatNobodyCanWriteToIsFound(t *testing.T) {
	t.Parallel()
	direct := connect(t, testenv.Postgres(t), 1)
	name := testenv.Name(t)
	for _, sql := range []string{"create database " + name, "alter database " + name + " set default_transaction_read_only = on"} {
		if _, err := direct.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	config := direct.Config().ConnConfig
	for _, c := range []struct{ database, want string }{
		{config.Database, ""}, {name, "default_transaction_read_only is on, by database"},
	} {
		config.Database = c.database
		db, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		var clock int64
		var unsafe, held []string
		var vacuums bool
		var readOnly *string
		err = db.QueryRow(t.Context(), loadQueries(DefaultSchema).get("examine_server"), 0).Scan(&clock, &unsafe, &vacuums, &readOnly, &held)
		if err != nil {
			t.Fatal(err)
		}
		if readOnly == nil {
			readOnly = new(string)
		}
		if *readOnly != c.want {
			t.Errorf("why nobody can write to the database %s: %q, want %q", c.database, *readOnly, c.want)
		}
		if err := db.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if _, err := direct.Exec(context.Background(), "drop database "+name); err != nil {
		t.Error(err)
	}
}
