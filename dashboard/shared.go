package dashboard

import (
	"net/http"
	"sync"
)

// sharedPages limits the cost of refreshing pages. Between two looks at the store,
// pages with the same URL share an answer, and at most refreshLimit different ones are
// answered. The others keep what they show until the next look.
type sharedPages struct {
	mu      sync.Mutex
	seq     int64
	answers map[string]listing
	misses  int
}

const refreshLimit = 5

// errBusy makes a page keep what it shows.
var errBusy = &pageError{http.StatusNoContent, "Kept as it is."}

// get returns the answer of ask or, on a refresh, the answer that another page with the same URL got
// since the look seq. Requests by a person always call ask.
func (s *sharedPages) get(address string, seq int64, refresh bool, ask func() (listing, error)) (listing, error) {
	if !refresh {
		return ask()
	}
	s.mu.Lock()
	defer s.mu.Unlock() // one at a time: a waiting request finds the answer of the request before it
	if s.seq < seq {    // a request that waited here since an earlier look gets the newer answer
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
