package pgbroker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

func TestErrors_SayWhetherAnythingWasApplied(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what    string
		err     error
		applied bool // may have been
	}{
		{"connection refused by a full server", &pgconn.PgError{Code: "53300"}, false},
		{"disk full", &pgconn.PgError{Code: "53100"}, false},
		{"read-only standby", &pgconn.PgError{Code: "25006"}, false},
		{"deadlock", &pgconn.PgError{Code: "40P01"}, false},
		{"shutting down", &pgconn.PgError{Code: "57P01"}, false},
		{"starting up", &pgconn.PgError{Code: "57P03"}, false},
		{"cancelled by statement_timeout", &pgconn.PgError{Code: "57014"}, false},
		{"not connected", &pgconn.ConnectError{}, false},
		{"wrapped once more", fmt.Errorf("while: %w", &pgconn.PgError{Code: "40001"}), false},
		{"pgbouncer lost its server", &pgconn.PgError{Code: "08P01"}, true},
		{"commit in doubt", &pgconn.PgError{Code: "08007"}, true},
		{"connection lost while the answer was read", pgconn.ErrConnClosed, true},
		{"connection lost", io.ErrUnexpectedEOF, true},
		{"connection reset", &net.OpError{Op: "read", Err: errors.New("connection reset by peer")}, true},
		{"context ended", context.DeadlineExceeded, true},
	} {
		err := classify(c.err)
		if got := broker.MayHaveApplied(err); got != c.applied {
			t.Errorf("%s: MayHaveApplied is %t, want %t (%v)", c.what, got, c.applied, err)
		}
		if !errors.Is(err, c.err) {
			t.Errorf("%s: the driver's error is lost in %v", c.what, err)
		}
	}
}

// The isolation level of a role may change while programs run. Then most calls fail, and the server's own message does not say why.
func TestErrors_ACallThatNeedsAnotherIsolationLevelSaysSo(t *testing.T) {
	t.Parallel()
	f := open(t)
	failed := &pgconn.PgError{Code: "40001", Message: "could not serialize access due to concurrent update"}
	inside := f.Broker.transact(t.Context(), func(session) error { return failed })
	for how, err := range map[string]error{"alone": classify(failed), "in a transaction": inside} {
		if !errors.Is(err, broker.ErrUnavailable) || !errors.Is(err, failed) || !strings.Contains(err.Error(), "need READ COMMITTED") {
			t.Errorf("a statement %s that could not be serialized: %v, want ErrUnavailable and what to change", how, err)
		}
	}
}

