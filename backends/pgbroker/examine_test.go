package pgbroker

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/examinetest"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// plantSQL corrupts a population by statements written for the schema jobs.
func plantSQL(direct *pgxpool.Pool, statements ...string) func(testing.TB, broker.Broker) {
	return func(tb testing.TB, b broker.Broker) {
		tb.Helper()
		for _, sql := range statements {
			tag, err := direct.Exec(tb.Context(), strings.ReplaceAll(sql, "jobs.", b.(*Broker).config.Schema+"."))
			if err != nil || tag.RowsAffected() == 0 && !strings.HasPrefix(sql, "drop") && !strings.HasPrefix(sql, "create") &&
				!strings.HasPrefix(sql, "alter") {
				tb.Fatalf("%s: %v, %v", sql, tag, err)
			}
		}
	}
}

func corruptions(direct *pgxpool.Pool) []examinetest.Corruption {
	p := func(statements ...string) func(testing.TB, broker.Broker) { return plantSQL(direct, statements...) }
	const delta = "insert into jobs.count_delta (queue, pending, scheduled, active, retry, completed, dead, cancelled) select id, "
	return []examinetest.Corruption{
		{Name: "an active job without a worker", Want: []string{"state-differs active"},
			Then:  map[string]broker.State{"active": broker.StatePending},
			Plant: p("update jobs.job set worker = null where id = 'active'")},
		{Name: "a worker of another queue", Want: []string{"lease-of-unknown-worker active"},
			Then:  map[string]broker.State{"active": broker.StatePending},
			Plant: p("update jobs.job set worker = 999999 where id = 'active'")},
		{Name: "a worker that counts as drained", Want: []string{"lease-of-unknown-worker active", "lease-of-unknown-worker asked",
			"lease-of-unknown-worker started"},
			Plant:   p("update jobs.worker set drained = true, ended_at = 1 where id = 'w'"),
			Repairs: []string{"lease-of-unknown-worker active", "lease-of-unknown-worker asked"}},
		{Name: "a live worker that counts as drained", Want: []string{"lease-of-unknown-worker active", "lease-of-unknown-worker asked",
			"lease-of-unknown-worker started", "worker-alive-and-ended w"},
			Repairs: []string{"lease-of-unknown-worker active", "lease-of-unknown-worker asked"},
			Plant:   p("update jobs.worker set drained = true where id = 'w'")},
		{Name: "a pending job of a worker", Want: []string{"state-differs pending"},
			Plant: p("update jobs.job set worker = (select num from jobs.worker where id = 'w') where id = 'pending'")},
		{Name: "a pending job with a due time", Want: []string{"state-differs pending"},
			Plant: p("update jobs.job set run_at = 1 where id = 'pending'")},
		{Name: "a scheduled job without a due time", Want: []string{"state-differs scheduled"},
			Then:  map[string]broker.State{"scheduled": broker.StateDead},
			Plant: p("update jobs.job set run_at = null where id = 'scheduled'")},
		{Name: "a retry without a due time", Want: []string{"state-differs retry"}, Then: map[string]broker.State{"retry": broker.StateDead},
			Plant: p("update jobs.job set run_at = null where id = 'retry'")},
		{Name: "a job that nobody holds waits", Want: []string{"state-differs held"}, Then: map[string]broker.State{"held": broker.StatePending},
			Plant: p("update jobs.job set held = null where id = 'held'")},
		{Name: "a held job lost its time", Want: []string{"state-differs held"}, Then: map[string]broker.State{"held": broker.StatePending},
			Plant: p("update jobs.job set run_at = 0 where id = 'held'")},
		{Name: "a pending job is held", Want: []string{"state-differs pending"},
			Plant: p("update jobs.job set held = '1:mover' where id = 'pending'")},
		{Name: "a held job of a worker", Want: []string{"state-differs held"},
			Plant: p("update jobs.job set worker = (select num from jobs.worker where id = 'w') where id = 'held'")},
		{Name: "a held job is dead too", Want: []string{"job-listed-twice held"}, Then: map[string]broker.State{"held": broker.StateDead},
			Plant: p("insert into jobs.dead (died_at, created_at, epoch, queue, lane, id, key, body) "+
				"select 1, 1, 9, queue, 5, id, key, body from jobs.job where id = 'held'",
				delta+"0, 0, 0, 0, 0, 1, 0 from jobs.queue", "delete from jobs.unique_key where key = 'key-held'")},
		{Name: "a count of held jobs", Want: []string{"count-differs waiting"},
			Plant: p("insert into jobs.count_delta (queue, waiting) select id, 7 from jobs.queue")},
		{Name: "a count of suppressed jobs", Want: []string{"count-differs suppressed"},
			Plant: p("insert into jobs.count_total as t (queue, suppressed) select id, 7 from jobs.queue " +
				"on conflict (queue) do update set suppressed = 7")},
		{Name: "a state that nobody knows", Want: []string{"state-unknown pending", "count-differs pending"},
			Plant: p("update jobs.job set state = 77 where id = 'pending'"), Repairs: []string{"state-unknown pending"}},
		{Name: "a line that nobody knows", Want: []string{"lane-unknown pending"},
			Plant: p("update jobs.job set lane = 30 where id = 'pending'")},
		{Name: "a dead job of a line that nobody knows", Want: []string{"lane-unknown dead"},
			Plant: p("update jobs.dead set lane = 0 where id = 'dead'")},
		{Name: "a record of a state that nobody knows", Want: []string{"state-unknown completed", "count-differs completed"},
			Plant: p("update jobs.history set state = 77 where id = 'completed'"), Repairs: []string{"state-unknown completed"}},

		{Name: "a dead job is pending too", Want: []string{"job-listed-twice dead"}, Then: map[string]broker.State{"dead": broker.StateDead},
			Plant: p("insert into jobs.job (seq, created_at, queue, state, lane, id, key, body) "+
				"select 1, 1, queue, 1, 5, id, key, body from jobs.dead where id = 'dead'",
				delta+"1, 0, 0, 0, 0, 0, 0 from jobs.queue",
				"insert into jobs.count_delta (queue, bytes) select queue, octet_length(body) from jobs.job where id = 'dead'")},
		{Name: "a key that claims do not know of", Want: []string{"key-without-turn pending"},
			Plant: p("update jobs.job set key = 'unheard of' where id = 'pending'")},
		{Name: "a redriven job is dead still", Want: []string{"job-listed-twice pending"},
			Plant: p("insert into jobs.dead (died_at, created_at, epoch, queue, lane, id, key, body) "+
				"select 1, 1, -1, queue, 5, id, key, body from jobs.job where id = 'pending'",
				delta+"0, 0, 0, 0, 0, 1, 0 from jobs.queue")},
		{Name: "a completed job is active still", Want: []string{"job-listed-twice completed"},
			Plant: p("insert into jobs.job (seq, created_at, queue, state, worker, lane, id, key, body) "+
				"select 1, 1, h.queue, 3, w.num, 5, h.id, h.key, h.body "+
				"from jobs.history h, jobs.worker w where h.id = 'completed' and w.id = 'w'",
				delta+"0, 0, 1, 0, 0, 0, 0 from jobs.queue")},
		{Name: "a dead job is completed too", Want: []string{"job-listed-twice dead"},
			Plant: p("insert into jobs.history (expires_at, finished_at, created_at, epoch, queue, day, state, id, key, body) "+
				"select 9e15, 1, 1, 1, queue, 0, 5, id, key, body from jobs.dead where id = 'dead'",
				delta+"0, 0, 0, 0, 1, 0, 0 from jobs.queue")},

		{Name: "counts", Want: []string{"count-differs pending", "count-differs dead"}, Plant: p(delta + "3, 0, 0, 0, 0, -1, 0 from jobs.queue")},
		{Name: "a unique key of nobody", Want: []string{"unique-key-of-missing-job nobody"},
			Plant: p("insert into jobs.unique_key (queue, key, job, mode, token) select id, 'other', 'nobody', 0, 1 from jobs.queue")},
		{Name: "a unique key of a job that died", Want: []string{"unique-key-of-ended-job died-unique"},
			Plant: p("insert into jobs.unique_key (queue, key, job, mode, token) select id, 'key-dead', 'died-unique', 0, 1 from jobs.queue")},
		{Name: "a unique key of a job that started", Want: []string{"unique-key-of-ended-job started"},
			Plant: p("insert into jobs.unique_key (queue, key, job, mode, token) select id, 'key-started', 'started', 1, 1 from jobs.queue")},
		{Name: "a unique key that nobody holds", Want: []string{"unique-key-not-held unique"},
			Plant: p("delete from jobs.unique_key where key = 'key'")},
		{Name: "a unique key that another job holds", Left: true, Want: []string{"unique-key-not-held unique"},
			Plant: p("update jobs.unique_key set job = 'pending' where key = 'key'", "update jobs.job set unique_key = 'key' where id = 'pending'")},
		{Name: "a window without an end", Want: []string{"unique-window-never-lapses key-window"},
			Plant: p("update jobs.unique_key set until = null where key = 'key-window'")},

		{Name: "rows of a queue that is not there", Want: []string{"row-without-queue old", "row-without-queue old", "row-without-queue old"},
			Plant: p("insert into jobs.remembered values (999, 'old', 1)",
				"insert into jobs.worker (queue, id, info) values (999, 'old', '')",
				"insert into jobs.unique_key (queue, key, job, mode, token) values (999, 'old', 'x', 0, 1)")},
		{Name: "verdicts of a worker that is gone", Want: []string{"verdicts-of-unknown-worker 999999"},
			Plant: p("insert into jobs.settled values (999999, 1, '{}')")},
		{Name: "turns begin anew", Want: []string{"turns-behind job_seq"}, Plant: p("alter sequence jobs.job_seq restart with 1")},
		{Name: "fences begin anew", Want: []string{"mark-fence-behind mark"}, Plant: p("update jobs.mark set fence = 1000000")},
		{Name: "a layout of a newer release", Left: true, Want: []string{"layout-newer "}, Plant: p("update jobs.queue set layout = 2")},

		{Name: "a day without a partition", Want: []string{"history-partition-missing 1000000"},
			Plant: p("insert into jobs.history_day values (1000000)")},
		{Name: "a partition that is not listed", Want: []string{"history-partition-unlisted 1000001"},
			Plant: p("create table jobs.history_1000001 partition of jobs.history for values in (1000001)")},
		{Name: "days that are over", Left: true, Want: []string{"history-days-behind "},
			Plant: p("create table jobs.history_1000 partition of jobs.history for values in (1000)", "insert into jobs.history_day values (1000)")},
		{Name: "a record that expired long ago", Left: true, Want: []string{"prune-behind "},
			Plant: p("update jobs.history set expires_at = 1 where id = 'completed'")},
		{Name: "deltas that nobody folds", Want: []string{"deltas-unfolded "},
			Plant: p("insert into jobs.count_delta (queue) select id from jobs.queue, generate_series(1, 100001)")},
		{Name: "a table is gone", Left: true, Want: []string{"table-missing event"}, Plant: p("drop table jobs.event")},
		{Name: "an index is gone", Left: true, Want: []string{"index-missing job_ready"}, Plant: p("drop index jobs.job_ready")},
		{Name: "a primary key is gone", Left: true, Want: []string{"index-missing remembered_pkey"},
			Plant: p("alter table jobs.remembered drop constraint remembered_pkey")},
		{Name: "a table is not logged", Left: true, Want: []string{"table-unlogged job"}, Plant: p("alter table jobs.job set unlogged")},
		{Name: "autovacuum is off", Left: true, Want: []string{"autovacuum-off job"},
			Plant: p("alter table jobs.job set (autovacuum_enabled = false)")},
		{Name: "a migration that this program does not know", Left: true, Want: []string{"schema-not-current "},
			Plant: p("insert into jobs.migration (number, name, oldest) values (1000, 'later', 1)")},
	}
}

