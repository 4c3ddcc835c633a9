package broker

import (
	"cmp"
	"time"
)

// KeysRequest asks for the keys of a queue.
type KeysRequest struct {
	Now    time.Time
	Queue  string
	Names  []string // only these, at most 1000, also those without jobs and policy; none means all
	Cursor string   // of the page before; empty starts
	Limit  int      // keys of a page; 0 means 100, at most 1000
}

// Check refuses a request outside the limits and sets the default Limit.
func (r *KeysRequest) Check(l Limits) error {
	err := CheckQueue(r.Queue)
	switch {
	case err != nil:
	case l.NoFlow:
		err = ErrUnsupported
	case r.Limit < 0 || r.Limit > 1000:
		err = Invalid("limit", "is %d; use 1 to 1000", r.Limit)
	case len(r.Names) > 1000:
		err = Invalid("names", "has %d, the limit is 1000; ask in parts", len(r.Names))
	}
	for _, name := range r.Names {
		err = cmp.Or(err, CheckName("key", name))
	}
	if r.Limit == 0 {
		r.Limit = 100
	}
	return About(err, "keys", r.Queue, "")
}

// KeysReply describes keys in the order of the request's Names, or else of their bytes.
// A queue that does not exist has none.
type KeysReply struct {
	Now    time.Time
	Keys   []KeyInfo
	Cursor string // of the next page; empty at the end
}

// KeyInfo describes a key of a queue. A backend may stop counting at MaxKeyCount.
type KeyInfo struct {
	Key     string
	Pending int64 // jobs
	Active  int64
	Depth   int64     // pending, scheduled, waiting and in retry
	Oldest  time.Time // creation of the next pending job; zero when none is pending
	Policy  Policy    // the key's own
	Block   Block     // why no job of the key may start now
	Until   time.Time // with BlockRate: when the next may
	Head    string    // of an ordered queue: the ID of the job that the others of the key wait for
}

// Block says why no job of a key may start.
type Block uint8

// The reasons. Of several, the first that applies is given. Reasons that concern the whole
// queue, such as its pause, are not among them.
const (
	BlockNone   Block = iota
	BlockPaused       // the key is paused
	BlockOrder        // its head is not pending
	BlockActive       // the limit of active jobs is reached
	BlockRate         // the rate is used up
)

var blockNames = [...]string{"", "paused", "order", "active", "rate"}

func (b Block) String() string {
	if int(b) < len(blockNames) {
		return blockNames[b]
	}
	return "invalid"
}

// MarshalText writes the reason's name.
func (b Block) MarshalText() ([]byte, error) { return []byte(b.String()), nil }
