package redisbroker

import "sync"

// arena collects the texts of one call's arguments, so that a batch needs few allocations in
// all, not some for each job. A text is a piece of the buffer. A pointer to a piece becomes an
// argument without an allocation.
type arena struct {
	buf     []byte
	ends    []int // where the pieces end
	pieces  []piece
	args    []any
	rows    []stretch // the jobs whose IDs were added
	scratch []byte
}

// piece is an argument as the client library takes one.
type piece []byte

func (p *piece) MarshalBinary() ([]byte, error) { return *p, nil }

var arenas = sync.Pool{New: func() any { return new(arena) }}

// maxArena is the largest size of a buffer that is kept for other calls: larger ones are rare.
const maxArena = 1 << 20

func newArena() *arena { return arenas.Get().(*arena) }

// free releases the arena and the arguments made from it. Call it when the calls that used them
// have ended.
func (a *arena) free() {
	if cap(a.buf) > maxArena {
		return
	}
	clear(a.args)
	a.buf, a.ends, a.pieces, a.args, a.rows = a.buf[:0], a.ends[:0], a.pieces[:0], a.args[:0], a.rows[:0]
	arenas.Put(a)
}

// add makes s a piece.
func (a *arena) add(s string) {
	a.buf = append(a.buf, s...)
	a.cut()
}

// addID makes the ID of the next job a piece.
func (a *arena) addID(id string) {
	a.add(id)
	slot, n := slotOf(id), len(a.rows)
	if n == 0 || a.rows[n-1].slot != slot {
		a.rows = append(a.rows, stretch{slot, 1})
		return
	}
	a.rows[n-1].jobs++
}

// cut ends a piece that was appended to buf.
func (a *arena) cut() { a.ends = append(a.ends, len(a.buf)) }

// seal makes the pieces when all texts are in buf, and returns them in order.
func (a *arena) seal() []piece {
	from := 0
	for _, end := range a.ends {
		a.pieces = append(a.pieces, a.buf[from:end:end])
		from = end
	}
	return a.pieces
}

// all adds every piece to args and returns them.
func (a *arena) all() []any {
	args := a.args
	for i := range a.pieces {
		args = append(args, &a.pieces[i])
	}
	a.args = args
	return args
}
