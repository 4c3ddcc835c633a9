package pgbroker

import (
	"math"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/duewatch"
)

// dueTimes remembers when the next job of each queue is due, as of the last claim, so that
// only claims that will probably find due jobs use lease_due.sql.
type dueTimes struct {
	mu   sync.Mutex
	next map[string]time.Time // by the store's clock, or the request's
}

// dueLook is how many due jobs of each state lease_due.sql reads, to see whether all have
// the same priority, and how many it leases at most in one claim.
const dueLook = 500

// clocksApart is how far this process's clock may be behind the store's. If it is further
// behind, due jobs are only more expensive to claim.
const clocksApart = time.Second

// expected reports whether jobs of a queue are probably due.
func (r *dueTimes) expected(queue string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	next, known := r.next[queue]
	if now.IsZero() {
		now = time.Now().Add(clocksApart)
	}
	return known && !next.After(now)
}

// within reports whether jobs of a queue are due, or will be within d.
func (r *dueTimes) within(queue string, d time.Duration) bool {
	return r.expected(queue, time.Now().Add(d))
}

// note records what a claim learned: the next due time, and whether it left due jobs.
func (r *dueTimes) note(queue string, next time.Time, left bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case left:
		r.next[queue] = time.Time{}
	case next.IsZero():
		delete(r.next, queue)
	default:
		r.next[queue] = next
	}
}

// leaseDue returns the statement that leases due jobs without making them pending.
func (c *claiming) leaseDue(floors []int64, due dueFloors) step {
	return c.b.step("lease_due", func(r rows) error {
		if err := c.scan(r, &c.more); err != nil {
			return err
		}
		for i := range c.places { // they are sorted, and go before the jobs that a later statement leases
			c.places[i].seq = math.MinInt64 + int64(i)
		}
		return nil
	}, c.now.micros, c.worker, []string{c.shares[0].Queue}, []int32{int32(min(c.limit, dueLook))}, floors, dueLook, c.room, due.at, due.seq)
}

// noteDue remembers when the next claim will probably find due jobs.
func (c *claiming) noteDue(leased bool) {
	left := c.due >= promoteLimit || leased && (c.more || len(c.jobs) >= c.limit)
	for _, s := range c.shares {
		c.b.due.note(s.Queue, c.state[s.Queue].nextDue, left)
	}
}

// noteLooks remembers what a claim learned about the due times of its queues. In a queue with
// limits, the time at which the limits allow a start may change, so every process looks for
// itself.
func (b *Broker) noteLooks(req *broker.ClaimRequest, got *broker.Claimed, state map[string]queueState) {
	if !req.Now.IsZero() {
		return
	}
	gave := make(map[string]bool)
	for i := range got.Jobs {
		gave[got.Jobs[i].Queue] = true
	}
	looks := make([]duewatch.Look, 0, len(state))
	for queue, q := range state {
		if q.err == nil {
			looks = append(looks, duewatch.Look{Queue: queue, Due: q.nextDue, Claimed: -1, Keep: gave[queue] || b.flows.limited(queue)})
		}
	}
	b.dues.Looked(req.Worker, got.Now, looks)
	for queue := range gave {
		if _, looked := state[queue]; !looked { // the claim asked only for pending jobs
			b.dues.Called(queue)
		}
	}
}

// look returns the statement that makes due jobs pending and describes the claim's queues.
func (c *claiming) look(queues []string, promote int, from dueFloors) step {
	c.shareOf = make(map[int32]int, len(queues))
	i := 0
	return c.b.step("claim_due", each(func(r rows) error {
		var id zeronull.Int4
		var layout *int
		var alive bool
		var due, round zeronull.Int8
		var flow *int16
		if err := r.Scan(&id, &c.at, &layout, &alive, &c.due, &due, &round, &flow); err != nil {
			return err
		}
		q := queueState{nextDue: broker.FromMicros(int64(due)), looks: c.state[queues[i]].looks}
		switch {
		case layout != nil && *layout > knownLayout:
			q.err = checkLayout(*layout)
		case layout == nil || !alive:
			q.err = broker.ErrWorkerGone
		}
		c.shareOf[int32(id)] = i // no queue has the number 0
		switch {
		case flow == nil || !c.b.flows.note(queues[i], *flow, round > 0) || c.behind > 0 || i >= len(c.shares):
		case *flow > 0:
			c.behind = i + 1
		default:
			c.begins = append(c.begins, c.shares[i])
		}
		c.state[queues[i]] = q
		i++
		return nil
	}), c.now.micros, c.worker, queues, promote, 2*promote, from.at, from.seq)
}

// numbers returns the statement that reads the numbers of queues.
func (c *claiming) numbers(queues []string) step {
	c.shareOf = make(map[int32]int, len(queues))
	i := 0
	return c.b.step("queue_numbers", each(func(r rows) error {
		var id zeronull.Int4
		err := r.Scan(&id)
		c.shareOf[int32(id)] = i
		i++
		return err
	}), queues)
}
