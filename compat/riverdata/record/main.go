// Command record lets River fill an empty schema. Then it writes the schema to the standard output, as
// SQL: the tables, with the columns and the jobs that River gave them. The tests of the module jobs,
// which does not compile River, read this output:
//
//	go run -trimpath . postgres://… >../testdata/river-0.51.sql
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

const schema = "river_recorded"

// WorkArgs are the arguments of the recorded jobs: they say how a job ends.
type WorkArgs struct {
	Ends string `json:"ends"`
	User int    `json:"user"`
}

// Kind is the job's kind.
func (WorkArgs) Kind() string { return "email:deliver" }

type worker struct{ river.WorkerDefaults[WorkArgs] }

func (*worker) NextRetry(*river.Job[WorkArgs]) time.Time { return time.Now().Add(time.Hour) }

func (*worker) Work(ctx context.Context, job *river.Job[WorkArgs]) error {
	switch job.Args.Ends {
	case "cancelled":
		return river.JobCancel(errors.New("no use"))
	case "panic":
		panic("index out of range")
	case "error":
		return errors.New("mail server is away")
	case "running":
		<-ctx.Done()
	}
	return nil
}

func main() {
	if err := run(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, url string) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, "create schema "+schema); err != nil {
		return err
	}
	defer pool.Exec(ctx, "drop schema "+schema+" cascade")
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Schema: schema})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	if err := fill(ctx, pool, driver); err != nil {
		return err
	}
	return write(ctx, pool)
}

// fill leaves a job in each state that River has.
func fill(ctx context.Context, pool *pgxpool.Pool, driver *riverpgxv5.Driver) error {
	workers := river.NewWorkers()
	river.AddWorker(workers, &worker{})
	client, err := river.NewClient(driver, &river.Config{Schema: schema, Workers: workers, ID: "host_1",
		Queues: map[string]river.QueueConfig{"default": {MaxWorkers: 10}}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	later := time.Date(2040, 1, 2, 3, 4, 5, 678901000, time.UTC)
	for _, job := range []struct {
		args WorkArgs
		opts river.InsertOpts
	}{
		{WorkArgs{"completed", 1}, river.InsertOpts{}},
		{WorkArgs{"error", 2}, river.InsertOpts{MaxAttempts: 5, Priority: 3}},
		{WorkArgs{"error", 3}, river.InsertOpts{MaxAttempts: 1}},
		{WorkArgs{"panic", 4}, river.InsertOpts{MaxAttempts: 2}},
		{WorkArgs{"cancelled", 5}, river.InsertOpts{}},
		{WorkArgs{"", 6}, river.InsertOpts{ScheduledAt: later}},
		{WorkArgs{"", 7}, river.InsertOpts{Queue: "critical", Priority: 1, Tags: []string{"customer", "europe"},
			Metadata: []byte(`{"trace":"abc"}`)}},
		{WorkArgs{"", 8}, river.InsertOpts{Queue: "critical", UniqueOpts: river.UniqueOpts{ByArgs: true}}},
		{WorkArgs{"", 9}, river.InsertOpts{Queue: "critical", Pending: true}},
		{WorkArgs{"running", 10}, river.InsertOpts{}},
	} {
		if _, err := client.Insert(ctx, job.args, &job.opts); err != nil {
			return err
		}
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	for n := 0; n != 5; time.Sleep(50 * time.Millisecond) { // all jobs of the queue default, except scheduled and running ones
		const tried = "select count(*) from " + schema + ".river_job where state in ('completed', 'retryable', 'discarded', 'cancelled')"
		if err := pool.QueryRow(ctx, tried).Scan(&n); err != nil {
			return err
		}
	}
	if err := client.QueuePause(ctx, "default", nil); err != nil {
		return err
	}
	recorded := snapshot(ctx, pool)
	if err := client.StopAndCancel(ctx); err != nil {
		return err
	}
	return recorded
}

// snapshot copies the tables as they are while a client runs.
func snapshot(ctx context.Context, pool *pgxpool.Pool) error {
	for _, table := range tables {
		from := schema + "." + table
		if _, err := pool.Exec(ctx, "create table "+from+"_recorded as table "+from); err != nil {
			return err
		}
	}
	return nil
}

var tables = []string{"river_job", "river_queue", "river_leader"}

// write writes the tables as SQL for the schema that is first in the search path.
func write(ctx context.Context, pool *pgxpool.Pool) error {
	var states []string
	if err := pool.QueryRow(ctx, "select enum_range(null::"+schema+".river_job_state)::text[]").Scan(&states); err != nil {
		return err
	}
	fmt.Printf("create type river_job_state as enum ('%s');\n", strings.Join(states, "', '"))
	for _, table := range tables {
		rows, err := pool.Query(ctx, `select attname || ' ' || format_type(atttypid, atttypmod) from pg_attribute
			where attrelid = $1::regclass and attnum > 0 and not attisdropped order by attnum`, schema+"."+table)
		if err != nil {
			return err
		}
		columns, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		text := strings.Join(columns, ", ")
		fmt.Printf("create table %s (%s);\n", table, strings.ReplaceAll(text, schema+".", ""))
		rows, err = pool.Query(ctx, "select row_to_json(t)::text from "+schema+"."+table+"_recorded t order by 1")
		if err != nil {
			return err
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		for _, line := range lines {
			fmt.Printf("insert into %s select * from json_populate_record(null::%s, '%s');\n", table, table, strings.ReplaceAll(line, "'", "''"))
		}
	}
	return nil
}
