package pgbroker

import (
	"slices"
	"sync"

	"github.com/seed81422ce9/jobs/broker"
)

// rounds remember which queues have priorities that take turns
// (broker.Policy.PriorityRound), as claims were told, and count the turns. The
// count is this process's: with one in the store all claims would wait for each
// other.
type rounds struct {
	mu    sync.Mutex
	turns map[string]int64 // the next turn of each such queue
}

// take gives a claim the turns that it may need of each queue, up to limit. They
// are nil when none of the queues goes in rounds.
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

// note takes what a claim was told of a queue. It reports whether the queue goes
// in rounds and that was not known.
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

// cutRound takes the first shares without a queue that stands twice.
func cutRound(shares []broker.Share) (round, rest []broker.Share) {
	for i, s := range shares {
		if slices.ContainsFunc(shares[:i], func(o broker.Share) bool { return o.Queue == s.Queue }) {
			return shares[:i], shares[i:]
		}
	}
	return shares, nil
}
