package membroker

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/google/btree"
)

// timeline orders things by a time in microseconds, equal times by arrival.
type timeline[T any] struct{ tree *btree.BTreeG[entry[T]] }

type entry[T any] struct {
	at, seq int64
	what    T
}

func newTimeline[T any]() timeline[T] {
	return timeline[T]{btree.NewG(16, func(a, b entry[T]) bool {
		return a.at < b.at || a.at == b.at && a.seq < b.seq
	})}
}

const never int64 = math.MaxInt64

func (t timeline[T]) len() int                     { return t.tree.Len() }
func (t timeline[T]) add(at, seq int64, what T)    { t.tree.ReplaceOrInsert(entry[T]{at, seq, what}) }
func (t timeline[T]) remove(at, seq int64)         { t.tree.Delete(entry[T]{at: at, seq: seq}) }
func (t timeline[T]) first() (e entry[T], ok bool) { return t.tree.Min() }

// next is the earliest time, or never.
func (t timeline[T]) next() int64 {
	if e, ok := t.tree.Min(); ok {
		return e.at
	}
	return never
}

// page visits at most limit things in their order, from the time after on and
// before the time before, and returns the cursor to go on from, empty at the
// end. The cursor is the last place visited: others can come and go.
func (t timeline[T]) page(cursor string, after, before int64, limit int, visit func(T)) (string, error) {
	from := entry[T]{at: math.MinInt64}
	if cursor != "" {
		at, seq, _ := strings.Cut(cursor, ".")
		var badAt, badSeq error
		from.at, badAt = strconv.ParseInt(at, 10, 64)
		from.seq, badSeq = strconv.ParseInt(seq, 10, 64)
		if badAt != nil || badSeq != nil {
			return "", badCursor(cursor)
		}
		from.seq++
	}
	if after > from.at {
		from = entry[T]{at: after}
	}
	var last entry[T]
	more := false
	t.tree.AscendGreaterOrEqual(from, func(e entry[T]) bool {
		if e.at >= before {
			return false
		}
		if more = limit == 0; more {
			return false
		}
		limit--
		last = e
		visit(e.what)
		return true
	})
	if !more {
		return "", nil
	}
	return fmt.Sprintf("%d.%d", last.at, last.seq), nil
}
