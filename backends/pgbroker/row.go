package pgbroker

import (
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/seed81422ce9/jobs/broker"
)

// jobRow receives the last columns of every statement that returns whole jobs, in this
// order.
type jobRow struct {
	id        string
	createdAt int64
	headRow
	body []byte
}

// headRow receives the stored head.
type headRow struct {
	epoch                                  zeronull.Int8
	deliveries, failures, crashes, snoozes zeronull.Int4
	tail                                   []byte
}

func (r *headRow) columns() []any {
	return []any{&r.epoch, &r.deliveries, &r.failures, &r.crashes, &r.snoozes, &r.tail}
}

func (r *jobRow) columns() []any {
	return append(append([]any{&r.id, &r.createdAt}, r.headRow.columns()...), &r.body)
}

// head returns the head that was read. It returns an error if this program cannot read the
// tail.
func (r *headRow) head() (broker.Head, error) {
	h := broker.Head{Epoch: int64(r.epoch), Deliveries: int(r.deliveries), Failures: int(r.failures),
		Crashes: int(r.crashes), Snoozes: int(r.snoozes)}
	err := broker.ParseTail(r.tail, &h)
	return h, err
}

// headColumns are the stored heads of several jobs, as statements take them.
type headColumns struct {
	deliveries, failures, crashes, snoozes []int32
	tails                                  [][]byte
	buf                                    []byte // of the tails
}

func newHeadColumns(n int) *headColumns {
	return &headColumns{deliveries: make([]int32, 0, n), failures: make([]int32, 0, n), crashes: make([]int32, 0, n),
		snoozes: make([]int32, 0, n), tails: make([][]byte, 0, n), buf: []byte{}} // nil would leave the stored tail
}

func (c *headColumns) add(h *broker.Head) {
	c.deliveries, c.failures = append(c.deliveries, int32(h.Deliveries)), append(c.failures, int32(h.Failures))
	c.crashes, c.snoozes = append(c.crashes, int32(h.Crashes)), append(c.snoozes, int32(h.Snoozes))
	from := len(c.buf)
	c.buf = broker.AppendTail(c.buf, h)
	c.tails = append(c.tails, c.buf[from:len(c.buf):len(c.buf)])
}

// job returns the job that was read. It owns body and tail.
func (r *jobRow) job(queue string, state broker.State) broker.Job {
	j := broker.Job{Queue: queue, ID: r.id, State: state, CreatedAt: broker.FromMicros(r.createdAt)}
	j.Body, j.Broken = broker.ParseBody(r.body)
	head, err := r.head()
	if j.Head = head; j.Broken == nil {
		j.Broken = err
	}
	return j
}

// lean returns an array of strings, of bytes or of int64 in a form that pgx encodes
// without an allocation for each element; other arguments stay as they are.
func lean(arg any) any {
	switch a := arg.(type) {
	case []string:
		if a != nil {
			return leanArray[string]{a, func(s *string) any { return (*textElement)(s) }}
		}
	case [][]byte:
		if a != nil {
			return leanArray[[]byte]{a, func(b *[]byte) any { return (*bytesElement)(b) }}
		}
	case []int64:
		if a != nil {
			return leanArray[int64]{a, func(n *int64) any { return (*int64Element)(n) }}
		}
	}
	return arg
}

// leanArray gives pgx pointers to its elements, which need no allocation.
type leanArray[T any] struct {
	all     []T
	element func(*T) any
}

func (a leanArray[T]) Dimensions() []pgtype.ArrayDimension {
	return []pgtype.ArrayDimension{{Length: int32(len(a.all)), LowerBound: 1}}
}
func (a leanArray[T]) Index(i int) any { return a.element(&a.all[i]) }
func (a leanArray[T]) IndexType() any  { return a.element(new(T)) }

// TextValue is for connections that send arguments as text.
func (a leanArray[T]) TextValue() (pgtype.Text, error) {
	types := pgtype.NewMap()
	t, _ := types.TypeForValue(a.all)
	text, err := types.Encode(t.OID, pgtype.TextFormatCode, a.all, nil)
	return pgtype.Text{String: string(text), Valid: text != nil}, err
}

type (
	textElement  string
	bytesElement []byte
	int64Element int64
)

func (e *textElement) TextValue() (pgtype.Text, error) {
	return pgtype.Text{String: string(*e), Valid: true}, nil
}
func (e *bytesElement) BytesValue() ([]byte, error) { return *e, nil }
func (e *int64Element) Int64Value() (pgtype.Int8, error) {
	return pgtype.Int8{Int64: int64(*e), Valid: true}, nil
}
