package pgbroker

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// inside is a broker on a schema of its own, for tests that use its internals.
type inside struct {
	*Broker
	t      testing.TB
	schema string
	db     *pgxpool.Pool
	number int64
}

func open(t testing.TB) *inside { return openAs(t, Config{}) }

func openAs(t testing.TB, config Config) *inside {
	t.Helper()
	db := connect(t, testenv.Postgres(t), 8)
	config.Schema = schema(t, db)
	return openOn(t, db, config)
}

func openOn(t testing.TB, db *pgxpool.Pool, config Config) *inside {
	t.Helper()
	b, err := New(t.Context(), db, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return &inside{Broker: b, t: t, schema: b.config.Schema, db: db}
}

// exec runs SQL that is written for the schema "jobs".
func (f *inside) exec(sql string, args ...any) {
	f.t.Helper()
	if _, err := f.db.Exec(context.Background(), inSchema(sql, f.schema), args...); err != nil {
		f.t.Fatalf("%s: %v", sql, err)
	}
}

// value returns the answer of a query for one number.
func (f *inside) value(sql string, args ...any) (n int64) {
	f.t.Helper()
	if err := f.db.QueryRow(context.Background(), inSchema(sql, f.schema), args...).Scan(&n); err != nil {
		f.t.Fatalf("%s: %v", sql, err)
	}
	return n
}

func (f *inside) check(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func job(id string) broker.NewJob {
	return broker.NewJob{Queue: "q", ID: id, Body: broker.Body{Type: "work", Payload: []byte(id), Priority: broker.PriorityNormal,
		MaxRetries: 3}}
}

func uniqueJob(id, key string) broker.NewJob {
	j := job(id)
	j.Body.Unique.Key = key
	return j
}

func jobs(n int, prefix string) []broker.NewJob {
	all := make([]broker.NewJob, n)
	for i := range all {
		all[i] = job(fmt.Sprintf("%s%08d", prefix, i))
	}
	return all
}

// accept enqueues jobs, all of which must be accepted.
func (f *inside) accept(to broker.Producer, jobs ...broker.NewJob) {
	f.t.Helper()
	receipts, err := to.Enqueue(f.t.Context(), broker.EnqueueRequest{Jobs: jobs})
	f.check(err)
	for _, r := range receipts {
		f.check(r.Err)
	}
}

func (f *inside) worker(id string) {
	f.t.Helper()
	r, err := f.Renew(f.t.Context(), broker.RenewRequest{Worker: id, Queues: []string{"q"}, Lease: time.Minute, Register: true})
	if err != nil || r.Lost {
		f.t.Fatal(r, err)
	}
}

func (f *inside) claimed(worker string, n int) []broker.Job {
	f.t.Helper()
	got, err := f.Claim(f.t.Context(), broker.ClaimRequest{Worker: worker, Max: n, Queues: []broker.Share{{Queue: "q", Max: n}}})
	f.check(err)
	return got.Jobs
}

// settle settles jobs of one worker, each of which must be held.
func (f *inside) settle(worker string, o broker.Outcome, jobs ...broker.Job) {
	f.t.Helper()
	f.number++
	req := broker.SettleRequest{Worker: worker, Number: f.number}
	for i := range jobs {
		req.Items = append(req.Items, broker.Settlement{Job: &jobs[i], Outcome: o})
	}
	verdicts, err := f.Settle(f.t.Context(), req)
	f.check(err)
	for _, v := range verdicts {
		f.check(v.Err)
	}
}

// begin starts a transaction that ends with the test at the latest.
func (f *inside) begin(options pgx.TxOptions) pgx.Tx {
	f.t.Helper()
	tx, err := f.db.BeginTx(f.t.Context(), options)
	f.check(err)
	f.t.Cleanup(func() { tx.Rollback(context.Background()) })
	return tx
}

// tripCounter is a tracer of a pool that counts for countTrips.
type tripCounter struct{}

type tripsKey struct{}

// countTrips returns a context, and how often a connection of a pool was acquired with it: what a broker does meanwhile in the
// background, such as a wake-up that it held back, is not counted.
func countTrips(ctx context.Context) (context.Context, *atomic.Int64) {
	n := new(atomic.Int64)
	return context.WithValue(ctx, tripsKey{}, n), n
}

func (tripCounter) TraceAcquireStart(ctx context.Context, _ *pgxpool.Pool, _ pgxpool.TraceAcquireStartData) context.Context {
	if n, ok := ctx.Value(tripsKey{}).(*atomic.Int64); ok {
		n.Add(1)
	}
	return ctx
}

func (tripCounter) TraceAcquireEnd(context.Context, *pgxpool.Pool, pgxpool.TraceAcquireEndData) {}

func (tripCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (tripCounter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
