package jobs

import (
	"bufio"
	"crypto/rand"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
)

// idSource makes job IDs: ULIDs of 26 characters, which sort in the order in which
// one source made them, and nearly by time across sources. Their random part comes
// from crypto/rand, so that processes started at the same instant differ.
type idSource struct {
	mu      sync.Mutex
	last    ulid.ULID // kept here, so that only the text of an ID is allocated
	entropy *ulid.MonotonicEntropy
}

func newIDSource() *idSource {
	return &idSource{entropy: ulid.Monotonic(bufio.NewReader(rand.Reader), 0)}
}

// next makes an ID. A clock that was set back does not break the order.
func (s *idSource) next(now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ms := max(s.last.Time(), ulid.Timestamp(now))
	for s.entropy.MonotonicRead(ms, s.last[6:]) != nil {
		ms++ // the 80 bits of this millisecond overflowed: use the next one
	}
	_ = s.last.SetTime(ms) // fails only from the year 10889 on
	return s.last.String()
}
