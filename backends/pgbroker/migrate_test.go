package pgbroker

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

func TestMigrate_MigratingTwiceChangesNothing(t *testing.T) {
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

func TestMigrate_ManyMayMigrateAtOnce(t *testing.T) {
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

// newer is Migrate of a release that has made-up migrations after this one's.
func (f *inside) newer(ctx context.Context, pool *pgxpool.Pool, texts ...string) error {
	f.t.Helper()
	m := migrating{pool: pool, schema: f.schema, all: loadMigrations(f.schema)}
	for _, text := range texts {
		next, err := parseMigration(fmt.Sprintf("%04d_made_up.sql", len(m.all)+1), text)
		f.check(err)
		next.sql = inSchema(next.sql, f.schema)
		m.all = append(m.all, next)
	}
	return m.run(ctx)
}

// The release before goes on after a compatible migration, and can start again: programs can
// be rolled back. After an incompatible one it is refused.
func TestMigrate_ProgramOfTheReleaseBefore(t *testing.T) {
	t.Parallel()
	f := open(t)
	known := len(loadMigrations(f.schema))
	const column = "-- compatible-from: 1\nalter table jobs.job add column note text;"
	f.check(f.newer(t.Context(), f.db, column))
	b, err := New(t.Context(), f.db, f.config)
	f.check(err)
	t.Cleanup(func() { b.Close() })
	f.accept(b, job("a"))
	f.check(Migrate(t.Context(), f.db, f.schema))
	if n := f.value("select max(number) from jobs.migration"); n != int64(known+1) {
		t.Errorf("the schema has migration %d after this program's Migrate, want it left at %d", n, known+1)
	}

	f.check(f.newer(t.Context(), f.db, column,
		fmt.Sprintf("-- compatible-from: %d\nalter table jobs.job drop column note;", known+2),
		"-- compatible-from: 1\nalter table jobs.job add column other text;"))
	if _, err := New(t.Context(), f.db, f.config); !errors.Is(err, broker.ErrNewerForm) ||
		!strings.Contains(err.Error(), "update the program") {
		t.Errorf("New behind a migration that needs a newer program: %v; want ErrNewerForm and the remedy", err)
	}
	if err := Migrate(t.Context(), f.db, f.schema); !errors.Is(err, broker.ErrNewerForm) {
		t.Errorf("Migrate behind a migration that needs a newer program: %v; want ErrNewerForm", err)
	}
}

// A migration that needs a lock waits for it in short attempts, so that no statement waits
// behind it while something reads the table.
func TestMigrate_KeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.accept(f, job("first of the queue"))
	const column = "-- compatible-from: 1\nalter table jobs.job add column note text;"
	dump := f.dump()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	migrated := make(chan error, 1)
	go func() { migrated <- f.newer(ctx, f.db, column) }()
	waiting := "select count(*) from pg_locks where not granted and relation = 'jobs.job'::regclass and mode = 'AccessExclusiveLock'"
	for range 2 { // attempts
		testenv.Eventually(t, "an attempt of the migration", func() bool { return f.value(waiting) > 0 })
		within, done := context.WithTimeout(t.Context(), 20*time.Second)
		defer done()
		if _, err := f.Enqueue(within, broker.EnqueueRequest{Jobs: []broker.NewJob{job("beside")}}); err != nil {
			t.Fatalf("an enqueue waited behind the migration, which waits for a dump: %v", err)
		}
		testenv.Eventually(t, "the end of the attempt", func() bool { return f.value(waiting) == 0 })
	}
	cancel()
	if err := <-migrated; !errors.Is(err, broker.ErrUnavailable) {
		t.Errorf("Migrate whose context ended between attempts: %v, want ErrUnavailable", err)
	}
	go func() { migrated <- f.newer(t.Context(), f.db, column) }()
	f.check(dump.Commit(t.Context()))
	f.check(<-migrated)
	f.value("select count(note) from jobs.job")
}

// A migration of a large table may take longer than the role's statements may.
func TestMigrate_IsNotEndedByTheRolesStatementTimeout(t *testing.T) {
	t.Parallel()
	f := open(t)
	config := f.db.Config()
	config.ConnConfig.RuntimeParams["statement_timeout"] = "1h"
	hasty, err := pgxpool.NewWithConfig(t.Context(), config)
	f.check(err)
	t.Cleanup(hasty.Close)
	f.check(f.newer(t.Context(), hasty, "-- compatible-from: 1\ndo $$ begin if current_setting('statement_timeout') <> '0' then "+
		"raise 'the migration must end within %', current_setting('statement_timeout'); end if; end $$;"))
}

const madeUpIndex = "-- compatible-from: 1\n-- concurrently: job_made_up\ncreate index concurrently job_made_up on jobs.job (created_at);\n"

// valid reports whether an index exists and is valid.
func (f *inside) valid(index string) bool {
	return f.value("select count(*) from pg_index where indexrelid = to_regclass($1) and indisvalid", f.schema+"."+index) == 1
}

// The index of a table in use is built without blocking writers, also if the pool has one
// connection; the next migrations follow.
func TestMigrate_BuildsIndexesBesideWriters(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.accept(f, job("first of the queue"))
	writing := f.begin(pgx.TxOptions{})
	f.accept(f.Tx(writing), job("open"))
	migrated := make(chan error, 1)
	go func() {
		migrated <- f.newer(t.Context(), connect(t, testenv.Postgres(t), 1), madeUpIndex,
			"-- compatible-from: 1\nalter table jobs.job add column note text;")
	}()
	testenv.Eventually(t, "the build of the index", func() bool {
		return f.value("select count(*) from pg_class where oid = to_regclass($1)", f.schema+".job_made_up") == 1
	})
	f.accept(f, job("beside")) // the build waits for the open transaction, and this for nothing
	f.check(writing.Commit(t.Context()))
	f.check(<-migrated)
	if !f.valid("job_made_up") {
		t.Error("the index is not there, or not valid")
	}
	f.value("select count(note) from jobs.job")
}

// A build that was interrupted leaves an index that nothing uses: the next Migrate builds it
// again.
func TestMigrate_BuildThatWasInterrupted(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.exec("create index job_made_up on jobs.job (created_at)")
	f.exec("update pg_index set indisvalid = false where indexrelid = 'jobs.job_made_up'::regclass")
	f.check(f.newer(t.Context(), f.db, madeUpIndex))
	if !f.valid("job_made_up") {
		t.Error("the index that an interrupted build left is still what it was")
	}
}

func TestMigrate_ManyBuildOneIndex(t *testing.T) {
	t.Parallel()
	f := open(t)
	failures := make(chan error)
	for range 6 {
		go func() { failures <- f.newer(t.Context(), f.db, madeUpIndex) }()
	}
	for range 6 {
		f.check(<-failures)
	}
	if n := f.value("select count(*) from jobs.migration where name like '%made_up'"); n != 1 || !f.valid("job_made_up") {
		t.Errorf("the migration is noted %d times, want once, and a valid index", n)
	}
}

// The words at the beginning of a migration file are checked when the files are read.
func TestMigrate_FilesThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"no word of which programs go on":    "alter table jobs.job add column note text;",
		"a program newer than the migration": "-- compatible-from: 3\nselect 1;",
	} {
		if _, err := parseMigration("0002_made_up.sql", text); err == nil {
			t.Errorf("a migration with %s was accepted", name)
		}
	}
}

