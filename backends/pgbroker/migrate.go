package pgbroker

import (
	"context"
	"embed"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed81422ce9/jobs/broker"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migration is one step of a schema, forward only.
type migration struct {
	number int
	name   string
	sql    string
}

func loadMigrations(schema string) []migration {
	files, err := migrationFiles.ReadDir("migrations") // in the order of their numbers
	if err != nil {
		panic(err)
	}
	all := make([]migration, len(files))
	for i, f := range files {
		text, err := migrationFiles.ReadFile("migrations/" + f.Name())
		if err != nil {
			panic(err)
		}
		number, _, _ := strings.Cut(f.Name(), "_")
		n, err := strconv.Atoi(number)
		if err != nil || n != i+1 {
			panic("pgbroker: migration " + f.Name() + " is out of order")
		}
		all[i] = migration{number: n, name: strings.TrimSuffix(f.Name(), ".sql"), sql: inSchema(string(text), schema)}
	}
	return all
}

// Migrate makes a schema, or brings it to the form that this release needs, in
// one transaction: it applies all that is missing or nothing. An empty schema
// means DefaultSchema. Its user must be allowed to create the schema, or own
// it. Several calls at once are safe, also through a PgBouncer: a lock that
// belongs to the transaction lets one go first. A schema of a newer release is
// refused with ErrNewerForm.
func Migrate(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	if schema == "" {
		schema = DefaultSchema
	}
	if err := checkSchema(schema); err != nil {
		return broker.About(err, "migrate", "", "")
	}
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return migrate(ctx, tx, schema) })
	return broker.About(classify(err), "migrate", "", "")
}

// Statements without arguments go by the simple protocol, in which one string
// may hold several. No library does this: goose and tern would bring five to
// fifteen modules into every user's build, lock the session, and keep their
// table in a schema that has to exist before it.
func migrate(ctx context.Context, tx pgx.Tx, schema string) error {
	lock := fnv.New64a()
	lock.Write([]byte("jobs migrate " + schema))
	begin := fmt.Sprintf("select pg_advisory_xact_lock(%d);", int64(lock.Sum64())) +
		"create schema if not exists jobs_; " + inSchema(`create table if not exists jobs.migration (
			number int primary key, name text not null, applied_at timestamptz not null default now())`, schema)
	if _, err := tx.Exec(ctx, strings.Replace(begin, "jobs_;", `"`+schema+`";`, 1)); err != nil {
		return err
	}
	present, err := schemaNumber(ctx, tx, schema)
	if err != nil {
		return err
	}
	all := loadMigrations(schema)
	if present > len(all) {
		return newerSchema(schema, present, len(all))
	}
	for _, m := range all[present:] {
		if _, err := tx.Exec(ctx, m.sql); err != nil {
			return fmt.Errorf("migration %s: %w", m.name, err)
		}
		if _, err := tx.Exec(ctx, inSchema(fmt.Sprintf("insert into jobs.migration (number, name) values (%d, '%s')", m.number, m.name), schema)); err != nil {
			return err
		}
	}
	return nil
}

// schemaNumber is the number of the last migration applied.
func schemaNumber(ctx context.Context, tx interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}, schema string) (n int, err error) {
	err = tx.QueryRow(ctx, inSchema("select coalesce(max(number), 0) from jobs.migration", schema), pgx.QueryExecModeSimpleProtocol).Scan(&n)
	return n, err
}

func newerSchema(schema string, present, known int) error {
	return fmt.Errorf("%w: schema %q has migration %d, this program knows %d; update the program", broker.ErrNewerForm, schema, present, known)
}

// checkStore refuses a store that this program would misuse.
func (b *Broker) checkStore(ctx context.Context) error {
	var version int
	var isolation string
	var migrated bool
	err := b.call(ctx, step{
		sql: `select current_setting('server_version_num')::int, current_setting('default_transaction_isolation'),
			to_regclass($1) is not null`,
		args: []any{`"` + b.config.Schema + `".migration`},
		read: one(&version, &isolation, &migrated),
	})
	switch {
	case err != nil:
		return err
	case version < 140000:
		return fmt.Errorf("%w: PostgreSQL %d; use 14 or later", broker.ErrUnsupported, version/10000)
	case isolation != "read committed":
		return fmt.Errorf("%w: default_transaction_isolation is %q; connect with default_transaction_isolation=read%%20committed, "+
			"or ALTER ROLE … SET default_transaction_isolation = 'read committed'", broker.ErrUnsupported, isolation)
	case !migrated:
		return unmigrated(b.config.Schema)
	}
	present, known := 0, len(loadMigrations(b.config.Schema))
	err = b.call(ctx, step{sql: inSchema("select coalesce(max(number), 0) from jobs.migration", b.config.Schema), read: one(&present)})
	switch {
	case err != nil:
		return err
	case present > known:
		return newerSchema(b.config.Schema, present, known)
	case present < known:
		return unmigrated(b.config.Schema)
	}
	return nil
}

func unmigrated(schema string) error {
	return fmt.Errorf("%w: schema %q is not migrated; run \"jobs migrate\", or call pgbroker.Migrate", broker.ErrNotFound, schema)
}