func TestExamine_EveryCorruptionIsFoundAndRepaired(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	direct := connect(t, url, 4)
	examinetest.Run(t, func(tb testing.TB) broker.Broker { return fresh(tb, direct, url) }, corruptions(direct))
}

// fresh is a broker on a schema of its own.
func fresh(tb testing.TB, direct *pgxpool.Pool, url string) *Broker {
	tb.Helper()
	b, err := New(tb.Context(), connect(tb, url, 4), Config{Schema: schema(tb, direct)})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { b.Close() })
	return b
}

// Jobs of a queue whose row is gone come back under another name.
func TestExamine_JobsWithoutAQueueAreRecovered(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	direct := connect(t, url, 2)
	b := fresh(t, direct, url)
	examinetest.Populate(t, b)
	plantSQL(direct, "delete from jobs.queue")(t, b)
	req := broker.ExamineRequest{Now: examinetest.Later, Limit: 3, Fix: true}
	found := examinetest.Examine(t, b, req)
	if len(found) == 0 || !slices.ContainsFunc(found, func(f broker.Finding) bool { return f.Code == "queue-record-missing" && f.Fixed }) {
		t.Fatalf("found %+v, want queue-record-missing, repaired", found)
	}
	if found = examinetest.Examine(t, b, req); len(found) > 0 {
		t.Errorf("after the repair: %+v", found)
	}
	reply, err := b.Queues(t.Context(), broker.QueuesRequest{Now: examinetest.Later})
	if err != nil || len(reply.Queues) != 1 || !strings.HasPrefix(reply.Queues[0].Name, "recovered-") ||
		reply.Queues[0].Counts[broker.StatePending] == 0 {
		t.Errorf("the queues are %+v, %v", reply.Queues, err)
	}
}

