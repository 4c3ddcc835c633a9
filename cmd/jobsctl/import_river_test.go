package main

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed81422ce9/jobs/internal/testenv"
)

// riverPostgres returns a schema with data that River wrote, as recorded by the program
// in compat/riverdata/record.
func riverPostgres(t *testing.T) (url string, exec func(sql string)) {
	t.Helper()
	url = testenv.PostgresPlace(t)
	tables, err := os.ReadFile("../../compat/riverdata/testdata/river-0.51.sql")
	if err != nil {
		t.Fatal(err)
	}
	_, schema, _ := strings.Cut(url, "schema=")
	schema, _, _ = strings.Cut(schema, "&")
	exec = func(sql string) {
		t.Helper()
		conn, err := pgx.Connect(t.Context(), testenv.Postgres(t))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.WithoutCancel(t.Context()))
		if _, err := conn.Exec(t.Context(), "set search_path = "+schema+";\n"+sql); err != nil {
			t.Fatal(err)
		}
	}
	conn, err := pgx.Connect(t.Context(), testenv.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), "create schema "+schema); err != nil {
		t.Fatal(err)
	}
	exec(string(tables))
	return url, exec
}

func TestImportRiver_TakesEveryJobOnceHoweverOftenItRuns(t *testing.T) {
	t.Parallel()
	from, exec := riverPostgres(t)
	c, _ := inMemory(t)
	c.has(c.run(0, "import", "river", "--from", from, "--dry-run"),
		`(?m)^critical: 2 available, 1 pending in River\.\n  3 of 3 jobs could be imported; nothing was changed\.$`,
		`(?m)^default: 1 scheduled, 2 retryable, 1 discarded in River\.\n  4 of 4 jobs could be imported.*\n`+
			`  Not imported: 1 running, 1 completed, 1 cancelled\.$`)
	c.has(c.run(0, "import", "river", "--from", from),
		`(?m)^critical: .*\n  3 jobs imported; 0 existed already\.\n  Read again, and found here: 3 of 3 jobs;`,
		`(?m)^default: .*\n  4 jobs imported; 0 existed already\.\n  Read again, and found here: 4 of 4 jobs;`)
	c.has(c.run(0, "show", "river-2", "--payload", "--json"), `"state":"retry"`, `"priority":3`, `"max_retries":4`, `"attempt":1`,
		`mail server is away`,
		`"type":"email:deliver"`, `"source":"river"`)
	c.has(c.run(0, "show", "river-3"), `STATE +dead`, `retries_spent`, `mail server is away`)
	c.has(c.run(0, "show", "river-4"), `index out of range`, `record\.\(\*worker\)\.Work|main\.\(\*worker\)\.Work`)
	c.has(c.run(0, "show", "river-6"), `STATE +scheduled`, `2040-01-02T03:04:05\.678`)
	c.has(c.run(0, "show", "river-7"), `PRIORITY +(1|urgent)`, `river-tags: customer,europe`, `river-metadata: \{"trace": "abc"\}`)
	c.has(c.run(0, "show", "river-9"), `STATE +scheduled`, `2190-01-01`)
	c.has(c.run(3, "show", "river-1"), "not found")

	// One job ran and left no record, another is new, one cannot be read.
	c.has(c.run(0, "delete", "river-8", "--yes"), "1 of 1")
	exec(`insert into river_job (id, state, attempt, max_attempts, created_at, scheduled_at, priority, args, errors, kind, metadata, queue)
		values (11, 'available', 0, 25, now(), now(), 1, '{}', null, 'new', '{}', 'critical'),
			(12, 'available', 1, 25, now(), now(), 1, '{}', array['"broken"'::jsonb], 'new', '{}', 'critical')`)
	out, _ := c.both(4, "import", "river", "--from", from, "--queue", "critical", "--json")
	c.has(out, `"done":1,.*"gone":1,.*"queue":"critical",.*"read":5,.*"river-12".*"refused":1,"repeated":3,.*"verified":true`)
}

// Somebody parked a job with SQL, and another has a tag that is null. Neither ends the import of the others.
func TestImportRiver_AnOddJobKeepsNoOtherBack(t *testing.T) {
	t.Parallel()
	from, exec := riverPostgres(t)
	c, _ := inMemory(t)
	exec(`insert into river_job (id, state, attempt, max_attempts, created_at, scheduled_at, priority, args, kind, metadata, queue, tags)
		values (14, 'scheduled', 0, 25, '-infinity', 'infinity', 1, '{}', 'parked', '{}', 'critical', '{}'),
			(13, 'available', 0, 25, now(), now(), 1, '{}', 'tagged', '{}', 'critical', array['a', null])`)
	c.has(c.run(0, "import", "river", "--from", from, "--queue", "critical"), "5 jobs imported")
	c.has(c.run(0, "show", "river-14"), `STATE +scheduled`, `2190-01-01`)
	c.has(c.run(0, "show", "river-13"), `STATE +pending`, `river-tags: a\n`)
}

func TestImportRiver_AsksBeforeJobsCanRunTwice(t *testing.T) {
	t.Parallel()
	from, exec := riverPostgres(t)
	c, _ := inMemory(t)
	exec("update river_leader set expires_at = now() + interval '1 hour'")
	c.has(c.run(0, "import", "river", "--from", from, "--queue", "default"), "4 jobs imported") // the queue is paused
	c.has(c.run(7, "import", "river", "--from", from), `while River works on critical, which is not paused: jobs can run in both`)
	c.has(c.run(3, "ls", "--queue", "critical"), "not found")
	c.has(c.run(0, "import", "river", "--from", from, "--yes"), "3 jobs imported")
}

func TestImportRiver_SaysWhatIsWrongWithItsSource(t *testing.T) {
	t.Parallel()
	c, _ := inMemory(t)
	from, _ := riverPostgres(t)
	c.has(c.run(2, "import", "river"), "give --from")
	c.has(c.run(2, "import", "river", "--from", "redis://h/0"), "scheme")
	c.has(c.run(3, "import", "river", "--from", testenv.WithParam(t, testenv.Postgres(t), "schema", "nothing")), `give the schema in the URL`)
	c.has(c.run(3, "import", "river", "--from", from, "--queue", "defualt"), "not found")
	if out := c.run(5, "import", "river", "--from", "postgres://u:s3cret@127.0.0.1:1/db"); strings.Contains(out, "s3cret") {
		t.Errorf("a password is in %q", out)
	}
}
