package pgbroker

import (
	"context"
	"crypto/rand"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed81422ce9/jobs/conformance"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// createRole makes a role that may do nothing, which is gone after the test.
func createRole(tb conformance.TB, direct *pgxpool.Pool) string {
	tb.Helper()
	role := "r_" + strings.ToLower(rand.Text())
	if _, err := direct.Exec(tb.Context(), "create role "+role); err != nil {
		tb.Fatalf("create a role: %v", err)
	}
	tb.Cleanup(func() {
		if _, err := direct.Exec(context.Background(), "drop role "+role); err != nil {
			tb.Errorf("drop the role: %v", err)
		}
	})
	return role
}

var sqlBlock = regexp.MustCompile("(?s)```sql\n(.*?)```")

// grant gives a role the privileges that docs/backends/postgres.md says it needs.
func grant(tb conformance.TB, direct *pgxpool.Pool, schema, role string) {
	tb.Helper()
	page, err := os.ReadFile("../../docs/backends/postgres.md")
	if err != nil {
		tb.Fatalf("%v", err)
	}
	block := sqlBlock.FindSubmatch(page)
	if block == nil {
		tb.Fatalf("docs/backends/postgres.md has no block of SQL")
	}
	sql := strings.NewReplacer("schema jobs ", "schema "+schema+" ", "jobs.", schema+".", "to app;", "to "+role+";", "from app;", "from "+role+
		";").
		Replace(string(block[1]))
	if _, err := direct.Exec(tb.Context(), sql); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
}

// Only an owner can make and drop partitions. A server with another role prunes without them,
// and logs that once.
func TestPrune_RoleThatOwnsNothing(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	direct := connect(t, url, 2)
	role := createRole(t, direct)
	name := schema(t, direct)
	grant(t, direct, name, role)
	var log strings.Builder
	f := openOn(t, connectIn(t, url, 4, "test", role), Config{Schema: name, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	f.worker("w")
	f.keep(48 * time.Hour)
	for range 2 {
		f.prune()
	}
	f.complete("a")
	if n := f.value("select count(*) from jobs.history where day = 0"); n != 1 {
		t.Errorf("%d records are where they are pruned one by one, want the one", n)
	}
	f.exec("update jobs.history set expires_at = 1")
	if got := f.prune(); got.Completed != 1 {
		t.Errorf("pruned %+v, want the record that expired", got)
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 1 || !strings.Contains(log.String(), "partitions") {
		t.Errorf("%d warnings for three turns, want one about partitions:\n%s", n, &log)
	}
}

// The owner of a schema may migrate it, also without the privilege to create schemas.
func TestMigrate_TheOwnerOfTheSchemaAlone(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	direct := connect(t, url, 1)
	role := createRole(t, direct)
	name := "c_" + strings.ToLower(rand.Text())
	if _, err := direct.Exec(t.Context(), "create schema "+name+" authorization "+role); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := direct.Exec(context.Background(), "drop schema "+name+" cascade"); err != nil {
			t.Errorf("drop the schema: %v", err)
		}
	})
	owner := connectIn(t, url, 1, "test", role)
	for _, when := range []string{"an empty schema", "a complete schema"} {
		if err := Migrate(t.Context(), owner, name); err != nil {
			t.Errorf("Migrate of %s by its owner\ngot  %v\nwant no error", when, err)
		}
	}
}
