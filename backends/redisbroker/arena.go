package redisbroker

import "sync"

// arena collects the texts of one call's arguments, so that a batch needs few allocations in
// all, not some for each job. A text is a piece of the buffer. A pointer to a piece becomes an
// argument without an allocation.
type arena struct {
	texts
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

// seal makes the pieces when all texts are in buf, and returns them in order.
func (a *arena) seal() []piece {
	a.pieces = a.split(a.pieces)
	return a.pieces
}

// all adds every piece to args and returns them.
func (a *arena) all() []any {
	a.args = pointers(a.args, a.pieces)
	return a.args
}

// texts are texts in one buffer.
type texts struct {
	buf  []byte
	ends []int // where the texts end
}

// cut ends a text that was appended to buf.
func (t *texts) cut() { t.ends = append(t.ends, len(t.buf)) }

// split appends all texts to pieces, when all are in buf.
func (t *texts) split(pieces []piece) []piece {
	from := 0
	for _, end := range t.ends {
		pieces = append(pieces, t.buf[from:end:end])
		from = end
	}
	return pieces
}

// pointers appends pieces to the arguments of a command.
func pointers(args []any, pieces []piece) []any {
	for i := range pieces {
		args = append(args, &pieces[i])
	}
	return args
}
