package pgbroker

import (
	"maps"
	"sync"
	"time"
)

// heldCounts remembers how many leases workers held when Queues last counted them. A count
// reads an index entry for each job that a worker leased since the oldest snapshot in the
// database. If a count took long, Queues returns the same counts until a pause is over.
type heldCounts struct {
	mu    sync.Mutex
	held  map[int64]int // by the number of the worker
	until time.Time
	dear  dearness
}

// known returns the counts that are still used, or nil.
func (h *heldCounts) known(now time.Time) map[int64]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now.Before(h.until) {
		return maps.Clone(h.held)
	}
	return nil
}

// counted records the counts of a look that began at now and took this many µs.
func (h *heldCounts) counted(held map[int64]int, now time.Time, took int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	pause := h.dear.pause(took)
	switch {
	case pause == 0:
	case now.Before(h.until): // counts of new workers
		maps.Copy(h.held, held)
	default:
		h.held, h.until = held, now.Add(pause)
	}
}
