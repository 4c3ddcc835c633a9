package membroker

import "github.com/seed81422ce9/jobs/broker"

// held is what a waiting job was before somebody took it out of the queue (§27).
type held struct {
	by   string
	from broker.State
	at   int64 // when it is due, if it was scheduled or in retry
}

// hold takes a job out of the queue.
func (q *queue) hold(j *job, by string) {
	h := &held{by: by, from: j.state, at: j.at}
	j.write(j.read().Moved())
	q.move(j, broker.OnHold, broker.StateWaiting, 0)
	j.held = h
}

// unhold makes a job again what it was, in front of those that never left.
func (q *queue) unhold(j *job) {
	h := j.held
	j.write(j.read().Moved())
	q.move(j, broker.OnUnhold, h.from, h.at)
	if h.from == broker.StatePending {
		q.toFront([]*job{j})
	}
}

// edit replaces a job's payload. A dead one's epoch rises: nothing but copies
// names it (§28).
func (j *job) edit(payload []byte) {
	headers := packedHeaders(j.payload)
	both := make([]byte, len(payload)+len(headers))
	copy(both[copy(both, payload):], headers)
	j.payload = both[:len(payload)]
	if j.state == broker.StateDead {
		j.write(j.read().Moved())
	}
}
