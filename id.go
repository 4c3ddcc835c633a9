package jobs

import (
	"bufio"
	"crypto/rand"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
)

// idSource makes job IDs: ULIDs, 26 characters, which sort in the order in
// which one source made them and nearly by time across sources. They are drawn
// from crypto/rand, so that two processes started at the same instant differ.
type idSource struct {
	mu      sync.Mutex
	last    uint64 // milliseconds of the newest ID
	entropy *ulid.MonotonicEntropy
}

func newIDSource() *idSource {
	return &idSource{entropy: ulid.Monotonic(bufio.NewReader(rand.Reader), 0)}
}

// next makes an ID. A clock that was set back does not break the order.
func (s *idSource) next() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = max(s.last, ulid.Timestamp(time.Now()))
	id, err := ulid.New(s.last, s.entropy)
	if err != nil { // the increments of one millisecond ran over 80 bits: the next one starts anew
		s.last++
		id = ulid.MustNew(s.last, s.entropy)
	}
	return id.String()
}
