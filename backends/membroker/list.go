package membroker

import (
	"fmt"
	"iter"
	"math"

	"github.com/google/btree"

	"github.com/seed81422ce9/jobs/broker"
)

// list is an ordered set of jobs or lanes. Any of them can be removed, and cursors of pages stay valid
// while others are added and removed. It is a B-tree, since the standard library has no ordered set.
type list[T any] struct{ *btree.BTreeG[place[T]] }

// place is a position in a list: by at, then by seq.
type place[T any] struct {
	at, seq int64
	of      T
}

type (
	entry = place[*job]
	turn  = place[*lane]
)

// degree is the minimum number of children of a node of a tree. 8 to 32 are equally fast, and
// a small degree saves memory in short lists.
const degree = 16

// start is before all entries.
var start = entry{at: math.MinInt64, seq: math.MinInt64}

func newList[T any]() list[T] {
	return list[T]{btree.NewG(degree, func(p, q place[T]) bool { return p.before(q) })}
}

func (p place[T]) before(q place[T]) bool { return p.at < q.at || p.at == q.at && p.seq < q.seq }

// from iterates over the places from p on, the first one first.
func (l list[T]) from(p place[T]) iter.Seq[place[T]] {
	return func(yield func(place[T]) bool) { l.AscendGreaterOrEqual(p, yield) }
}

// between iterates over the places from p up to before q.
func (l list[T]) between(p, q place[T]) iter.Seq[place[T]] {
	return func(yield func(place[T]) bool) { l.AscendRange(p, q, yield) }
}

// down iterates over the places from q down to after p, the last one first.
func (l list[T]) down(q, p place[T]) iter.Seq[place[T]] {
	return func(yield func(place[T]) bool) { l.DescendRange(q, p, yield) }
}

// cursor returns a position as text, for a page that begins there. A job that stays in a list
// moves only towards the end (queue.move), so pages miss no job (§21).
func (p place[T]) cursor() string { return fmt.Sprintf("%d.%d", p.at, p.seq) }

func parseCursor(cursor string) (e entry, err error) {
	if _, _ = fmt.Sscanf(cursor, "%d.%d", &e.at, &e.seq); e.cursor() != cursor {
		return e, broker.Invalid("cursor", "%.64q belongs to no page of this query; start with an empty one", cursor)
	}
	return e, nil
}
