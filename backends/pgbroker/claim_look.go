package pgbroker

import "github.com/seed81422ce9/jobs/broker"

// look returns the statement that makes due jobs pending and describes the claim's queues.
func (c *claiming) look(queues []string, promote int, from dueFloors) step {
	c.shareOf = make(map[int32]int, len(queues))
	i := 0
	return c.b.step("claim_due", each(func(r rows) error {
		var id *int32
		var layout *int
		var alive bool
		var due, round *int64
		var flow *int16
		if err := r.Scan(&id, &c.at, &layout, &alive, &c.due, &due, &round, &flow); err != nil {
			return err
		}
		q := queueState{looks: c.state[queues[i]].looks}
		switch {
		case layout != nil && *layout > knownLayout:
			q.err = checkLayout(*layout)
		case layout == nil || !alive:
			q.err = broker.ErrWorkerGone
		}
		if id != nil {
			c.shareOf[*id] = i
		}
		begins := c.b.rounds.note(queues[i], round != nil && *round > 0)
		if flow != nil && c.b.flows.note(queues[i], *flow) {
			begins = true
		}
		switch {
		case !begins || c.behind > 0 || i >= len(c.shares):
		case *flow > 0:
			c.behind = i + 1
		default:
			c.begins = append(c.begins, c.shares[i])
		}
		if due != nil {
			q.nextDue = broker.FromMicros(*due)
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
		var id *int32
		if err := r.Scan(&id); err != nil {
			return err
		}
		if id != nil {
			c.shareOf[*id] = i
		}
		i++
		return nil
	}), queues)
}
