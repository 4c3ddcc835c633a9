package pgbroker

import (
	"sync"

	"github.com/seed81422ce9/jobs/broker"
)

// rounds remembers which queues have a priority round (broker.Policy.PriorityRound), as of the
// last claim, and counts its turns. Each process has its own count, since claims would wait for
// each other to update a count in the store.
type rounds struct {
	mu    sync.Mutex
	turns map[string]int64 // the next turn of each such queue
}

// take reserves the turns that a claim may need in each queue, and returns the first turn of each.
// It returns nil if no queue has a priority round.
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

// note records whether a queue has a priority round. It reports whether that is new.
func (r *rounds) note(queue string, inRounds bool) (begins bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, known := r.turns[queue]
	switch {
	case inRounds && !known:
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
	for i, s := range c.shares {
		c.b.rounds.giveBack(s.Queue, min(int(limits[i]), c.limit)-c.taken[i])
	}
}

// unfinished returns the remaining shares whose queues may still give jobs. A queue that gave less than its share has
// no more jobs. If a queue gave all of its last share, it may have more jobs than the claim asks for.
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