var plainIndex = regexp.MustCompile(`(?m)^create (?:unique )?index (\w+) +on jobs\.(\w+)`)

// blocking returns the index that a migration builds in a transaction although its table is in use, or "".
func blocking(text string) string {
	for _, index := range plainIndex.FindAllStringSubmatch(text, -1) {
		if !strings.Contains(text, "create table jobs."+index[2]+" ") {
			return index[1]
		}
	}
	return ""
}

func TestMigrate_NoMigrationBlocksTheWritersOfATable(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"create index job_x on jobs.job (created_at);":                                        "job_x",
		"create unique index job_x on jobs.job (created_at);":                                 "job_x",
		"create table jobs.x (a int);\ncreate index job_x on jobs.job (created_at);":          "job_x",
		"create table jobs.x (a int);\ncreate index x_a on jobs.x (a);":                       "",
		"-- concurrently: job_x\ncreate index concurrently job_x on jobs.job (created_at);\n": "",
	} {
		if got := blocking(text); got != want {
			t.Errorf("%q builds %q in a transaction, want %q", text, got, want)
		}
	}
	for _, m := range checkedMigrations() {
		if index := blocking(m.sql); index != "" {
			t.Errorf("migration %s builds %s in a transaction, which blocks the writers of its table; give the index a migration of its own, "+
				"with a line \"-- concurrently: %[2]s\"", m.name, index)
		}
	}
}

