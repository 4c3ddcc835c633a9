package redisbroker

import "sync"

// arena collects the texts of one call's arguments, so that a batch costs a
// few allocations and not some for each job. A text is a piece of the buffer,
// and a pointer to one is an argument without being boxed.
type arena struct {
	buf    []byte
	ends   []int // of the pieces
	pieces []piece
	args   []any
}

// piece is an argument as the client library takes one.
type piece []byte

func (p *piece) MarshalBinary() ([]byte, error) { return *p, nil }

var arenas = sync.Pool{New: func() any { return new(arena) }}

// maxArena is the size of a buffer that is worth keeping.
const maxArena = 1 << 20

func newArena() *arena { return arenas.Get().(*arena) }

// free gives the arena up, with the arguments made of it: the calls that had
// them are over.
func (a *arena) free() {
	if cap(a.buf) > maxArena {
		return
	}
	clear(a.args)
	a.buf, a.ends, a.pieces, a.args = a.buf[:0], a.ends[:0], a.pieces[:0], a.args[:0]
	arenas.Put(a)
}

// add makes s a piece.
func (a *arena) add(s string) {
	a.buf = append(a.buf, s...)
	a.cut()
}

// cut ends a piece that was appended to buf.
func (a *arena) cut() { a.ends = append(a.ends, len(a.buf)) }

// appendItems adds the pieces to args, when all is in buf: how many arguments
// an item has, then those of n items. Each has two pieces, and a third if extra,
// which is in order, names it; if any has, it is empty for the others.
func (a *arena) appendItems(args []any, n int, extra []int) []any {
	from := 0
	for _, end := range a.ends {
		a.pieces = append(a.pieces, a.buf[from:end:end])
		from = end
	}
	pieces := a.pieces
	if len(extra) == 0 {
		args = append(args, 2)
		for i := range pieces {
			args = append(args, &pieces[i])
		}
	} else {
		args = append(args, 3)
		for i := range n {
			args = append(args, &pieces[0], &pieces[1])
			if pieces = pieces[2:]; len(extra) > 0 && extra[0] == i {
				args = append(args, &pieces[0])
				pieces, extra = pieces[1:], extra[1:]
			} else {
				args = append(args, "")
			}
		}
	}
	a.args = args
	return args
}
