package pgbroker

import "sync"

// deltas remember up to which number all deltas of counts are folded, so that
// the depth of a queue is added up from there: while any snapshot in the
// database is old, those that were folded since stay in the table.
//
// The floor is exact. A transaction has its ID before it draws a number, since
// it writes jobs first. So those that drew up to N have lower IDs than the first
// one that had not begun when N was known already; once a snapshot says that all
// below that have ended, it shows whatever is left up to N.
type deltas struct {
	mu    sync.Mutex
	floor int64
	drawn int64 // the last number, as of the last look
	next  int64 // becomes the floor, or as much of it as is folded …
	ripe  int64 // … when all transactions below this have ended; 0: there is no next
}

// deltaLook is a look at the deltas on its way.
type deltaLook struct {
	floor, drawn int64 // as known before it began

	// The answer.
	xmin, xmax, last int64
	first            *int64 // over the floor
}

func (d *deltas) look() *deltaLook {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &deltaLook{floor: d.floor, drawn: d.drawn}
}

// raise raises the floor by a look that was answered.
func (d *deltas) raise(l *deltaLook) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l.last < l.drawn { // another server, or this one with its past restored
		d.floor, d.drawn, d.next, d.ripe = 0, 0, 0, 0
		return
	}
	if d.ripe > 0 && l.xmin >= d.ripe && l.floor == d.floor {
		d.floor, d.ripe = max(d.floor, below(d.next, l.first)), 0
	}
	if d.ripe == 0 && l.drawn > d.floor {
		d.next, d.ripe = l.drawn, l.xmax
	}
	d.drawn = max(d.drawn, l.last)
}
