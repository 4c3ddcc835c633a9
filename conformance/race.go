package conformance

import (
	"fmt"

	"github.com/seed81422ce9/jobs/broker"
)

func (c *check) handles() [3]broker.Broker {
	c.tb.Helper()
	return [3]broker.Broker{c.b, c.open(), c.open()}
}

func (c *check) racingWorkers() [racers]*worker {
	c.tb.Helper()
	handles := c.handles()
	var workers [racers]*worker
	for i := range workers {
		workers[i] = c.workerOn(handles[i%3], fmt.Sprint("w", i))
	}
	return workers
}

// addMany enqueues n plain jobs in one request.
func (c *check) addMany(prefix string, n int) []string {
	c.tb.Helper()
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprint(prefix, i)
	}
	c.add(ids...)
	return ids
}

func (c *check) enqueueAtOnce(handles [3]broker.Broker, job func(i int) broker.NewJob) []broker.Receipt {
	c.tb.Helper()
	receipts := make([]broker.Receipt, racers)
	c.together(racers, func(i int) error {
		got, err := handles[i%3].Enqueue(c.ctx, broker.EnqueueRequest{Now: c.now, Jobs: []broker.NewJob{job(i)}})
		if err == nil {
			receipts[i] = got[0]
		}
		return err
	})
	return receipts
}

// oneAccepted requires that one of the receipts is, and that the others name it.
func (c *check) oneAccepted(receipts []broker.Receipt) (winner int) {
	c.tb.Helper()
	winner = -1
	for i, r := range receipts {
		if r.Err == nil {
			c.that(winner < 0, "accepted\ngot  %s and %s\nwant one", receipts[max(winner, 0)].ID, r.ID)
			winner = i
		}
	}
	c.that(winner >= 0, "accepted\ngot  none\nwant one")
	for i, r := range receipts {
		if i != winner {
			c.is("the others", r.Err, broker.ErrDuplicate)
			c.same("holder", r.Holder, receipts[winner].ID)
		}
	}
	return winner
}
