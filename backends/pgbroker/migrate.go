package pgbroker

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed81422ce9/jobs/broker"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migration is one change of the schema; there is no way back. Its file begins with lines
// that say how to apply it:
//
//	-- compatible-from: 3    programs that know migration 3 still work after this one
//	-- concurrently: job_x   the file is one statement, which builds this index of a table
//	                         that is in use; it runs outside a transaction
type migration struct {
	number int
	name   string
	sql    string // the statements in the file, for DefaultSchema until loadMigrations
	oldest int    // to use the schema, a program must know the migration with this number
	builds string // the index that it builds, if it runs outside a transaction
}

var (
	compatibleFrom = regexp.MustCompile(`(?m)^-- compatible-from: (\d+)$`)
	concurrently   = regexp.MustCompile(`(?m)^-- concurrently: (\w+)$`)
)

// loadMigrations returns the migrations of a schema.
func loadMigrations(schema string) []migration {
	all := slices.Clone(checkedMigrations())
	for i := range all {
		all[i].sql = inSchema(all[i].sql, schema)
	}
	return all
}

// checkedMigrations are the files, in the order of their numbers.
var checkedMigrations = sync.OnceValue(func() []migration {
	files, err := migrationFiles.ReadDir("migrations")
	if err != nil {
		panic(err)
	}
	all := make([]migration, len(files))
	for i, f := range files {
		text, err := migrationFiles.ReadFile("migrations/" + f.Name())
		if err != nil {
			panic(err)
		}
		m, err := parseMigration(f.Name(), string(text))
		if err == nil && m.number != i+1 {
			err = errors.New("it is out of order")
		}
		if err != nil {
			panic("pgbroker: migration " + f.Name() + ": " + err.Error())
		}
		all[i] = m
	}
	return all
})

func parseMigration(file, text string) (migration, error) {
	m := migration{name: strings.TrimSuffix(file, ".sql"), sql: statement(text)}
	if _, err := fmt.Sscanf(file, "%d_", &m.number); err != nil {
		return m, err
	}
	oldest := compatibleFrom.FindStringSubmatch(text)
	if oldest == nil {
		return m, errors.New("it does not say which programs still work after it")
	}
	if m.oldest, _ = strconv.Atoi(oldest[1]); m.oldest > m.number {
		return m, errors.New("it needs programs newer than itself")
	}
	if builds := concurrently.FindStringSubmatch(text); builds != nil {
		m.builds = builds[1]
	}
	return m, nil
}

// Migrate creates a schema, or updates it to this release. An empty schema means DefaultSchema.
// The role of the connection must own the schema, or be allowed to create it. Migrate applies
// the missing migrations in one transaction, all or none. Only indexes of tables that are in use
// are built outside the transaction, without blocking writers. Concurrent calls are safe, also
// through a PgBouncer: they run one after the other.
//
// Migrate may run while servers run. It waits for locks in attempts of 100 ms, so that it delays
// other transactions no longer than that. It tries until ctx ends. Then it fails with
// ErrUnavailable, and may be called again. The role's statement_timeout ends only the build of
// an index outside the transaction.
//
// Migrate does not change a schema of a newer release. It returns nil if this release can
// use the schema, otherwise ErrNewerForm.
func Migrate(ctx context.Context, pool *pgxpool.Pool, schema string) (err error) {
	defer about(&err, "migrate", "")
	if schema == "" {
		schema = DefaultSchema
	}
	if err := checkPlace(pool, schema); err != nil {
		return err
	}
	m := migrating{pool: pool, schema: schema, all: loadMigrations(schema)}
	return classify(m.run(ctx))
}

// migrating is a call of Migrate.
type migrating struct {
	pool   *pgxpool.Pool
	schema string
	all    []migration
}

const (
	// How long an attempt waits for a lock. Other transactions wait behind it for that time.
	migrateLockWait = 100 * time.Millisecond

	// The pause between attempts is random, up to this: the statements that waited behind an
	// attempt must run in between.
	migratePause = time.Second
)

var errMigrating = errors.New("another call migrates the schema")

