package pgbroker_test

import (
	"context"
	"fmt"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed81422ce9/jobs/backends/pgbroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

const (
	testQueue  = "mail"
	testWorker = "w1"
)

// fixture is a broker on a migrated schema of its own, with one live worker,
// and a pool that the broker does not use.
type fixture struct {
	*pgbroker.Broker
	t      *testing.T
	schema string
	direct *pgxpool.Pool
	number int64 // of the last settle
}

// newFixture makes one. The hooks change the configuration of the broker's pool.
func newFixture(t *testing.T, hooks ...func(*pgxpool.Config)) *fixture {
	t.Helper()
	return newFixtureOn(t, testenv.Postgres(t), hooks...)
}

// newFixtureAlone makes one on a server of its own: on a shared one, any
// transaction that has written and stays open holds all floors back.
func newFixtureAlone(t *testing.T, hooks ...func(*pgxpool.Config)) *fixture {
	t.Helper()
	return newFixtureOn(t, testenv.PrivatePostgres(t).URL, hooks...)
}

func newFixtureOn(t *testing.T, url string, hooks ...func(*pgxpool.Config)) *fixture {
	t.Helper()
	f := &fixture{t: t, schema: testenv.Name(t), direct: poolOf(t, url, 8)}
	f.ok(pgbroker.Migrate(t.Context(), f.direct, f.schema))
	t.Cleanup(func() { dropSchema(t, f.direct, f.schema) })
	b, err := pgbroker.New(t.Context(), poolOf(t, url, 8, hooks...), pgbroker.Config{Schema: f.schema})
	f.ok(err)
	t.Cleanup(func() { b.Close() })
	f.Broker = b
	f.register(testWorker)
	return f
}

func testPool(t *testing.T, n int32, hooks ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	return poolOf(t, testenv.Postgres(t), n, hooks...)
}

func poolOf(t *testing.T, url string, n int32, hooks ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = n
	for _, hook := range hooks {
		hook(config)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func dropSchema(t *testing.T, pool *pgxpool.Pool, schema string) {
	if _, err := pool.Exec(context.Background(), "drop schema if exists "+pgx.Identifier{schema}.Sanitize()+" cascade"); err != nil {
		t.Errorf("drop schema %q: %v", schema, err)
	}
}

// beside returns another process's broker on the same schema.
func (f *fixture) beside(conns int32) *pgbroker.Broker {
	f.t.Helper()
	b, err := pgbroker.New(f.t.Context(), testPool(f.t, conns), pgbroker.Config{Schema: f.schema})
	f.ok(err)
	f.t.Cleanup(func() { b.Close() })
	return b
}

func (f *fixture) ok(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// in puts the schema's name into SQL that is written for jobs.
func (f *fixture) in(sql string) string { return schemaUse.ReplaceAllString(sql, `"`+f.schema+`".`) }

var schemaUse = regexp.MustCompile(`\bjobs\.`)

func (f *fixture) exec(sql string, args ...any) {
	f.t.Helper()
	if _, err := f.direct.Exec(f.t.Context(), f.in(sql), args...); err != nil {
		f.t.Fatalf("%s: %v", sql, err)
	}
}

// ask reads one integer.
func (f *fixture) ask(sql string, args ...any) (n int64) {
	f.t.Helper()
	if err := f.direct.QueryRow(f.t.Context(), f.in(sql), args...).Scan(&n); err != nil {
		f.t.Fatalf("%s: %v", sql, err)
	}
	return n
}

func (f *fixture) register(worker string) {
	f.t.Helper()
	_, err := f.Renew(f.t.Context(), broker.RenewRequest{Worker: worker, Queues: []string{testQueue}, Lease: time.Hour, Register: true})
	f.ok(err)
}

// aJob returns a new job, with these changes.
func aJob(id string, changes ...func(*broker.NewJob)) broker.NewJob {
	j := broker.NewJob{Queue: testQueue, ID: id,
		Body: broker.Body{Type: "mail:send", Payload: []byte("hello"), Priority: broker.PriorityNormal}}
	for _, change := range changes {
		change(&j)
	}
	return j
}

func withKey(key string, mode broker.UniqueMode) func(*broker.NewJob) {
	return func(j *broker.NewJob) { j.Body.Unique = broker.Unique{Key: key, Mode: mode} }
}

func given(j *broker.NewJob) { j.Body.GivenID = true }

func fresh(j *broker.NewJob) { j.FirstSend = true }

// series returns n jobs whose IDs begin with prefix.
func series(prefix string, n int, changes ...func(*broker.NewJob)) []broker.NewJob {
	jobs := make([]broker.NewJob, n)
	for i := range jobs {
		jobs[i] = aJob(fmt.Sprintf("%s%07d", prefix, i), changes...)
	}
	return jobs
}

// store enqueues jobs and fails the test when one is refused.
func (f *fixture) store(to broker.Producer, jobs ...broker.NewJob) {
	f.t.Helper()
	receipts, err := to.Enqueue(f.t.Context(), broker.EnqueueRequest{Jobs: jobs})
	f.ok(err)
	for _, r := range receipts {
		f.ok(r.Err)
	}
}

// try enqueues one job and returns its receipt.
func (f *fixture) try(to broker.Producer, job broker.NewJob) broker.Receipt {
	f.t.Helper()
	receipts, err := to.Enqueue(f.t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{job}})
	if err != nil {
		return broker.Receipt{Queue: job.Queue, ID: job.ID, Err: err}
	}
	return receipts[0]
}

func (f *fixture) claim(n int, wait time.Duration) []broker.Job {
	f.t.Helper()
	got, err := f.Claim(f.t.Context(), broker.ClaimRequest{Worker: testWorker, Max: n, Wait: wait,
		Queues: []broker.Share{{Queue: testQueue, Max: n}}})
	f.ok(err)
	return got.Jobs
}

func (f *fixture) settle(jobs []broker.Job, outcome broker.Outcome) {
	f.t.Helper()
	f.number++
	req := broker.SettleRequest{Worker: testWorker, Number: f.number}
	for i := range jobs {
		req.Items = append(req.Items, broker.Settlement{Job: &jobs[i], Outcome: outcome})
	}
	verdicts, err := f.Settle(f.t.Context(), req)
	f.ok(err)
	for _, v := range verdicts {
		f.ok(v.Err)
	}
}

// churn stores n jobs, and claims and completes them all.
func (f *fixture) churn(prefix string, n int, changes ...func(*broker.NewJob)) {
	f.t.Helper()
	for from := 0; from < n; from += 1000 {
		f.store(f, series(fmt.Sprintf("%s%03d_", prefix, from/1000), min(1000, n-from), changes...)...)
	}
	for left := n; left > 0; {
		jobs := f.claim(1000, time.Minute)
		f.settle(jobs, broker.Complete(nil))
		left -= len(jobs)
	}
}

// names returns the IDs of jobs.
func names(jobs []broker.Job) (ids []string) {
	for _, j := range jobs {
		ids = append(ids, j.ID)
	}
	return ids
}

// counts returns the counts of Queues.
func (f *fixture) counts() map[broker.State]int64 {
	f.t.Helper()
	reply, err := f.Queues(f.t.Context(), broker.QueuesRequest{Names: []string{testQueue}})
	f.ok(err)
	if len(reply.Queues) != 1 {
		f.t.Fatalf("Queues describes %d queues named %q, want 1", len(reply.Queues), testQueue)
	}
	return reply.Queues[0].Counts
}

// content returns all rows of all tables of the schema, as text, by table.
func (f *fixture) content() map[string][]string {
	f.t.Helper()
	rows, _ := f.direct.Query(f.t.Context(),
		"select relname from pg_class where relnamespace = $1::regnamespace and relkind = 'r' order by relname", `"`+f.schema+`"`)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	f.ok(err)
	all := make(map[string][]string)
	for _, table := range tables {
		rows, _ := f.direct.Query(f.t.Context(), f.in("select t::text from jobs."+table+" t order by 1"))
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		f.ok(err)
		if len(lines) > 0 {
			all[table] = lines
		}
	}
	return all
}

// awaitLockWait returns once a statement on the schema waits for a lock.
func (f *fixture) awaitLockWait() {
	f.t.Helper()
	for deadline := time.Now().Add(time.Minute); f.lockWaits() == 0; {
		if time.Now().After(deadline) {
			f.t.Fatal("nobody came to wait for a lock")
		}
	}
}

// lockWaits returns how many statements on the schema wait for locks.
func (f *fixture) lockWaits() int64 {
	f.t.Helper()
	return f.ask(`select count(*) from pg_stat_activity
		where wait_event_type = 'Lock' and strpos(query, $1) > 0 and pid <> pg_backend_pid()`, f.schema)
}

// begin opens a transaction on a connection of its own, rolled back at the end
// of the test unless it ended before.
func (f *fixture) begin(options pgx.TxOptions) pgx.Tx {
	f.t.Helper()
	tx, err := f.direct.BeginTx(f.t.Context(), options)
	f.ok(err)
	f.t.Cleanup(func() { tx.Rollback(context.Background()) })
	return tx
}

// statements is a tracer that remembers what a broker sent.
type statements struct {
	mu      sync.Mutex
	batches int
	sent    []pgx.TraceBatchQueryData
	ended   chan struct{} // receives after each batch, when there is room
}

func (s *statements) hook(c *pgxpool.Config) { c.ConnConfig.Tracer = s }

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batches++ // of one statement
	s.sent = append(s.sent, pgx.TraceBatchQueryData{SQL: data.SQL, Args: data.Args})
	return ctx
}

func (s *statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) { s.end() }

func (s *statements) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batches++
	for _, q := range data.Batch.QueuedQueries {
		s.sent = append(s.sent, pgx.TraceBatchQueryData{SQL: q.SQL, Args: q.Arguments})
	}
	return ctx
}

func (s *statements) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (s *statements) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) { s.end() }

func (s *statements) end() {
	select {
	case s.ended <- struct{}{}:
	default:
	}
}

// take returns what was sent since the last take.
func (s *statements) take() (batches int, sent []pgx.TraceBatchQueryData) {
	s.mu.Lock()
	defer s.mu.Unlock()
	batches, sent = s.batches, s.sent
	s.batches, s.sent = 0, nil
	return batches, sent
}
