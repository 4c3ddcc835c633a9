package pgbroker

import (
	"slices"
	"sync"

	"github.com/seed81422ce9/jobs/broker"
)

// rounds remembers which queues have priorities that take turns
// (broker.Policy.PriorityRound), as of the last claim, and counts the turns. Each process
// has a count of its own: with one in the store all claims would wait for each other.
type rounds struct {
	mu    sync.Mutex
	turns map[string]int64 // the next turn of each such queue
}

// take returns the turns that a claim may need of each queue, up to limit, or nil if none of
// the queues goes in rounds.
func (r *rounds) take(queues []string, limits []int32, limit int) (turns []int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, name := range queues {
		if turn, ok := r.turns[name]; ok {
			if turns == nil {
				turns = make([]int64, len(queues))
			}
			turns[i] = turn
			r.turns[name] += int64(min(int(limits[i]), limit))
		}
	}
	return turns
}

// giveBack takes back turns that a claim did not use.
func (r *rounds) giveBack(queue string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.turns[queue]; ok {
		r.turns[queue] -= int64(n)
	}
}

// note records whether a queue goes in rounds. It reports whether that is news.
func (r *rounds) note(queue string, inRounds bool) (begins bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, known := r.turns[queue]
	switch {
	case inRounds && !known:
		if r.turns == nil {
			r.turns = make(map[string]int64)
		}
		r.turns[queue] = 0
	case !inRounds && known:
		delete(r.turns, queue)
	}
	return inRounds && !known
}

// giveBack gives back the turns that were not used.
func (c *claiming) giveBack(limits []int32) {
	if c.turns == nil {
		return
	}
	taken := make(map[string]int)
	for i := range c.jobs {
		taken[c.jobs[i].Queue]++
	}
	for i, s := range c.shares {
		c.b.rounds.giveBack(s.Queue, min(int(limits[i]), c.limit)-taken[s.Queue])
	}
}

// cutRound returns the first shares, as long as no queue comes twice, and the rest.
func cutRound(shares []broker.Share) (round, rest []broker.Share) {
	for i, s := range shares {
		if slices.ContainsFunc(shares[:i], func(o broker.Share) bool { return o.Queue == s.Queue }) {
			return shares[:i], shares[i:]
		}
	}
	return shares, nil
}
