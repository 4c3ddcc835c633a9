package pgbroker

import (
	"sync/atomic"
	"testing"

	"github.com/seed81422ce9/jobs/internal/testenv"
)

// cutter is a proxy in front of a server. When armed, it cuts a connection after a number of
// bytes of answers, with 0 before the first.
type cutter struct {
	url  string
	left atomic.Int64 // bytes until the cut; -1: not armed
	last atomic.Bool  // after the cut it accepts no connection
	shut atomic.Bool
}

func startCutter(t *testing.T, to string) *cutter {
	t.Helper()
	c := new(cutter)
	c.left.Store(-1)
	c.url = testenv.Proxy(t, to, func() func([]byte) (int, bool) {
		if c.shut.Load() {
			return nil
		}
		return c.answer
	})
	return c
}

// arm has the connection cut that carries the answer's n-th byte.
func (c *cutter) arm(n int64) { c.left.Store(n) }

// cut reports whether the cut has happened since.
func (c *cutter) cut() bool { return c.left.Load() == -1 }

func (c *cutter) answer(part []byte) (pass int, cut bool) {
	n := int64(len(part))
	if left := c.left.Load(); left >= 0 && left <= n && c.left.CompareAndSwap(left, -1) {
		c.shut.Store(c.last.Load())
		return int(left), true
	} else if left >= 0 {
		c.left.CompareAndSwap(left, left-n)
	}
	return len(part), false
}
