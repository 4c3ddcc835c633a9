package pgbroker

import "github.com/jackc/pgx/v5/pgtype"

// lean returns an array of strings, of bytes or of int64 in a form that pgx encodes
// without an allocation for each element; other arguments stay as they are.
func lean(arg any) any {
	switch a := arg.(type) {
	case []string:
		if a != nil {
			return &textArray{all: a}
		}
	case [][]byte:
		if a != nil {
			return &bytesArray{all: a}
		}
	case []int64:
		if a != nil {
			return &int64Array{all: a}
		}
	}
	return arg
}

// textArray returns each element in the same variable. This is safe because the driver encodes
// one element before it asks for the next.
type textArray struct {
	all []string
	at  textElement
}

type textElement struct{ s string }

func (e *textElement) TextValue() (pgtype.Text, error) {
	return pgtype.Text{String: e.s, Valid: true}, nil
}

func (a *textArray) Dimensions() []pgtype.ArrayDimension { return dimensions(len(a.all)) }

func (a *textArray) Index(i int) any {
	a.at.s = a.all[i]
	return &a.at
}

func (a *textArray) IndexType() any { return &a.at }

// TextValue is for connections that send arguments as text.
func (a *textArray) TextValue() (pgtype.Text, error) { return asText(pgtype.TextArrayOID, a.all) }

// bytesArray is textArray for bytes.
type bytesArray struct {
	all [][]byte
	at  bytesElement
}

type bytesElement struct{ b []byte }

func (e *bytesElement) BytesValue() ([]byte, error) { return e.b, nil }

func (a *bytesArray) Dimensions() []pgtype.ArrayDimension { return dimensions(len(a.all)) }

func (a *bytesArray) Index(i int) any {
	a.at.b = a.all[i]
	return &a.at
}

func (a *bytesArray) IndexType() any { return &a.at }

func (a *bytesArray) TextValue() (pgtype.Text, error) { return asText(pgtype.ByteaArrayOID, a.all) }

// int64Array is textArray for int64.
type int64Array struct {
	all []int64
	at  int64Element
}

type int64Element struct{ n int64 }

func (e *int64Element) Int64Value() (pgtype.Int8, error) {
	return pgtype.Int8{Int64: e.n, Valid: true}, nil
}

func (a *int64Array) Dimensions() []pgtype.ArrayDimension { return dimensions(len(a.all)) }

func (a *int64Array) Index(i int) any {
	a.at.n = a.all[i]
	return &a.at
}

func (a *int64Array) IndexType() any { return &a.at }

func (a *int64Array) TextValue() (pgtype.Text, error) { return asText(pgtype.Int8ArrayOID, a.all) }

func dimensions(n int) []pgtype.ArrayDimension {
	return []pgtype.ArrayDimension{{Length: int32(n), LowerBound: 1}}
}

// asText returns an array in PostgreSQL's text form.
func asText(oid uint32, array any) (pgtype.Text, error) {
	text, err := pgtype.NewMap().Encode(oid, pgtype.TextFormatCode, array, nil)
	return pgtype.Text{String: string(text), Valid: text != nil}, err
}