func TestErrors_EveryCallAnswersSoonWhenTheServerIsDown(t *testing.T) {
	t.Parallel()
	server := testenv.PrivatePostgres(t)
	db := connect(t, server.URL, 4)
	if err := Migrate(t.Context(), db, ""); err != nil {
		t.Fatal(err)
	}
	b, err := New(t.Context(), db, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	f := &inside{Broker: b, t: t, schema: DefaultSchema, db: db}
	f.accept(f, job("a"))
	f.worker("w")
	held := f.claimed("w", 1)
	f.accept(f, job("b")) // whose commit makes that of the claim durable, too
	server.Kill()
	b.Ping(t.Context()) // finds out that the idle connections are gone
	b.Ping(t.Context())
	for name, call := range f.calls(held) {
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		err := call(ctx)
		cancel()
		if took := time.Since(began); !errors.Is(err, broker.ErrUnavailable) || took > 5*time.Second {
			t.Errorf("%s while the server is down: %v after %v; want ErrUnavailable at once", name, err, took)
		}
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "Ping after the server came back", func() bool { _, err := b.Ping(t.Context()); return err == nil })
	f.settle("w", broker.Complete(nil), held...)
	if got := f.claimed("w", 5); len(got) != 1 || got[0].ID != "b" {
		t.Errorf("claimed %v after the server came back, want b", got)
	}
}

// calls returns one call of every method that asks the store.
func (f *inside) calls(held []broker.Job) map[string]func(context.Context) error {
	queues := []string{"q"}
	return map[string]func(context.Context) error{
		"Enqueue": func(ctx context.Context) error {
			_, err := f.Enqueue(ctx, broker.EnqueueRequest{Jobs: []broker.NewJob{job("new")}})
			return err
		},
		"Claim": func(ctx context.Context) error {
			_, err := f.Claim(ctx, broker.ClaimRequest{Worker: "w", Max: 1, Queues: []broker.Share{{Queue: "q", Max: 1}}})
			return err
		},
		"Claim that waits": func(ctx context.Context) error {
			_, err := f.Claim(ctx, broker.ClaimRequest{Worker: "w", Max: 1, Wait: time.Minute, Queues: []broker.Share{{Queue: "q", Max: 1}}})
			return err
		},
		"Renew": func(ctx context.Context) error {
			_, err := f.Renew(ctx, broker.RenewRequest{Worker: "w", Queues: queues, Lease: time.Minute})
			return err
		},
		"Retire": func(ctx context.Context) error {
			_, err := f.Retire(ctx, broker.RetireRequest{Worker: "other", Queues: queues})
			return err
		},
		"Settle": func(ctx context.Context) error {
			_, err := f.Settle(ctx, broker.SettleRequest{Worker: "w", Number: 1,
				Items: []broker.Settlement{{Job: &held[0], Outcome: broker.Complete(nil)}}})
			return err
		},
		"Reclaim": func(ctx context.Context) error {
			_, err := f.Reclaim(ctx, broker.ReclaimRequest{Worker: "w", Queues: queues, Max: 1})
			return err
		},
		"Prune": func(ctx context.Context) error {
			_, err := f.Prune(ctx, broker.PruneRequest{Queues: queues, Max: 1})
			return err
		},
		"Find": func(ctx context.Context) error {
			_, err := f.Find(ctx, broker.Query{Queue: "q", State: broker.StatePending})
			return err
		},
		"Queues": func(ctx context.Context) error { _, err := f.Queues(ctx, broker.QueuesRequest{}); return err },
		"Operate": func(ctx context.Context) error {
			_, err := f.Operate(ctx, broker.Operation{Kind: broker.OpCancel, Refs: []broker.Ref{{Queue: "q", ID: "b"}}})
			return err
		},
		"Policy": func(ctx context.Context) error { _, err := f.Policy(ctx, broker.PolicyRequest{Queue: "q"}); return err },
		"Mark":   func(ctx context.Context) error { _, err := f.Mark(ctx, broker.MarkRequest{Name: "m"}); return err },
		"Ping":   func(ctx context.Context) error { _, err := f.Ping(ctx); return err },
	}
}

func TestErrors_ShowNoPassword(t *testing.T) {
	t.Parallel()
	config, err := pgxpool.ParseConfig("postgres://someone:hunter2@127.0.0.1:1/db?connect_timeout=2")
	if err != nil {
		t.Fatal(err)
	}
	db, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	_, err = New(t.Context(), db, Config{})
	if !errors.Is(err, broker.ErrUnavailable) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("New without a server: %v; want ErrUnavailable without the password", err)
	}
}

// An ID or unique key that another transaction has taken and not committed makes only those
// jobs fail that need it.
func TestErrors_ALockThatOthersHoldFailsOnlyTheJobsThatWantIt(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.accept(f, job("first of the queue"))
	tx := f.begin(pgx.TxOptions{})
	given := job("given")
	given.Body.GivenID = true
	f.accept(f.Tx(tx), uniqueJob("holder", "key"), given)
	began := time.Now()
	receipts, err := f.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{
		job("a"), uniqueJob("rival", "key"), job("b"), given, uniqueJob("free", "other key"), job("c")}})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, false, true, false, true, true} {
		r := receipts[i]
		if accepted := r.Err == nil; accepted != want || !accepted && !errors.Is(r.Err, broker.ErrUnavailable) {
			t.Errorf("receipt of %s: %v; want accepted %t, or else ErrUnavailable", r.ID, r.Err, want)
		}
	}
	if took := time.Since(began); took > 10*lockWait {
		t.Errorf("the batch took %v beside a transaction that held two locks, want about %v", took, lockWait)
	}
	f.worker("w")
	var order []string
	for _, j := range f.claimed("w", 10) {
		order = append(order, j.ID)
	}
	if got, want := strings.Join(order, " "), "first of the queue a b free c"; got != want {
		t.Errorf("claimed %s, want %s: the batch keeps its order", got, want)
	}
}
