package pgbroker

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed81422ce9/jobs/broker"
)

// Tx returns a Producer that stores jobs in the caller's transaction: the jobs exist if and when
// the transaction commits. A refused job, or a failed call, leaves the transaction as it was
// before; but if ctx ends during a call, the driver closes the connection, and the transaction is
// over. The commit wakes a worker. IDs and unique keys are locked until the transaction ends:
// other producers of the same ID or key, and redrives, wait for it, for at most half a second. A
// job that waits behind an active one (§41), or takes a unique key whose time has ended, also
// locks the earlier holder: the outcomes that its worker sends wait until the transaction ends. A
// REPEATABLE READ or SERIALIZABLE transaction does not see every duplicate, so it is refused with
// ErrUnsupported. One that is READ ONLY, or has ended or failed, is refused with ErrInvalid. The
// error is also pgx.ErrTxClosed if tx itself knows that it has ended: after its Commit or
// Rollback, also those of a nested transaction. Only one goroutine may use the Producer at a time.
func (b *Broker) Tx(tx pgx.Tx) broker.Producer {
	return &txPort{b: b, session: txSession{tx, b.config.PollOnly}}
}

// txSession is a caller's transaction. Only the transaction itself knows whether it has ended.
// After that, another goroutine may use its connection.
type txSession struct {
	tx    pgx.Tx
	plain bool
}

var errNoTx = broker.Invalid("transaction", "is nil; begin one, and check the error")

func (s txSession) run(ctx context.Context, steps ...step) error {
	if s.tx == nil {
		return errNoTx
	}
	err := s.tx.SendBatch(ctx, &pgx.Batch{}).Close() // an empty batch sends nothing, but fails if the transaction has ended
	if err == nil {
		err = connSession{s.tx.Conn(), s.plain}.run(ctx, steps...)
	}
	return classifyTx(err)
}

// classifyTx is classify for a caller's transaction. If the transaction has ended, has failed or
// never began, the error is ErrInvalid, since that is a mistake of the caller.
func classifyTx(err error) error {
	state := sqlState(err)
	if errors.Is(err, pgx.ErrTxClosed) || errors.Is(err, sql.ErrTxDone) || state == noTransaction || state == failedTransaction {
		return fmt.Errorf("%w: the transaction has ended or failed: %w", broker.ErrInvalid, err)
	}
	return classify(err)
}

// txPort is the Producer of a caller's transaction. It stores each flush after a savepoint. Earlier
// flushes are in the same transaction, so a second round trip seals the rows of a flush by their
// IDs, not by their transaction.
type txPort struct {
	b *Broker
	session
}

func (p *txPort) Enqueue(ctx context.Context, req broker.EnqueueRequest) ([]broker.Receipt, error) {
	return p.b.enqueue(ctx, p, req)
}

func (p *txPort) Limits() broker.Limits { return p.b.Limits() }

// keptSettings has the settings of a caller's transaction that statements change.
type keptSettings struct {
	values    []string // of changedSettings
	isolation string
	readOnly  bool
}

var changedSettings = []string{"enable_seqscan", "enable_nestloop", "enable_mergejoin", "enable_bitmapscan", "jit", "plan_cache_mode",
	"lock_timeout"}

func (k *keptSettings) read(b *Broker) step {
	return b.step("settings_read", one(&k.values, &k.isolation, &k.readOnly), changedSettings)
}

// refuse returns the error of a transaction that may only read, which is a mistake of the caller; otherwise err, the error of
// a statement.
func (k *keptSettings) refuse(err error) error {
	if err != nil && k.readOnly {
		return fmt.Errorf("%w: the transaction is READ ONLY; begin it READ WRITE", broker.ErrInvalid)
	}
	return err
}

func (k *keptSettings) restore(b *Broker) step {
	return b.step("settings_restore", nil, changedSettings, k.values)
}

func (p *txPort) byIndex(ctx context.Context, s step) error {
	kept := new(keptSettings)
	if err := p.run(ctx, kept.read(p.b)); err != nil {
		return err
	}
	return p.run(ctx, p.b.byIndex(false), s, kept.restore(p.b))
}

// beside runs a step outside the caller's transaction. Inside, the step would block all other
// producers of the queue until the transaction ends. If no connection is free, beside runs the
// step inside: perhaps transactions like this one use all connections.
func (p *txPort) beside(ctx context.Context, s step) error {
	beside, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	if p.b.run(beside, s) == nil {
		return nil
	}
	return p.run(ctx, s)
}