func TestExamine_AnExaminationOfABusyStoreFindsNothing(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	direct := connect(t, url, 2)
	name := schema(t, direct)
	examinetest.Busy(t, func(tb testing.TB) broker.Broker {
		b, err := New(tb.Context(), connect(tb, url, 3), Config{Schema: name})
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { b.Close() })
		return b
	})
}

func TestExamine_AnExaminationGoesInBoundedSteps(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	direct := connect(t, url, 2)
	b := fresh(t, direct, url)
	const jobs = 20_000
	plantSQL(direct, "insert into jobs.queue (name) values ('q')",
		`insert into jobs.job (seq, created_at, run_at, queue, state, lane, id, body)
		select n, 1, case when n % 50 = 0 then n end, q.id, case when n % 50 = 0 then 2 else 1 end, 5, lpad(n::text, 26, '0'), '\x00'
		from generate_series(1, 20000) n, jobs.queue q`,
		"insert into jobs.count_delta (queue, pending, scheduled, bytes) select id, 19600, 400, 20000 from jobs.queue",
		"select setval('jobs.job_seq', 200000)")(t, b)
	records := 0
	found, err := examinetest.All(t.Context(), b, broker.ExamineRequest{Limit: 1000}, func(step broker.Examined) {
		if records += step.Records; step.Records > 1000 {
			t.Errorf("a step of part %q looked at %d records, want 1000 at most", step.Part, step.Records)
		}
	})
	found = slices.DeleteFunc(found, func(f broker.Finding) bool { return f.Warning || f.Code == "commits-not-durable" })
	if err != nil || len(found) > 0 || records < jobs {
		t.Errorf("found %+v, %v in %d records", found, err, records)
	}
	for _, req := range []broker.ExamineRequest{{Cursor: "x"}, {Cursor: "jobs\n{\n"}, {Queue: "q", Cursor: "jobs\nr\n"}, {Limit: -1},
		{Queue: "{"}} {
		if _, err := b.Examine(t.Context(), req); err == nil || broker.MayHaveApplied(err) {
			t.Errorf("Examine(%+v) answered %v, want ErrInvalid", req, err)
		}
	}
}