func (m *migrating) run(ctx context.Context) error {
	for {
		index, err := m.attempt(ctx)
		if err == nil && index != nil {
			err = m.build(ctx, index)
		} else if err == nil {
			return nil
		}
		switch state := sqlState(err); {
		case err == nil:
			continue // with the migrations after the index
		case !errors.Is(err, errMigrating) && state != lockTimeout && state != deadlockDetected:
			return err
		}
		select {
		case <-ctx.Done():
			return notSent(fmt.Errorf("%w; last: %w", ctx.Err(), err))
		case <-time.After(rand.N(migratePause)):
		}
	}
}

// attempt applies the missing migrations. It stops at an index that must be built outside
// the transaction, and returns that migration.
func (m *migrating) attempt(ctx context.Context) (index *migration, err error) {
	err = m.lock(ctx, m.pool, func(tx pgx.Tx) (err error) {
		defer func() {
			if err != nil && ctx.Err() != nil {
				err = notSent(err) // the transaction was not committed
			}
		}()
		if err := m.begin(ctx, tx); err != nil {
			return err
		}
		missing, err := m.missing(ctx, tx)
		for i := 0; i < len(missing) && err == nil; i++ {
			if missing[i].builds != "" {
				index = &missing[i]
				return nil
			}
			if _, err = tx.Exec(ctx, missing[i].sql); err != nil {
				return fmt.Errorf("migration %s: %w", missing[i].name, err)
			}
			err = m.note(ctx, tx, &missing[i])
		}
		return err
	})
	return index, err
}

// begin creates the schema and the table of migrations, if they are missing. An existing schema is not named in a create
// statement: that would need the privilege to create schemas.
func (m *migrating) begin(ctx context.Context, tx pgx.Tx) error {
	absent := false
	if err := ask(ctx, tx, fmt.Sprintf(`select to_regnamespace('"%s"') is null`, m.schema), &absent); err != nil {
		return err
	}
	create := inSchema(`create table if not exists jobs.migration (
		number int primary key, name text not null, oldest int not null, applied_at timestamptz not null default now())`, m.schema)
	if absent {
		create = fmt.Sprintf("create schema if not exists %q; ", m.schema) + create
	}
	_, err := tx.Exec(ctx, create)
	return err
}

// ask reads one row by the simple protocol, which leaves no snapshot behind. pgx would refuse it for connections whose
// encoding is not UTF8, as it is not in a database in SQL_ASCII.
func ask(ctx context.Context, tx pgx.Tx, sql string, dest ...any) error {
	results := tx.Conn().PgConn().Exec(ctx, sql)
	if results.NextResult() {
		if err := drain(pgx.RowsFromResultReader(tx.Conn().TypeMap(), results.ResultReader()), one(dest...)); err != nil {
			results.Close()
			return err
		}
	}
	return results.Close()
}

// build builds an index without blocking writers. Meanwhile the transaction that keeps other
// calls out must have no ID and no snapshot, since the build would wait for it.
func (m *migrating) build(ctx context.Context, index *migration) error {
	config := m.pool.Config() // use other connections: the caller's pool may have only one
	config.MaxConns, config.MinConns, config.MinIdleConns = 2, 0, 0
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	return m.lock(ctx, pool, func(tx pgx.Tx) error {
		if missing, err := m.missing(ctx, tx); err != nil || len(missing) == 0 || missing[0].number != index.number {
			return err // another call built it
		}
		valid, name := false, `"`+m.schema+`"."`+index.builds+`"`
		err := ask(ctx, tx, fmt.Sprintf("select coalesce((select indisvalid from pg_index where indexrelid = to_regclass('%s')), false)", name),
			&valid)
		if err == nil && !valid {
			// An interrupted build leaves an invalid index.
			if _, err = pool.Exec(ctx, "drop index concurrently if exists "+name, pgx.QueryExecModeSimpleProtocol); err == nil {
				_, err = pool.Exec(ctx, index.sql, pgx.QueryExecModeSimpleProtocol)
			}
		}
		if err != nil {
			return fmt.Errorf("migration %s: %w", index.name, err)
		}
		return m.note(ctx, tx, index)
	})
}

// lock runs f in a transaction that keeps other calls out. The other calls must not wait within
// a statement, since the build of an index would wait for their transactions.
func (m *migrating) lock(ctx context.Context, pool *pgxpool.Pool, f func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		mine := false
		err := ask(ctx, tx, fmt.Sprintf("select set_config('lock_timeout', '%d', true), set_config('statement_timeout', '0', true), "+
			"set_config('idle_in_transaction_session_timeout', '0', true), pg_try_advisory_xact_lock(%d)",
			migrateLockWait.Milliseconds(), lockNumber("migrate", m.schema)), nil, nil, nil, &mine)
		if err == nil && !mine {
			err = errMigrating
		}
		if err != nil {
			return err
		}
		return f(tx)
	})
}

