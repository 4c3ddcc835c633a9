package dashboard

import (
	"net/http"
	"sync"
)

// sharedPages bounds what pages that refresh themselves cost. Between two
// looks at the store, those of one address share an answer, and refreshLimit
// others are answered; who is not keeps what it shows until the next look.
type sharedPages struct {
	mu      sync.Mutex
	seq     int64
	answers map[string]listing
	misses  int
}

const refreshLimit = 5

// errBusy has a page keep what it shows.
var errBusy = &pageError{http.StatusNoContent, "Kept as it is."}

// get answers with what ask returns, or what it returned to another page that
// refreshed itself since the look seq. What a person asks for is always asked.
func (s *sharedPages) get(address string, seq int64, refresh bool, ask func() (listing, error)) (listing, error) {
	if !refresh {
		return ask()
	}
	s.mu.Lock()
	defer s.mu.Unlock() // one at a time: who waits finds the answer of who asked
	if s.seq != seq {
		s.seq, s.answers, s.misses = seq, make(map[string]listing), 0
	}
	if found, ok := s.answers[address]; ok {
		return found, nil
	}
	if s.misses == refreshLimit {
		return listing{}, errBusy
	}
	s.misses++
	l, err := ask()
	if err == nil {
		s.answers[address] = l
	}
	return l, err
}
