package pgbroker

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// callsLook is how many keys from table call, of each kind, a claim looks at, besides the keys
// whose turn it is. A claim of more jobs looks at as many as it wants jobs, since each key may
// have one. The claim also processes so many enqueues of a single key at once.
const callsLook = 100

// waitingClaims is how many claims wait for locked keys after a claim that got nothing because keys were locked.
const waitingClaims = 50

// spareTurns is how many more keys a claim locks than it needs. After a change of policy, some
// keys that have turns may have no job that may start. Then jobs of the next keys must go first,
// not jobs of a lower priority. With more such keys, jobs of a lower priority may go first until
// claims have removed the turns of these keys. Five, since each key costs a lock and a look at
// its jobs.
const spareTurns = 5

// flowTries is how often a claim looks again at a queue that gave fewer jobs than the claim
// asked for. Each look leaves fewer keys without a job that may start.
const flowTries = 5

// flowShare is what a claim learns about one queue with keys or limits.
type flowShare struct {
	room           int64  // how many jobs the queue's limits still allow
	retried        int    // how many jobs in retry became pending
	turns, calls   int    // how many keys were locked for their turn, and how many from table call were to be looked at
	passed         int    // how many of calls were skipped, because other claims had locked them
	counted        *int64 // when rates counted the jobs that it gave
	taken          int
	keyless, keyed bool // jobs without a key are pending; jobs with a key are
	plain          bool // the queue has no jobs with a key
	inRounds       bool // the queue has a priority round
	over           bool // some jobs were locked but not leased
	left           bool // more keys may have jobs to lease

	called *deltas // the floor of its calls, and a look at it
	look   *deltaLook

	// When the passing of time allows a start: of any job of the queue, of a retry, of a job of a key.
	roomAt, fullUntil, retryAt, keyAt *int64
}

// flowSteps returns the statements that serve one queue with keys or limits.
func (c *claiming) flowSteps(i int, from []int64) []step {
	share := &c.shares[i]
	flow, passes := c.b.flows.of(share.Queue)
	s := &c.flows[i]
	*s = flowShare{room: math.MaxInt64}
	s.called, s.look = c.b.flows.calls(share.Queue)
	turns := min(share.Max, c.limit) + spareTurns
	if c.state[share.Queue].looks > 0 {
		turns = broker.MaxClaim // the keys of the first look had no job to give
	}
	var steps []step
	if flow&flowRetries != 0 {
		steps = append(steps, c.b.step("flow_retry", one(&s.retried, &s.retryAt), c.now.micros, share.Queue, promoteLimit))
	}
	if flow&flowLimits != 0 {
		steps = append(steps, c.b.step("flow_room", one(&s.room, &s.fullUntil, &s.counted, nil), c.now.micros, share.Queue))
	}
	floors := from[i*lanes:][:lanes]
	args := []any{c.now.micros, share.Queue, floors, c.room, passes}
	read := func(r rows) error { return c.scanFlow(r, i) }
	take := c.b.step("flow_take", read, args...)
	if turns := c.b.flows.turns(c.shares[i:i+1], c.limit); turns != nil {
		flow |= flowRounds
		s.inRounds = true
		take = c.b.step("flow_rounds", read, append(args, turns[0])...)
	} else if flow&flowKeys == 0 {
		s.plain = true
		return append(steps,
			c.b.step("claim_limited", func(r rows) error {
				before := len(c.jobs)
				err := c.scan(r, &s.over)
				s.taken = len(c.jobs) - before
				return err
			}, c.worker, share.Queue, share.Max, c.limit, floors, c.room),
			c.b.step("limited_left", one(&s.roomAt, &s.keyless, nil), c.now.micros, share.Queue, floors, flow))
	}
	// Not with limits, which have a lock of their own. Not with several queues, whose keys claims could lock in different orders.
	if flow&flowLimits == 0 && len(c.shares) == 1 && c.b.flows.waits(share.Queue) {
		steps = append(steps, c.b.step("flow_wait", nil, share.Queue))
	}
	var maker *int64
	if len(c.shares) > 1 {
		maker = new(lockNumber("keys", c.b.config.Schema))
	}
	return append(steps,
		c.b.step("flow_lock", one(&s.turns, &s.calls, &s.passed, nil, nil), c.now.micros, c.worker, share.Queue, share.Max, c.limit,
			turns, max(callsLook, min(share.Max, c.limit)), s.look.floor, maker),
		take, c.flowLeft(i, flow, false))
}

// flowLeft returns the statement that reports what is left in a queue with keys.
func (c *claiming) flowLeft(i int, flow int16, alone bool) step {
	s := &c.flows[i]
	return c.b.step("flow_left", one(&s.left, &s.keyAt, &s.roomAt, &s.keyless, &s.keyed, &s.look.xmin, &s.look.xmax, &s.look.last,
		&s.look.first, nil), c.now.micros, c.shares[i].Queue, flow, s.look.floor, alone)
}

// flowGlance returns statements that only check whether queues that had no jobs to take now have
// some. Locking keys and taking jobs costs several times as much, even if all keys are at their
// limits.
func (c *claiming) flowGlance() (steps []step) {
	for i := range c.shares {
		flow, _ := c.b.flows.of(c.shares[i].Queue)
		s := &c.flows[i]
		s.called, s.look = c.b.flows.calls(c.shares[i].Queue)
		steps = append(steps, c.flowLeft(i, flow, true))
	}
	return steps
}

