package pgbroker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// Handlers may use the same pool, and keep all its connections. Then a call that waits in vain says so, and not only that its time is over.
func TestBroker_ACallSaysThatThePoolIsUsedUp(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.accept(f, job("a"))
	db := connect(t, testenv.Postgres(t), 1)
	b, err := New(t.Context(), db, f.config)
	f.check(err)
	defer b.Close()
	conn, err := db.Acquire(t.Context())
	f.check(err)
	defer conn.Release()
	for name, call := range map[string]func(context.Context) error{
		"Enqueue": func(ctx context.Context) error {
			_, err := b.Enqueue(ctx, broker.EnqueueRequest{Jobs: []broker.NewJob{job("b")}})
			return err
		},
		"Operate": func(ctx context.Context) error {
			_, err := b.Operate(ctx, broker.Operation{Kind: broker.OpDelete, Refs: []broker.Ref{{Queue: "q", ID: "a", Epoch: broker.AnyEpoch}}})
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		err := call(ctx)
		cancel()
		if !errors.Is(err, broker.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) ||
			!strings.Contains(err.Error(), "all 1 connections of the pool are in use") {
			t.Errorf("%s beside a pool that is used up answers %v, want ErrUnavailable and the reason", name, err)
		}
	}
	own, err := b.pulse.pool().Acquire(t.Context())
	f.check(err)
	defer own.Release()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = b.Renew(ctx, broker.RenewRequest{Worker: "w", Queues: []string{"q"}, Lease: time.Minute, Register: true})
	if !errors.Is(err, broker.ErrUnavailable) || !strings.Contains(err.Error(), "the connection of heartbeats") {
		t.Errorf("Renew beside a connection of heartbeats that is busy answers %v, want ErrUnavailable and the reason", err)
	}
}
