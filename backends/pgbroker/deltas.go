package pgbroker

import (
	"context"
	"sync"
)

// deltas remembers up to which number all deltas of counts are folded into the totals, so
// that the next search begins there: while the database has an old snapshot, folded rows
// stay in the table. The rows of table call have a floor of the same kind for each queue.
//
// The floor is exact. A transaction gets its ID before it takes a number, since it writes
// or locks jobs first. Let N be the last number taken. Transactions that took numbers up to
// N have lower IDs than the first one that begins afterwards. Once a snapshot says that all
// transactions below that ID have ended, it shows all rows up to N that are left.
type deltas struct {
	mu       sync.Mutex
	floor    int64
	drawn    int64 // the last number taken, as of the last look
	next     int64 // becomes the floor once nextXact allows it, unless a lower delta is not folded yet
	nextXact int64 // all transactions below this ID must have ended first; 0 if there is no next
}

// deltaLook is a search for deltas that is under way.
type deltaLook struct {
	floor, drawn int64 // those of deltas before the search

	// The answer.
	many             bool // at least foldFrom deltas wait to be folded
	xmin, xmax, last int64
	first            *int64 // the first number above the floor
}

// foldFrom is from how many deltas on they are folded, since each search adds them all up.
const foldFrom = 5000

// step returns the statement of the search.
func (l *deltaLook) step(b *Broker) step {
	return b.step("count_look", one(&l.many, &l.xmin, &l.xmax, &l.last, &l.first), foldFrom, l.floor)
}

// foldBatch is how many deltas one statement folds.
const foldBatch = 10_000

// fold folds all deltas into the totals.
func (b *Broker) fold(ctx context.Context) error {
	for {
		if n, err := b.foldSome(ctx); n < foldBatch || err != nil {
			return err
		}
	}
}

func (b *Broker) foldSome(ctx context.Context) (n int, err error) {
	look := b.deltas.look()
	if err := b.run(ctx, b.byIndex(false), look.step(b), b.step("count_fold", one(&n), foldBatch, look.floor)); err != nil {
		return 0, err
	}
	b.deltas.raise(look)
	return n, nil
}

func (d *deltas) look() *deltaLook {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &deltaLook{floor: d.floor, drawn: d.drawn}
}

// raise raises the floor by what a search found.
func (d *deltas) raise(l *deltaLook) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l.last < l.drawn { // numbers went back: another server, or this one restored from a backup
		d.floor, d.drawn, d.next, d.nextXact = 0, 0, 0, 0
		return
	}
	if d.nextXact > 0 && l.xmin >= d.nextXact && l.floor == d.floor {
		d.floor, d.nextXact = max(d.floor, below(d.next, l.first)), 0
	}
	if d.nextXact == 0 && l.drawn > d.floor {
		d.next, d.nextXact = l.drawn, l.xmax
	}
	d.drawn = max(d.drawn, l.last)
}