// glanced reads the answer of flowGlance. If there may be jobs, the queues are asked again.
func (c *claiming) glanced() {
	found := c.behind > 0
	for i := range c.flows {
		s, queue := &c.flows[i], c.shares[i].Queue
		if s.look.last > 0 {
			s.called.raise(s.look)
		}
		state := c.state[queue]
		switch due := s.keyAt != nil && *s.keyAt <= c.at; {
		case state.err != nil:
		case s.left || s.keyless || due:
			found = true
		case s.keyAt != nil:
			state.nextDue = earlier(state.nextDue, broker.FromMicros(*s.keyAt))
			c.state[queue] = state
		}
	}
	if found {
		c.behind, c.begins = 0, slices.Clone(c.shares)
		for _, s := range c.shares {
			c.b.flows.found(s.Queue, false, c.heard)
		}
	}
}

// scanFlow reads the rows of flow_take.sql or flow_rounds.sql.
func (c *claiming) scanFlow(r rows, i int) error {
	before := len(c.jobs)
	var lane int16
	var free bool
	var floor int64
	var placed []int16
	var lines []bool
	var floors []int64
	err := c.scanEach(r, func() { placed, lines, floors = append(placed, lane), append(lines, free), append(floors, floor) }, &lane,
		&free, &floor, &c.flows[i].over, &c.flows[i].counted)
	keyless, lowest := [broker.Priorities]int64{}, [broker.Priorities]int64{-1, -1, -1, -1}
	for n, free := range lines {
		at := placed[n]/2 - 1
		if lowest[at] = floors[n]; free {
			keyless[at]++
		}
	}
	c.b.flows.took(c.shares[i].Queue, keyless, lowest)
	c.flows[i].taken = len(c.jobs) - before
	return err
}

// flowed is called when a round trip to queues with keys or limits has ended. It decides whether
// and when the claim asks again. It asks at once if keys with jobs may have been behind keys that
// had no job to start.
func (c *claiming) flowed() {
	left := c.limit
	for i := range c.flows {
		s, queue, most := &c.flows[i], c.shares[i].Queue, c.shares[i].Max
		state := c.state[queue]
		allowed := min(most, left)
		if s.taken > 0 && s.counted != nil {
			c.counted = max(c.counted, *s.counted)
		}
		if left -= s.taken; s.look.last > 0 {
			s.called.raise(s.look)
		}
		c.b.flows.giveBack(queue, min(most, c.limit)-s.taken)
		if c.behind > 0 && i >= c.behind-1 { // the claim asks this queue again
			continue
		}
		full := s.room <= int64(s.taken)
		c.b.flows.found(queue, s.taken == 0 && !s.left && !s.keyless && !s.plain, c.heard)
		if full { // if fullUntil has passed meanwhile, ask again at once
			s.keyAt, s.roomAt = nil, cmp.Or(s.roomAt, s.fullUntil)
		}
		if !s.keyless && !s.keyed {
			s.roomAt = nil
		}
		// The rate, or another limit, allowed as many as it took. If the rate allows more, it does so since flow_room.sql
		// looked, and nothing else would say that it is time to ask again.
		allows := full && s.taken > 0 && s.counted != nil && s.roomAt == nil && (s.keyless || s.keyed) && c.now.micros == nil
		c.more = c.more || allows && state.err == nil
		for _, at := range []*int64{s.roomAt, s.retryAt, s.keyAt} {
			if at != nil && *at > c.at {
				state.nextDue = earlier(state.nextDue, broker.FromMicros(*at))
			}
		}
		state.looks++
		c.state[queue] = state
		if s.over || s.taken > 0 && (s.roomAt != nil || s.keyAt != nil) {
			c.b.wakeOthers(queue) // waiting claims may not know the time at which there is room
		}
		c.more = c.more || s.retried >= promoteLimit
		switch {
		case state.err != nil || full || !s.left && !s.keyless: // ask again only when there is room
		case s.plain: // if it gave no job although it had some, other claims have locked them
			c.more = c.more || s.taken > 0 || allowed <= 0 || c.size >= c.room
		case s.taken == allowed || c.size >= c.room:
			c.more = true
		case !s.left:
			c.more = c.more || s.inRounds && s.taken > 0 // jobs of a key that reached its limit may have had the turns of others
		default: // the shares after it gave nothing
			others := s.taken == 0 && s.turns == 0 && s.calls == s.passed
			switch {
			case !others && state.looks < flowTries:
				c.begins = append(c.begins, broker.Share{Queue: queue, Max: most - s.taken})
			case s.taken > 0:
				c.more = true
			default:
				c.passed = true
				c.b.flows.contended(queue)
			}
			for _, later := range c.shares[i+1:] {
				c.begins = append(c.begins, later)
				c.b.flows.giveBack(later.Queue, min(later.Max, c.limit))
			}
			return
		}
	}
}

// passedPause is how long a waiting claim first pauses if another claim has locked a key. The
// pause doubles each time, up to 32 times passedPause.
const passedPause = 2 * time.Millisecond

// cut returns the first shares of a round that need the same kind of statements, and the rest.
func (f *flows) cut(round, rest []broker.Share) (run, left []broker.Share, flow bool) {
	for i := range round {
		apart := f.any(round[i : i+1])
		if i == 0 {
			flow = apart
		} else if flow != apart {
			return round[:i], append(round[i:len(round):len(round)], rest...), flow
		}
	}
	return round, rest, flow
}

// askBehind makes the claim ask again for a queue that turned out to have keys or limits, and for
// the shares after it.
func (c *claiming) askBehind() {
	for i := c.behind - 1; i < len(c.shares); i++ {
		s := c.shares[i]
		if s.Max -= c.taken[i]; s.Max > 0 {
			c.begins = append(c.begins, s)
		}
	}
}
