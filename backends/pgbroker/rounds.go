package pgbroker

import (
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
	seen := make(map[string]bool, len(shares))
	for i, s := range shares {
		if seen[s.Queue] {
			return shares[:i], shares[i:]
		}
		seen[s.Queue] = true
	}
	return shares, nil
}

// unfinished returns those of the shares that are left that may still give jobs: a queue that gave less than its share has
// no more. A queue that gave all of its last share may have more jobs than the claim asks for.
func (c *claiming) unfinished(left []broker.Share) (some []broker.Share) {
	mayGive := make(map[string]bool, len(c.shares))
	if !c.flow && c.behind == 0 {
		for _, s := range c.shares {
			mayGive[s.Queue] = c.full[s.Queue]
		}
	}
	for _, s := range left {
		if may, asked := mayGive[s.Queue]; may || !asked {
			some = append(some, s)
			delete(c.full, s.Queue)
		}
	}
	c.more = c.more || len(c.full) > 0
	return some
}
