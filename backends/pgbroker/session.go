package pgbroker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed81422ce9/jobs/broker"
)

// step is one statement of a pipeline, and the function that reads its answer.
type step struct {
	sql  string
	args []any
	read func(rows) error // nil if the answer is not needed
}

// rows is what the rows of pgx and of database/sql have in common.
type rows interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
}

// session runs statements: on a connection of the pool, or in a caller's transaction.
type session interface {
	// run executes steps in order. On a connection of its own that is one round
	// trip and one transaction.
	run(ctx context.Context, steps ...step) error
}

// connSession runs pipelines on a pgx connection. If plain is set, it uses no prepared statements,
// whatever the connection's configuration says, because a PgBouncer in transaction pooling mixes
// the prepared statements of its clients.
type connSession struct {
	conn  *pgx.Conn
	plain bool
}

func (s connSession) run(ctx context.Context, steps ...step) error {
	if s.plain {
		return s.runPlain(ctx, steps)
	}
	for _, st := range steps {
		for i, arg := range st.args {
			st.args[i] = lean(arg)
		}
	}
	if len(steps) == 1 { // a pipeline with one statement would only be slower
		r, err := s.conn.Query(ctx, steps[0].sql, steps[0].args...)
		if err != nil {
			return err
		}
		return drain(r, steps[0].read)
	}
	var batch pgx.Batch
	for _, st := range steps {
		batch.Queue(st.sql, st.args...)
	}
	results := s.conn.SendBatch(ctx, &batch)
	for _, st := range steps {
		r, err := results.Query()
		if err == nil {
			err = drain(r, st.read)
		}
		if err != nil {
			results.Close()
			return err
		}
	}
	return results.Close()
}

func (s connSession) runPlain(ctx context.Context, steps []step) error {
	var batch pgconn.Batch
	for _, st := range steps {
		var b pgx.ExtendedQueryBuilder
		if err := b.Build(s.conn.TypeMap(), nil, st.args); err != nil {
			return err
		}
		batch.ExecParams(st.sql, b.ParamValues, nil, b.ParamFormats, b.ResultFormats)
	}
	results := s.conn.PgConn().ExecBatch(ctx, &batch)
	for _, st := range steps {
		if !results.NextResult() {
			break
		}
		if err := drain(pgx.RowsFromResultReader(s.conn.TypeMap(), results.ResultReader()), st.read); err != nil {
			results.Close()
			return err
		}
	}
	return results.Close()
}

// drain reads an answer to its end.
func drain(r pgx.Rows, read func(rows) error) error {
	defer r.Close()
	if read != nil {
		if err := read(r); err != nil {
			return err
		}
	}
	r.Close()
	return r.Err()
}

// one reads an answer of at most one row into dest.
func one(dest ...any) func(rows) error {
	return func(r rows) error {
		if r.Next() {
			return r.Scan(dest...)
		}
		return nil
	}
}

// each reads an answer row by row.
func each(f func(rows) error) func(rows) error {
	return func(r rows) error {
		for r.Next() {
			if err := f(r); err != nil {
				return err
			}
		}
		return nil
	}
}

// list reads an answer into a list, row by row.
func list[T any](to *[]T, columns func(*T) []any) func(rows) error {
	return func(r rows) error {
		*to = nil // the statement may have been sent before
		for r.Next() {
			var row T
			if err := r.Scan(columns(&row)...); err != nil {
				return err
			}
			*to = append(*to, row)
		}
		return nil
	}
}

// poolSession runs statements on the pool, even after the broker was closed.
type poolSession struct{ b *Broker }

func (s poolSession) run(ctx context.Context, steps ...step) error {
	return s.b.runOn(ctx, s.b.pool, steps...)
}

// run runs a pipeline on a connection of the pool.
func (b *Broker) run(ctx context.Context, steps ...step) error {
	if err := b.usable(ctx); err != nil {
		return err
	}
	return b.runOn(ctx, b.pool, steps...)
}

func (b *Broker) runOn(ctx context.Context, pool *pgxpool.Pool, steps ...step) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return notSent(b.waited(pool, err))
	}
	defer conn.Release()
	if conn.Conn().IsClosed() {
		return notSent(pgconn.ErrConnClosed)
	}
	return classify(connSession{conn.Conn(), b.config.PollOnly}.run(ctx, steps...))
}

// waited says what a call waited for in vain, if its time ended before the pool gave it a connection.
func (b *Broker) waited(pool *pgxpool.Pool, err error) error {
	s := pool.Stat()
	switch {
	case !errors.Is(err, context.DeadlineExceeded):
		return err
	case pool != b.pool:
		return fmt.Errorf("the connection of heartbeats was not free, or could not be made, in time: %w", err)
	case s.AcquiredConns() >= s.MaxConns():
		return fmt.Errorf("all %d connections of the pool are in use; return them sooner, or raise pool_max_conns: %w", s.MaxConns(), err)
	}
	return fmt.Errorf("no connection could be made in time: %w", err)
}

// beginBounded begins a transaction that the server ends if its client falls silent between two statements: because its
// host vanished, for example, or its process was stopped. Without that, its locks would block workers for hours.
const beginBounded = "begin; set local idle_in_transaction_session_timeout = '5s'"

// transact runs f in a transaction of its own. If a step before the commit fails, nothing
// was applied.
func (b *Broker) transact(ctx context.Context, f func(session) error) error {
	if err := b.usable(ctx); err != nil {
		return err
	}
	conn, err := b.pool.Acquire(ctx)
	if err != nil {
		return notSent(b.waited(b.pool, err))
	}
	defer conn.Release()
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: beginBounded})
	if err != nil {
		return notSent(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTime)
		defer cancel()
		tx.Rollback(ctx) // does nothing after a commit
	}()
	if err := f(connSession{tx.Conn(), b.config.PollOnly}); err != nil {
		if broker.MayHaveApplied(err) {
			err = notSent(err)
		}
		return err
	}
	return classify(tx.Commit(ctx))
}

// step returns a step with the named statement.
func (b *Broker) step(name string, read func(rows) error, args ...any) step {
	return step{sql: b.sql.get(name), args: args, read: read}
}

// byIndex returns the first step of a pipeline whose plans must use indexes. With async,
// the commit does not wait for the disk.
func (b *Broker) byIndex(async bool) step {
	var commit *string
	if async {
		commit = &off
	}
	return b.step("settings", nil, commit, nil)
}

var off = "off"

// rollbackTime is how long the cleanup after a failure, such as a rollback, may delay the caller.
const rollbackTime = time.Second

func milliseconds(d time.Duration) *string {
	return new(strconv.FormatInt(d.Milliseconds(), 10))
}

// clock is a request's Now as statements take it: rounded down, so that nothing happens
// early, or nil for the store's own clock.
type clock struct {
	micros *int64
	frac   int64 // 1 if Now was rounded down, which after adds again; otherwise 0
}

func clockOf(now time.Time) clock {
	if now.IsZero() {
		return clock{}
	}
	us := now.UnixMicro()
	return clock{micros: &us, frac: broker.Micros(now) - us}
}

// after returns d in µs, rounded up, to be added to the clock; 0 for no time.
func (c clock) after(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return broker.DurationMicros(d) + c.frac
}
