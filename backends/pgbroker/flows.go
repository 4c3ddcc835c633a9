package pgbroker

import (
	"slices"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// How claims serve a queue, as the column flow says. Without any of these bits claim.sql
// serves it; with limits alone claim_limited.sql; with keys flow_take.sql, or
// flow_rounds.sql if its priorities take turns.
const (
	flowKeys    = 1 // jobs with a key have come
	flowLimits  = 2 // it has limits of its own
	flowRetries = 4 // it has a rate of retries
	flowRounds  = 8 // not in the column: its priorities go in rounds
)

// flows remembers which queues have keys or limits, as of the last claim, and the passes of
// their jobs without a key. Each process has passes of its own: with passes in the store
// all claims would wait for each other.
type flows struct {
	mu     sync.Mutex
	queues map[string]*flowing
}

type flowing struct {
	flow   int16
	passes [broker.Priorities]int64
	calls  *deltas   // of its keys
	swept  time.Time // when a claim looked at all calls
	idle   bool      // the last claim found nothing that it could take
	heard  news      // before that claim began
	waits  int       // so many claims wait for keys that others have locked
}

// turnPass is how much one job adds to the pass of a key of weight 1.
const turnPass = 1_000_000

// of returns how a queue is served, as far as this process knows.
func (f *flows) of(queue string) (flow int16, passes []int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if q := f.queues[queue]; q != nil {
		p := q.passes
		return q.flow, p[:]
	}
	return 0, nil
}

// found records whether a claim found nothing to take in a queue with keys. Where retries
// have a rate, only a claim that counts them finds all jobs.
func (f *flows) found(queue string, nothing bool, heard news) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if q := f.queues[queue]; q != nil {
		q.idle, q.heard = nothing && q.flow&(flowKeys|flowRetries) == flowKeys, heard
	}
}

// idle reports whether claims found nothing in any of these queues, of which nothing has
// been heard since.
func (f *flows) idle(shares []broker.Share, heard news) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !slices.ContainsFunc(shares, func(s broker.Share) bool {
		q := f.queues[s.Queue]
		return q == nil || !q.idle || q.heard != heard
	})
}

// contended records whether a claim got nothing, since others had locked the keys. The next
// claims then wait for those, as it is likely to happen again.
func (f *flows) contended(queue string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if q := f.queues[queue]; q != nil {
		q.waits = waitingClaims
	}
}

// waits reports whether a claim is to wait for keys that others have locked.
func (f *flows) waits(queue string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := f.queues[queue]
	if q == nil || q.waits == 0 {
		return false
	}
	q.waits--
	return true
}

// limited reports whether a queue has limits of its own.
func (f *flows) limited(queue string) bool {
	flow, _ := f.of(queue)
	return flow&(flowLimits|flowRetries) != 0
}

// calls begins a search for the calls of a queue's keys above their floor. Now and then it
// reads all of them, since a server restored from a backup gives out numbers again.
func (f *flows) calls(queue string) (*deltas, *deltaLook) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := f.queues[queue]
	if q == nil {
		return new(deltas), new(deltaLook)
	}
	look := q.calls.look()
	if now := time.Now(); now.Sub(q.swept) >= sweepPause {
		q.swept, look.floor = now, 0
	}
	return q.calls, look
}

// note records how a queue is served, as a claim learned. It reports whether the queue must
// be asked again, by other statements.
func (f *flows) note(queue string, flow int16) (begins bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := f.queues[queue]
	switch {
	case flow == 0:
		delete(f.queues, queue)
	case q == nil:
		if f.queues == nil {
			f.queues = make(map[string]*flowing)
		}
		f.queues[queue] = &flowing{flow: flow, calls: new(deltas)}
		return true
	default:
		begins = flow&^q.flow&(flowKeys|flowLimits) != 0 // these were not looked at
		q.flow = flow
	}
	return begins
}

// took adds turns of the jobs without a key, by priority. Lowest has the lowest pass of the
// keys at each priority, or -1 for a priority of which no job was leased.
func (f *flows) took(queue string, turns, lowest [broker.Priorities]int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := f.queues[queue]
	if q == nil {
		return
	}
	for i, n := range turns {
		pass, floor := &q.passes[i], lowest[i]
		if floor < 0 {
			continue
		}
		if *pass == 0 {
			*pass = floor + turnPass - 1 // as a new key
		}
		// Bounded even without a turn: what these jobs got while no key wanted a turn is not made up for.
		*pass = min(max(*pass, floor-1), floor+turnPass) + n*turnPass
	}
}

// any reports whether one of the queues has keys or limits.
func (f *flows) any(shares []broker.Share) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range shares {
		if f.queues[s.Queue] != nil {
			return true
		}
	}
	return false
}
