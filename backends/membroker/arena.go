package membroker

import "strings"

// arena copies byte strings into chunks that they share, since a batch of small
// allocations costs more than all the rest of a call. A chunk lives as long as
// one copy in it does, so those that stay in the store are small.
type arena struct {
	free  []byte
	left  int // bytes that are still to be copied
	chunk int // size of a chunk
}

const storeChunk = 4 << 10

func (a *arena) copy(p []byte) []byte {
	if len(p) == 0 {
		return nil
	}
	c := a.take(len(p))
	copy(c, p)
	return c
}

// take gives out n bytes, to be written to.
func (a *arena) take(n int) []byte {
	if n > len(a.free) {
		a.free = make([]byte, max(n, min(a.left, a.chunk)))
	}
	c := a.free[:n:n]
	a.free, a.left = a.free[n:], a.left-n
	return c
}

// names is an arena for IDs. They are handed out as they are, and who keeps one
// keeps its chunk.
type names struct {
	chunk strings.Builder
	left  int
}

const namesChunk = 512

func (a *names) copy(s string) string {
	if len(s) > a.chunk.Cap()-a.chunk.Len() {
		a.chunk = strings.Builder{}
		a.chunk.Grow(max(len(s), min(a.left, namesChunk)))
	}
	at := a.chunk.Len()
	a.chunk.WriteString(s)
	a.left -= len(s)
	return a.chunk.String()[at:]
}