func TestExamine_AServerThatEndangersJobsIsFound(t *testing.T) {
	t.Parallel()
	codes := func(found []noted) string {
		var all []string
		for _, n := range found {
			all = append(all, n.Code)
		}
		return strings.Join(all, " ")
	}
	if got := codes(serverFindings(nil, true, nil, nil, time.Second)); got != "" {
		t.Errorf("a good server: found %q", got)
	}
	replica := "the server is a replica"
	got := codes(serverFindings([]string{"fsync is off"}, false, &replica, []string{"process 1"}, -time.Minute))
	if want := "commits-not-durable autovacuum-off server-read-only snapshot-held clocks-differ"; got != want {
		t.Errorf("a bad server: found %q, want %q", got, want)
	}
	hour := int64(60)
	good := func(change func(*relation)) string {
		tables, indexes, migrations := expected()
		var all []relation
		for _, name := range tables {
			all = append(all, relation{migration: migrations, name: name, logged: true, valid: true})
			all = append(all, relation{migration: migrations, name: name + "_pkey", index: true, logged: true, valid: true})
		}
		for _, name := range indexes {
			all = append(all, relation{migration: migrations, name: name, index: true, logged: true, valid: true})
		}
		for i := range all {
			if all[i].name == "job" || all[i].name == "job_ready" {
				change(&all[i])
			}
		}
		return codes(schemaFindings(all))
	}
	for want, change := range map[string]func(*relation){
		"":              func(r *relation) { r.dead, r.live, r.vacuumed = 300_000, 100_000, &hour },
		"table-bloated": func(r *relation) { r.dead, r.live = 300_000, 10_000 },
		"index-invalid": func(r *relation) { r.valid = !r.index },
	} {
		if got := good(change); got != want {
			t.Errorf("found %q, want %q", got, want)
		}
	}
}

