package broker

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"
)

// The stored forms are sequences of fields: a tag, uvarint(number<<1 | wire),
// then a varint (wire 0) or a length and bytes (wire 1). A reader skips
// numbers it does not know, so fields can be added without a new version. The
// version byte in front changes only if an old reader must not read the form.

type writer struct{ b []byte }

func (w *writer) int(field int, v int64) {
	if v != 0 {
		w.b = binary.AppendUvarint(w.b, uint64(field)<<1)
		w.b = binary.AppendVarint(w.b, v)
	}
}

func (w *writer) str(field int, s string) {
	if s != "" {
		w.b = binary.AppendUvarint(w.b, uint64(field)<<1|1)
		w.b = binary.AppendUvarint(w.b, uint64(len(s)))
		w.b = append(w.b, s...)
	}
}

func (w *writer) bytes(field int, p []byte) {
	if len(p) > 0 {
		w.b = binary.AppendUvarint(w.b, uint64(field)<<1|1)
		w.b = binary.AppendUvarint(w.b, uint64(len(p)))
		w.b = append(w.b, p...)
	}
}

// enclose turns the bytes that were written after position from into the content of a
// field: it inserts the tag and the length before them.
func (w *writer) enclose(field int, from int) {
	var head [2 * binary.MaxVarintLen64]byte
	n := binary.PutUvarint(head[:], uint64(field)<<1|1)
	n += binary.PutUvarint(head[n:], uint64(len(w.b)-from))
	w.b = slices.Insert(w.b, from, head[:n]...)
}

func (w *writer) time(field int, t time.Time) {
	if !t.IsZero() {
		w.int(field, Micros(t))
	}
}

func (w *writer) duration(field int, d time.Duration) { w.int(field, DurationMicros(d)) }

// fields calls f for each field of b. For wire 0, v is set; for wire 1, p is set,
// and aliases b.
func fields(b []byte, f func(field int, v int64, p []byte) error) error {
	return rawFields(b, func(field int, v int64, p, _ []byte) error { return f(field, v, p) })
}

// rawFields is fields for callers that also need each field as it is stored.
func rawFields(b []byte, f func(field int, v int64, p, raw []byte) error) error {
	for len(b) > 0 {
		start := b
		tag, n := binary.Uvarint(b)
		if n <= 0 {
			return malformed("tag")
		}
		b = b[n:]
		var v int64
		var p []byte
		if tag&1 == 0 {
			if v, n = binary.Varint(b); n <= 0 {
				return malformed("number")
			}
			b = b[n:]
		} else {
			size, n := binary.Uvarint(b)
			if n <= 0 || size > uint64(len(b)-n) {
				return malformed("length")
			}
			p, b = b[n:n+int(size):n+int(size)], b[n+int(size):]
		}
		if err := f(int(tag>>1), v, p, start[:len(start)-len(b)]); err != nil {
			return err
		}
	}
	return nil
}

func malformed(what string) error { return fmt.Errorf("%w: bad %s", ErrMalformed, what) }

// Micros returns t in microseconds since 1970, rounded up; zero for the zero time.
func Micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	us := t.UnixMicro()
	if t.Nanosecond()%1000 != 0 {
		us++
	}
	return us
}

// The first and the last microsecond of the years that JSON can write.
const (
	firstMicros = -62135596800000000 // the zero time
	lastMicros  = 253402300799999999
)

// FromMicros returns the inverse of Micros, in UTC. Numbers that only a damaged record
// has are times from the year 1 to 9999, too: JSON can write no other.
func FromMicros(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(min(max(us, firstMicros), lastMicros)).UTC()
}

// DurationMicros returns d in whole microseconds, rounded up.
func DurationMicros(d time.Duration) int64 {
	us := int64(d / time.Microsecond)
	if d%time.Microsecond > 0 {
		us++
	}
	return us
}
