package pgbroker

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

func TestMigratingTwiceChangesNothing(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.accept(f, job("a"))
	if err := Migrate(t.Context(), f.db, f.schema); err != nil {
		t.Fatal(err)
	}
	if n := f.value("select count(*) from jobs.migration"); n != int64(len(loadMigrations(f.schema))) {
		t.Errorf("%d migrations are noted, want each once", n)
	}
	if n := f.value("select count(*) from jobs.job"); n != 1 {
		t.Errorf("%d jobs after the second Migrate, want the one before it", n)
	}
}

func TestManyMayMigrateAtOnce(t *testing.T) {
	t.Parallel()
	db := connect(t, testenv.Postgres(t), 8)
	name := testenv.Name(t)
	t.Cleanup(func() { db.Exec(t.Context(), "drop schema "+name+" cascade") })
	failures := make(chan error)
	for range 8 {
		go func() { failures <- Migrate(t.Context(), db, name) }()
	}
	for range 8 {
		if err := <-failures; err != nil {
			t.Error(err)
		}
	}
	b, err := New(t.Context(), db, Config{Schema: name})
	if err != nil {
		t.Fatal(err)
	}
	b.Close()
}

func TestASchemaOfANewerReleaseIsRefused(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.exec("insert into jobs.migration (number, name) values (1000, 'of the future')")
	_, err := New(t.Context(), f.db, f.config)
	if !errors.Is(err, broker.ErrNewerForm) || !strings.Contains(err.Error(), "update the program") {
		t.Errorf("New on a newer schema: %v; want ErrNewerForm and the remedy", err)
	}
	if err := Migrate(t.Context(), f.db, f.schema); !errors.Is(err, broker.ErrNewerForm) {
		t.Errorf("Migrate of a newer schema: %v; want ErrNewerForm", err)
	}
}

func TestASchemaThatIsNotMigratedIsRefusedWithTheRemedy(t *testing.T) {
	t.Parallel()
	db := connect(t, testenv.Postgres(t), 2)
	_, err := New(t.Context(), db, Config{Schema: testenv.Name(t)})
	if !errors.Is(err, broker.ErrNotFound) || !strings.Contains(err.Error(), "pgbroker.Migrate") {
		t.Errorf("New without a schema: %v; want it to name pgbroker.Migrate", err)
	}
	f := open(t)
	f.exec("delete from jobs.migration")
	if _, err := New(t.Context(), f.db, f.config); !errors.Is(err, broker.ErrNotFound) {
		t.Errorf("New on a schema that is behind: %v; want it refused", err)
	}
}

func TestADatabaseThatIsNotReadCommittedIsRefused(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	separator := "?"
	if strings.Contains(url, "?") {
		separator = "&"
	}
	f := open(t)
	db := connect(t, url+separator+"default_transaction_isolation=serializable", 2)
	_, err := New(t.Context(), db, f.config)
	if !errors.Is(err, broker.ErrUnsupported) || !strings.Contains(err.Error(), "default_transaction_isolation") {
		t.Errorf("New on serializable connections: %v; want it refused with the remedy", err)
	}
}