// A finding names the transaction that has been open for long.
// A transaction holds rows back while it has a snapshot, and as soon as it has written.
func TestExamine_AnOldSnapshotIsFound(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	direct := connect(t, url, 3)
	b := fresh(t, direct, url)
	var pids [2]int64
	for i, holds := range []string{"declare held cursor for select 1", "select pg_current_xact_id()"} {
		tx, err := direct.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(context.Background())
		if err := tx.QueryRow(t.Context(), "select pg_backend_pid()").Scan(&pids[i]); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), holds); err != nil {
			t.Fatal(err)
		}
	}
	var clock int64
	var unsafe, held []string
	var vacuums bool
	var readOnly *string
	if err := b.run(t.Context(), b.step("examine_server", one(&clock, &unsafe, &vacuums, &readOnly, &held), 0)); err != nil {
		t.Fatal(err)
	}
	for i, pid := range pids {
		if !slices.ContainsFunc(held, func(h string) bool { return strings.HasPrefix(h, "process "+itoa(pid)+" of ") }) {
			t.Errorf("process %d, number %d, is not among those that hold rows back: %q", pid, i, held)
		}
	}
}

// A user that may not write, as one has on a replica, finds everything.
func TestExamine_AUserThatMayOnlyReadCanExamine(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	direct := connect(t, url, 2)
	b := fresh(t, direct, url)
	examinetest.Populate(t, b)
	plantSQL(direct, "delete from jobs.unique_key where key = 'key'")(t, b)
	config := b.pool.Config()
	config.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	reader, err := New(t.Context(), pool, b.config)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	found := examinetest.Examine(t, reader, broker.ExamineRequest{Now: examinetest.Later})
	if len(found) != 1 || found[0].Code != "unique-key-not-held" {
		t.Errorf("found %+v, want the unique key", found)
	}
	if _, err := examinetest.All(t.Context(), reader, broker.ExamineRequest{Now: examinetest.Later, Fix: true}, nil); err == nil ||
		broker.MayHaveApplied(err) {
		t.Errorf("a repair by who may only read answered %v, want an error that says that nothing was done", err)
	}
}

// A key may lapse, and another job take it, between the reading of the clock and that of the
// job that held it.
func TestExamine_AKeyThatLapsesDuringAnExaminationIsNoFinding(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	direct := connect(t, url, 2)
	b := fresh(t, direct, url)
	const ttl = 20 * time.Millisecond
	job := broker.NewJob{Queue: "q", ID: "j", Body: broker.Body{Type: "t", Priority: broker.PriorityNormal,
		Unique: broker.Unique{Key: "key", Mode: broker.UniqueUntilDone, TTL: ttl}}}
	before := time.Now()
	if _, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{job}}); err != nil {
		t.Fatal(err)
	}
	plantSQL(direct, "select pg_sleep_until(to_timestamp(until / 1e6) + interval '1 ms') from jobs.unique_key where key = 'key'",
		"delete from jobs.unique_key where key = 'key'")(t, b)
	req := broker.ExamineRequest{Limit: 100}
	e := &examiner{b: b, req: &req}
	e.Now = before // what the clock said when the step began
	if _, err := e.jobs(t.Context(), "", 0); err != nil {
		t.Fatal(err)
	}
	if len(e.Findings) != 0 || e.Records != 1 {
		t.Errorf("%d records, found %+v; want nothing found of one", e.Records, e.Findings)
	}
}
