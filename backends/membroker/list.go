package membroker

import (
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/google/btree"

	"github.com/seed81422ce9/jobs/broker"
)

// list is an ordered set of jobs. Any job can be removed, and cursors of pages stay valid while
// jobs are added and removed. It is a B-tree, since the standard library has no ordered set.
type list struct{ *btree.BTreeG[entry] }

// entry is a job's position in a list: by at, then by seq.
type entry struct {
	at, seq int64
	job     *job
}

// degree is the minimum number of children of a node of a tree. 8 to 32 are equally fast, and
// a small degree saves memory in short lists.
const degree = 16

func before(a, b entry) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }

func newList() list { return list{btree.NewG(degree, before)} }

// start is before all entries.
var start = entry{at: math.MinInt64, seq: math.MinInt64}

// from iterates over the entries from e on, the first one first.
func (l list) from(e entry) iter.Seq[entry] {
	return func(yield func(entry) bool) { l.AscendGreaterOrEqual(e, yield) }
}

// down iterates over the entries from e backwards, the last one first.
func (l list) down(e entry) iter.Seq[entry] {
	return func(yield func(entry) bool) { l.DescendLessOrEqual(e, yield) }
}

// cursor returns a position as text, for a page that begins there. A job that stays in a list
// moves only towards the end (queue.move), so pages miss no job (§21).
func (e entry) cursor() string { return fmt.Sprintf("%d.%d", e.at, e.seq) }

func parseCursor(cursor string) (e entry, err error) {
	if _, _ = fmt.Sscanf(cursor, "%d.%d", &e.at, &e.seq); e.cursor() != cursor {
		return e, broker.Invalid("cursor", "%.64q belongs to no page of this query; start with an empty one", cursor)
	}
	return e, nil
}

// Times are stored in whole microseconds, rounded up, so that nothing happens early (§15).

func up(t time.Time) time.Time { return broker.FromMicros(broker.Micros(t)) }

func upTo(d time.Duration) time.Duration {
	return time.Duration(broker.DurationMicros(d)) * time.Microsecond
}

// later returns the stored time that is d after t.
func later(t time.Time, d time.Duration) time.Time { return up(t).Add(upTo(d)) }

// reached reports whether a stored time has come. What is valid until that time has lapsed.
func reached(now, at time.Time) bool { return !now.Before(at) }

// earlier returns the earlier of two times; zero stands for none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