// missing returns the migrations that the schema lacks.
func (m *migrating) missing(ctx context.Context, tx pgx.Tx) ([]migration, error) {
	present, oldest := 0, 0
	err := ask(ctx, tx, presentSQL(m.schema, len(m.all)), &present, &oldest)
	if err == nil && oldest > len(m.all) {
		err = newerSchema(m.schema, present, oldest, len(m.all))
	}
	return m.all[min(present, len(m.all)):], err
}

func (m *migrating) note(ctx context.Context, tx pgx.Tx, done *migration) error {
	_, err := tx.Exec(ctx, inSchema(fmt.Sprintf("insert into jobs.migration (number, name, oldest) values (%d, '%s', %d)",
		done.number, done.name, done.oldest), m.schema))
	return err
}

// presentSQL returns a query for the number of the last applied migration, and for the number
// that a program must know if the schema has migrations that the program does not know.
func presentSQL(schema string, known int) string {
	return inSchema(fmt.Sprintf("select coalesce(max(number), 0), "+
		"coalesce(max(oldest) filter (where number > %d), 0) from jobs.migration", known), schema)
}

func newerSchema(schema string, present, oldest, known int) error {
	return fmt.Errorf("%w: schema %q has migration %d, which needs a program that knows %d; this one knows %d; update the program",
		broker.ErrNewerForm, schema, present, oldest, known)
}

// checkStore refuses a store that this program cannot use correctly.
func (b *Broker) checkStore(ctx context.Context) error {
	var version int
	var isolation, encoding, sent string
	var migrated bool
	err := b.run(ctx, step{
		sql: `select current_setting('server_version_num')::int, current_setting('default_transaction_isolation'),
			current_setting('server_encoding'), current_setting('client_encoding'), to_regclass($1) is not null`,
		args: []any{`"` + b.config.Schema + `".migration`},
		read: one(&version, &isolation, &encoding, &sent, &migrated),
	})
	switch {
	case err != nil:
		return err
	case version < 140000:
		return fmt.Errorf("%w: PostgreSQL %d; use 14 or later", broker.ErrUnsupported, version/10000)
	case isolation != "read committed":
		return fmt.Errorf("%w: default_transaction_isolation is %q; connect with default_transaction_isolation=read%%20committed, "+
			"or ALTER ROLE … SET default_transaction_isolation = 'read committed'", broker.ErrUnsupported, isolation)
	case encoding != "UTF8" && encoding != "SQL_ASCII": // a name that it lacks would fail, with all jobs of the call, again and again
		return fmt.Errorf("%w: the database's encoding is %s, which does not have all characters of names; use a database in UTF8",
			broker.ErrUnsupported, encoding)
	case encoding == "UTF8" && sent != "UTF8" && sent != "SQL_ASCII": // names would be stored as others than programs without the setting see
		return fmt.Errorf("%w: client_encoding is %s, but programs send UTF8; connect with client_encoding=UTF8, "+
			"or ALTER ROLE … SET client_encoding = 'UTF8'", broker.ErrUnsupported, sent)
	case !migrated:
		return unmigrated(b.config.Schema)
	}
	present, oldest, known := 0, 0, len(checkedMigrations())
	err = b.run(ctx, step{sql: presentSQL(b.config.Schema, known), read: one(&present, &oldest)})
	switch {
	case err != nil:
		return err
	case oldest > known:
		return newerSchema(b.config.Schema, present, oldest, known)
	case present < known:
		return unmigrated(b.config.Schema)
	}
	return nil
}

// ErrNotMigrated is the error of New when Migrate has not prepared the schema for
// this version of the module. It is also broker.ErrNotFound.
var ErrNotMigrated error = notMigrated{}

type notMigrated struct{}

func (notMigrated) Error() string { return "not migrated" }
func (notMigrated) Unwrap() error { return broker.ErrNotFound }

func unmigrated(schema string) error {
	return fmt.Errorf("%w: schema %q; run \"jobsctl migrate\", or call pgbroker.Migrate", ErrNotMigrated, schema)
}
