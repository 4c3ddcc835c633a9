package pgbroker

import (
	"context"
	"database/sql"
	"reflect"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed81422ce9/jobs/broker"
)

// SQLTx is Tx for a transaction of database/sql, with any driver that numbers its parameters $1,
// $2, …; it sends arrays as text. If the transaction has ended, the error is also sql.ErrTxDone.
// Each enqueue takes about six round trips; Tx takes two.
func (b *Broker) SQLTx(tx *sql.Tx) broker.Producer {
	return &txEnqueuer{b: b, port: &txPort{b: b, session: sqlSession{tx, pgtype.NewMap()}}}
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