func (p *txPort) flush(ctx context.Context, f *flush) error {
	wake := messageInTx(len(f.jobs))
	return p.behindSavepoint(ctx, func(begin ...step) ([]step, error) {
		if f.restored() {
			return nil, f.restore(ctx, p.session, wake, begin...)
		}
		if err := p.run(ctx, append(f.prepare(begin), f.store())...); err != nil {
			return nil, err
		}
		stored := f.stored
		if stored == nil {
			stored = column(f, jobID)
		}
		return []step{f.seal(stored, wake)}, nil
	})
}

// behindSavepoint calls do with the steps that it must run first, and then runs the steps that do
// returns. If a step fails, the transaction is left as it was before.
func (p *txPort) behindSavepoint(ctx context.Context, do func(begin ...step) (end []step, err error)) error {
	kept := new(keptSettings)
	end, err := do(step{sql: "savepoint jobs_enqueue"}, kept.read(p.b))
	if kept.isolation == "repeatable read" || kept.isolation == "serializable" { // Postgres has READ UNCOMMITTED only in name
		err = fmt.Errorf("%w: the transaction is %s, in which jobs that ended since it began are not seen; begin it READ COMMITTED",
			broker.ErrUnsupported, strings.ToUpper(kept.isolation))
	}
	if err = kept.refuse(err); err == nil {
		err = p.run(ctx, append(end, kept.restore(p.b), step{sql: "release savepoint jobs_enqueue"})...)
	}
	if err != nil {
		// One after the other: in a failed transaction the server does not even parse the
		// second statement before it has executed the first.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTime)
		defer cancel()
		p.run(ctx, step{sql: "rollback to savepoint jobs_enqueue"})
		p.run(ctx, step{sql: "release savepoint jobs_enqueue"})
	}
	return err
}

// SQLTx is Tx for a transaction of database/sql, with any driver that numbers its parameters $1,
// $2, …; it sends arrays as text. If the transaction has ended, the error is also sql.ErrTxDone.
// Each enqueue takes about six round trips; Tx takes two.
func (b *Broker) SQLTx(tx *sql.Tx) broker.Producer {
	return &txPort{b: b, session: sqlSession{tx, pgtype.NewMap()}}
}

// sqlSession runs statements one by one in a transaction of database/sql.
type sqlSession struct {
	tx    *sql.Tx
	types *pgtype.Map
}

func (s sqlSession) run(ctx context.Context, steps ...step) error {
	if s.tx == nil {
		return errNoTx
	}
	for _, st := range steps {
		if err := s.runStep(ctx, st); err != nil {
			return classifyTx(err)
		}
	}
	return nil
}

func (s sqlSession) runStep(ctx context.Context, st step) error {
	args := make([]any, len(st.args))
	for i, a := range st.args {
		text, err := s.text(a)
		if err != nil {
			return err
		}
		args[i] = text
	}
	r, err := s.tx.QueryContext(ctx, st.sql, args...)
	if err != nil {
		return err
	}
	defer r.Close()
	if st.read != nil {
		if err := st.read(sqlRows{r, s.types}); err != nil {
			return err
		}
	}
	for r.Next() { // read to the end, to get an error that comes after the rows
	}
	return r.Err()
}

// text returns an array in PostgreSQL's text form, and other arguments as they are.
func (s sqlSession) text(arg any) (any, error) {
	if _, bytes := arg.([]byte); bytes || reflect.ValueOf(arg).Kind() != reflect.Slice {
		return arg, nil
	}
	array, _ := s.types.TypeForValue(arg)
	text, err := s.types.Encode(array.OID, pgtype.TextFormatCode, arg, nil)
	if err != nil || text == nil {
		return nil, err
	}
	return string(text), nil
}

// sqlRows reads arrays, and columns into nil, which database/sql does not know.
type sqlRows struct {
	*sql.Rows
	types *pgtype.Map
}

func (r sqlRows) Scan(dest ...any) error {
	scanned := make([]any, len(dest))
	for i, d := range dest {
		switch d.(type) {
		case nil:
			d = new(any)
		case *[]string, *[]int32:
			d = r.types.SQLScanner(d)
		}
		scanned[i] = d
	}
	return r.Rows.Scan(scanned...)
}
