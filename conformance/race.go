package conformance

import (
	"fmt"
	"runtime"
	"sync"

	"github.com/seed81422ce9/jobs/broker"
)

// racers is the number of callers that compete in the Race rules, over three handles.
// Time is virtual: calls are concurrent, and none of them waits.
const racers = 8

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

// addMany enqueues n jobs in one request.
func (c *check) addMany(prefix string, n int) []string {
	c.tb.Helper()
	ids := numbered(prefix, n)
	c.add(ids...)
	return ids
}

// raced is the number of jobs for which claims and operations race.
const raced = 40

// claimWhile claims jobs while an operation is carried out on them one by one. It returns
// the claimed jobs, their worker, and the jobs on which the operation succeeded.
func (c *check) claimWhile(op broker.Operation) (w *worker, claimed []broker.Job, done map[string]bool) {
	c.tb.Helper()
	ids := c.addMany("j", raced)
	w, done = c.worker("w"), make(map[string]bool)
	other := c.open()
	c.together(2, func(i int) error {
		if i == 0 {
			for range 10 {
				got, err := w.b.Claim(c.ctx, w.request(4))
				if err != nil {
					return err
				}
				claimed = append(claimed, got.Jobs...)
				runtime.Gosched() // otherwise, with a store in memory, one party finishes before the other begins
			}
			return nil
		}
		for k := range ids {
			id, one := ids[(k+15)%raced], op
			one.Now, one.Refs = c.now, []broker.Ref{c.ref(id)}
			r, err := other.Operate(c.ctx, one)
			if err != nil {
				return err
			}
			done[id] = r[0].Err == nil
			runtime.Gosched()
		}
		return nil
	})
	return w, claimed, done
}

// raceClaims is claimWhile, and then claims the rest and completes all claimed jobs.
func (c *check) raceClaims(op broker.Operation) (claimed map[string]broker.Job, done map[string]bool) {
	c.tb.Helper()
	w, jobs, done := c.claimWhile(op)
	jobs = append(jobs, w.claim(raced)...)
	claimed = make(map[string]broker.Job)
	for _, j := range jobs {
		claimed[j.ID] = j
	}
	w.settle(broker.Complete(nil), refs(jobs)...)
	return claimed, done
}

// givenOnce lets many workers take jobs at once, and requires that each of n jobs goes to one of them.
func (c *check) givenOnce(n int, take func(w *worker) (broker.Claimed, error)) {
	c.tb.Helper()
	workers := c.racingWorkers()
	given := make(map[string]int)
	var mu sync.Mutex
	c.together(racers, func(i int) error {
		for empty, calls := 0, 0; empty < 3 && calls < n; calls++ {
			got, err := take(workers[i])
			if err != nil {
				return err
			}
			mu.Lock()
			for _, j := range got.Jobs {
				given[j.ID]++
			}
			mu.Unlock()
			if len(got.Jobs) == 0 {
				empty++
			}
		}
		return nil
	})
	for id, times := range given {
		c.that(times == 1, "job %s\ngot  given %d times\nwant once", id, times)
	}
	c.same("jobs given", len(given), n)
}

// claimOr requires that each job is either claimed or operated on.
func (c *check) claimOr(op broker.Operation) {
	c.tb.Helper()
	claimed, done := c.raceClaims(op)
	for _, id := range numbered("j", raced) {
		_, was := claimed[id]
		c.that(was != done[id], "job %s\ngot  %v done %t, claimed %t\nwant one of both", id, op.Kind, done[id], was)
	}
}

func (c *check) enqueueAtOnce(handles [3]broker.Broker, job func(i int) broker.NewJob) []broker.Receipt {
	c.tb.Helper()
	receipts := make([]broker.Receipt, racers)
	c.calls.racing = true
	c.together(racers, func(i int) error {
		got, err := handles[i%3].Enqueue(c.ctx, broker.EnqueueRequest{Now: c.now, Jobs: []broker.NewJob{job(i)}})
		if err == nil {
			receipts[i] = got[0]
		}
		return err
	})
	return receipts
}

// oneAccepted requires that one receipt is accepted and that the others name its job.
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
