package pgbroker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/storedtest"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// The rows of each release are put into the schema of that release, which Migrate then brings to the form of this one.
func TestStored_RowsOfEachReleaseAreMigratedReadAndWorkedOn(t *testing.T) {
	t.Parallel()
	db := connect(t, testenv.Postgres(t), 8)
	storedtest.Run(t, storedtest.Store{
		New: func(t *testing.T) broker.Broker { return openOn(t, db, Config{Schema: schema(t, db)}) },
		Dump: func(t *testing.T, b broker.Broker) string {
			text, err := dumpRows(t.Context(), db, b.(*inside).schema)
			if err != nil {
				t.Fatal(err)
			}
			return text
		},
		Load: func(t *testing.T, dump string) broker.Broker {
			name := testenv.Name(t)
			t.Cleanup(func() { db.Exec(context.Background(), "drop schema if exists "+name+" cascade") })
			if err := loadRows(t.Context(), db, name, dump); err != nil {
				t.Fatal(err)
			}
			if err := Migrate(t.Context(), db, name); err != nil {
				t.Fatal(err)
			}
			return openOn(t, db, Config{Schema: name})
		},
	})
}

// dumpRows writes which migrations a schema has, and each table and sequence with its content.
func dumpRows(ctx context.Context, db *pgxpool.Pool, schema string) (string, error) {
	var b bytes.Buffer
	for _, m := range checkedMigrations() {
		fmt.Fprintf(&b, "migration %s %.4x\n", m.name, sha256.Sum256([]byte(m.sql)))
	}
	conn, err := db.Acquire(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Release()
	rows, err := conn.Query(ctx, `select c.relname || ' (' || string_agg(quote_ident(a.attname), ', ' order by a.attnum) || ')'
		from pg_class c join pg_attribute a on a.attrelid = c.oid
		where c.relnamespace = $1::regnamespace and c.relkind in ('r', 'p') and not c.relispartition and c.relname <> 'migration'
		  and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
		group by c.relname order by c.relname`, schema)
	if err != nil {
		return "", err
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return "", err
	}
	for _, table := range tables {
		name, columns, _ := strings.Cut(table, " ")
		fmt.Fprintf(&b, "table %s\n", table)
		switch name {
		case "event": // the server's own time
			columns = strings.Replace(columns, "at,", "0,", 1)
		case "unique_key": // generated at random
			columns = strings.Replace(columns, "token,", "0,", 1)
		}
		var content bytes.Buffer
		if _, err := conn.Conn().PgConn().CopyTo(ctx, &content, fmt.Sprintf("copy (select %s from %s.%s) to stdout",
			strings.Trim(columns, "()"), schema, name)); err != nil {
			return "", err
		}
		lines := slices.Sorted(strings.Lines(content.String()))
		for _, line := range lines {
			b.WriteString("\t" + line)
		}
	}
	rows, err = conn.Query(ctx, `select 'sequence ' || sequencename || ' ' || coalesce(last_value, 0) from pg_sequences
		where schemaname = $1 order by 1`, schema)
	if err != nil {
		return "", err
	}
	sequences, err := pgx.CollectRows(rows, pgx.RowTo[string])
	for _, s := range sequences {
		b.WriteString(s + "\n")
	}
	return b.String(), err
}

// loadRows makes the schema of a dump, by the migrations that it names, and its rows.
func loadRows(ctx context.Context, db *pgxpool.Pool, schema, dump string) error {
	conn, err := db.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	m, migrated := migrating{pool: db, schema: schema}, false
	var table string
	var content bytes.Buffer
	flush := func() error {
		defer content.Reset()
		if table == "" {
			return nil
		}
		_, err := conn.Conn().PgConn().CopyFrom(ctx, &content, fmt.Sprintf("copy %s.%s from stdin", schema, table))
		table = ""
		return err
	}
	for text := range strings.Lines(dump) {
		if row, ok := strings.CutPrefix(text, "\t"); ok {
			content.WriteString(row)
			continue
		}
		if err := flush(); err != nil {
			return err
		}
		what, rest, _ := strings.Cut(strings.TrimSuffix(text, "\n"), " ")
		switch what {
		case "migration":
			m.all = loadMigrations(schema)[:len(m.all)+1]
			next := checkedMigrations()[len(m.all)-1]
			if have := fmt.Sprintf("%s %.4x", next.name, sha256.Sum256([]byte(next.sql))); have != rest {
				return fmt.Errorf("the release had the migration %s, which is %s now: schemas that have it stay as they are, so write a new one",
					rest, have)
			}
		case "table":
			if !migrated {
				if err := m.run(ctx); err != nil {
					return err
				}
			}
			table, migrated = rest, true
		case "sequence":
			name, last, _ := strings.Cut(rest, " ")
			if last == "0" {
				continue // it was never asked
			}
			if _, err := conn.Exec(ctx, fmt.Sprintf("select setval('%s.%s', %s)", schema, name, last)); err != nil {
				return err
			}
		}
	}
	return flush()
}