// A variable that nobody set, or whose error was ignored.
func TestMigrate_ANilPoolIsRefusedInWords(t *testing.T) {
	t.Parallel()
	_, err := New(t.Context(), nil, Config{})
	for what, err := range map[string]error{"New": err, "Migrate": Migrate(t.Context(), nil, "")} {
		if !errors.Is(err, broker.ErrInvalid) || !strings.Contains(err.Error(), "pool: invalid: is nil") {
			t.Errorf("%s says %v, want ErrInvalid", what, err)
		}
	}
}

func TestMigrate_ASchemaThatIsNotMigratedIsRefusedWithTheRemedy(t *testing.T) {
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

func TestNew_ConnectionsThatItCannotUseAreRefused(t *testing.T) {
	t.Parallel()
	f := open(t)
	for setting, value := range map[string]string{"default_transaction_isolation": "serializable", "client_encoding": "LATIN1"} {
		db := connect(t, testenv.WithParam(t, testenv.Postgres(t), setting, value), 2)
		_, err := New(t.Context(), db, f.config)
		if !errors.Is(err, broker.ErrUnsupported) || !strings.Contains(err.Error(), setting) || !strings.Contains(err.Error(), "ALTER ROLE") {
			t.Errorf("New on connections with %s %s: %v; want it refused with the remedy", setting, value, err)
		}
	}
}

// In a database in SQL_ASCII, that is also the encoding of connections, for which pgx does not quote. Names in UTF-8 are
// stored byte by byte.
func TestMigrate_ADatabaseInSQLASCII(t *testing.T) {
	t.Parallel()
	direct := connect(t, testenv.Postgres(t), 1)
	name := testenv.Name(t)
	create := "create database " + name + " template template0 encoding 'SQL_ASCII' lc_collate 'C' lc_ctype 'C'"
	if _, err := direct.Exec(t.Context(), create); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := direct.Exec(context.Background(), "drop database "+name); err != nil {
			t.Error(err)
		}
	})
	config := direct.Config()
	config.ConnConfig.Database = name
	config.ConnConfig.RuntimeParams["standard_conforming_strings"] = "off"
	db, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	if err := Migrate(t.Context(), db, ""); err != nil {
		t.Fatal(err)
	}
	f := openOn(t, db, Config{})
	job := broker.NewJob{Queue: "q", ID: `größe\'`, Body: broker.Body{Type: "t", Priority: broker.PriorityNormal}}
	if _, err := f.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{job}}); err != nil {
		t.Fatal(err)
	}
	found, err := f.Find(t.Context(), broker.Query{Queue: "q", IDs: []string{job.ID}})
	if err != nil || len(found.Jobs) != 1 || found.Jobs[0].ID != job.ID {
		t.Errorf("the job %s\ngot  %v, %v\nwant found", job.ID, found.Jobs, err)
	}
}
