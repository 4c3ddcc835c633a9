package pgbroker

import (
	"slices"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// How claims serve a queue: the bits of the column flow. A queue without these bits is served by
// claim.sql, a queue with only limits by claim_limited.sql, a queue with keys by flow_take.sql, or
// by flow_rounds.sql if it has a priority round.
const (
	flowKeys    = 1 // jobs with a key have come
	flowLimits  = 2 // it has limits of its own
	flowRetries = 4 // it has a rate of retries
	flowRounds  = 8 // it has a priority round (broker.Policy.PriorityRound); not stored in the column
)

// flows remembers which queues have keys, limits or priority rounds, as of the last claim, the turns of their
// rounds, and the passes of their jobs without a key. A pass grows with each job that starts; the key with the
// lowest pass is next. Each process counts turns and passes for itself, since claims would wait for each other to
// update them in the store.
type flows struct {
	mu     sync.Mutex
	queues map[string]*flowing
}

type flowing struct {
	flow   int16
	turn   int64 // the next one of its round
	passes [broker.Priorities]int64
	calls  *deltas   // the floor of its rows in table call
	swept  time.Time // when a claim last read all these rows
	idle   bool      // the last claim found no job that it could take
	heard  news      // the wake-ups before that claim began
	waits  int       // how many of the next claims wait for keys that others have locked
}

// turnPass is how much one job adds to the pass of a key of weight 1.
const turnPass = 1_000_000

// of returns how the keys and limits of a queue are served, as far as this process knows.
func (f *flows) of(queue string) (flow int16, passes []int64) {
	f.with(queue, func(q *flowing) { flow, passes = q.flow&^flowRounds, slices.Clone(q.passes[:]) })
	return flow, passes
}

// with calls do with what is known of a queue with keys, limits or a round, and does nothing for any other queue.
func (f *flows) with(queue string, do func(q *flowing)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if q := f.queues[queue]; q != nil {
		do(q)
	}
}

// found records whether a claim found no job to take in a queue with keys. A queue with a rate of
// retries is never idle, since a glance does not find the retries that may become pending.
func (f *flows) found(queue string, nothing bool, heard news) {
	f.with(queue, func(q *flowing) { q.idle, q.heard = nothing && q.flow&(flowKeys|flowRetries) == flowKeys, heard })
}

// idle reports whether the last claims found nothing in all these queues, and no wake-up came
// since.
func (f *flows) idle(shares []broker.Share, heard news) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !slices.ContainsFunc(shares, func(s broker.Share) bool {
		q := f.queues[s.Queue]
		return q == nil || !q.idle || q.heard != heard
	})
}

// contended records that a claim got nothing because others had locked the keys. The next claims
// wait for locked keys, since the same is likely to happen again.
func (f *flows) contended(queue string) {
	f.with(queue, func(q *flowing) { q.waits = waitingClaims })
}

// waits reports whether a claim must wait for keys that others have locked.
func (f *flows) waits(queue string) (must bool) {
	f.with(queue, func(q *flowing) {
		must = q.waits > 0
		q.waits = max(q.waits-1, 0)
	})
	return must
}

// limited reports whether a queue has limits of its own.
func (f *flows) limited(queue string) (limited bool) {
	f.with(queue, func(q *flowing) { limited = q.flow&(flowLimits|flowRetries) != 0 })
	return limited
}

// calls begins a search for a queue's rows in table call above their floor. Every sweepPause it
// reads all of them, since a server restored from a backup takes the same numbers again.
func (f *flows) calls(queue string) (floor *deltas, look *deltaLook) {
	floor, look = new(deltas), new(deltaLook)
	f.with(queue, func(q *flowing) {
		floor, look = q.calls, q.calls.look()
		if now := time.Now(); now.Sub(q.swept) >= sweepPause {
			q.swept, look.floor = now, 0
		}
	})
	return floor, look
}

// note records what a claim learned about how a queue is served. It reports whether the claim
// must ask the queue again, with other statements.
func (f *flows) note(queue string, flow int16, inRounds bool) (begins bool) {
	if inRounds {
		flow |= flowRounds
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	q := f.queues[queue]
	switch {
	case flow == 0:
		delete(f.queues, queue)
		return false
	case q == nil:
		q = &flowing{calls: new(deltas)}
		f.queues[queue] = q
	case flow&flowRounds == 0:
		q.turn = 0
	}
	begins = flow&^q.flow != 0 // the claim did not look at these
	q.flow = flow
	return begins
}

// turns reserves the turns that a claim may need in each queue, and returns the first turn of each.
// It returns nil if no queue has a priority round.
func (f *flows) turns(shares []broker.Share, limit int) (turns []int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, s := range shares {
		if q := f.queues[s.Queue]; q != nil && q.flow&flowRounds != 0 {
			if turns == nil {
				turns = make([]int64, len(shares))
			}
			turns[i] = q.turn
			q.turn += int64(min(s.Max, limit))
		}
	}
	return turns
}

// giveBack takes back turns that a claim did not use.
func (f *flows) giveBack(queue string, n int) {
	f.with(queue, func(q *flowing) {
		if q.flow&flowRounds != 0 {
			q.turn -= int64(n)
		}
	})
}

// took adds turns of the jobs without a key, by priority. lowest has the lowest pass of the keys
// at each priority, or -1 for a priority of which no job was leased.
func (f *flows) took(queue string, turns, lowest [broker.Priorities]int64) {
	f.with(queue, func(q *flowing) {
		for i, floor := range lowest {
			if floor < 0 {
				continue
			}
			pass := &q.passes[i]
			if *pass == 0 {
				*pass = floor + turnPass - 1 // like a new key
			}
			// Bound the pass even without a turn, so that jobs without a key need not pay for turns that no key wanted.
			*pass = min(max(*pass, floor-1), floor+turnPass) + turns[i]*turnPass
		}
	})
}

// any reports whether one of the queues has keys or limits.
func (f *flows) any(shares []broker.Share) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(shares, func(s broker.Share) bool {
		q := f.queues[s.Queue]
		return q != nil && q.flow&^flowRounds != 0
	})
}
