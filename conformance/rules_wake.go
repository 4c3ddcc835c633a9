package conformance

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// These rules use the store's own clock, since they wait.
var wakeRules = []Rule{
	{"Wake/ByEnqueue", "§17", "A waiting claim gets a job soon after another handle enqueues it.", wait, func(c *check) {
		c.wakes(func(w *worker, id string) func() {
			return func() { c.add(id) }
		})
	}},
	{"Wake/ByRelease", "§17", "A waiting claim gets a job soon after another worker gives it back.", wait, func(c *check) {
		v := c.realWorker("v")
		c.wakes(func(w *worker, id string) func() {
			c.add(id)
			held := v.one(id)
			return func() { v.settle(broker.Release(), held) }
		})
	}},
	{"Wake/ByRetryAtOnce", "§17", "A waiting claim gets a job soon after it is retried without delay.", wait, func(c *check) {
		v := c.realWorker("v")
		c.wakes(func(w *worker, id string) func() {
			c.add(id)
			held := v.one(id)
			return func() { v.settle(broker.Retry(0, failure("x")), held) }
		})
	}},
	{"Wake/ByRetire", "§17", "A waiting claim gets a job soon after the worker that held it retires.", wait, func(c *check) {
		c.wakes(func(w *worker, id string) func() {
			c.add(id)
			v := c.realWorker("holder of " + id)
			v.one(id)
			return func() { v.retire() }
		})
	}},
	{"Wake/ByResume", "§17", "A waiting claim gets a job of a paused queue soon after that resumes.", wait, func(c *check) {
		c.wakes(func(w *worker, id string) func() {
			c.pause(c.q, true)
			c.add(id)
			return func() { c.pause(c.q, false) }
		})
	}},
	{"Wake/ByResumeWhenDue", "§17", "A waiting claim gets a job that became due in a paused queue soon after that resumes.", wait,
		func(c *check) {
			c.wakes(func(w *worker, id string) func() {
				c.pause(c.q, true)
				c.accept(c.later(id, time.Microsecond))
				return func() { c.pause(c.q, false) }
			})
		}},
	{"Wake/ByRedrive", "§17", "A waiting claim gets a dead job soon after it is redriven.", wait, func(c *check) {
		v := c.realWorker("v")
		c.wakes(func(w *worker, id string) func() {
			c.add(id)
			v.settle(broker.Die(broker.ReasonRetries, failure("x")), v.one(id))
			return func() { c.decide(broker.OpRedrive, id) }
		})
	}},
	{"Wake/ByReschedule", "§17", "A waiting claim gets a scheduled job soon after it is rescheduled to run at once.", wait, func(c *check) {
		c.wakes(func(w *worker, id string) func() {
			c.accept(c.later(id, time.Hour))
			return func() { c.decide(broker.OpReschedule, id) }
		})
	}},
	{"Wake/ByUnhold", "§17", "A waiting claim gets a job soon after it is unheld.", wait.and(moves), func(c *check) {
		c.wakes(func(w *worker, id string) func() {
			c.add(id)
			c.hold(id)
			return func() { c.decide(broker.OpUnhold, id) }
		})
	}},
	{"Wake/ByRestore", "§17", "A waiting claim gets a job soon after it is restored.", wait.and(moves), func(c *check) {
		c.wakes(func(w *worker, id string) func() {
			j := c.job(id)
			j.Restore = &broker.Restored{State: broker.StateRetry}
			return func() { c.accept(j) }
		})
	}},
	{"Wake/InAnyOfItsQueues", "§17", "A claim that waits on several queues is woken by each of them.", wait, func(c *check) {
		c.real()
		w := c.workerOn(c.open(), "w", "first", c.q, "third")
		for i, queue := range []string{"third", "first", c.q} {
			j := c.jobIn(queue, fmt.Sprint("j", i))
			c.woken(w, j.ID, func() { c.accept(j) })
		}
	}},
	{"Wake/WhenDue", "§17", "A waiting claim gets a job when it falls due, by the store's clock and not before.", wait, func(c *check) {
		c.real()
		w := c.worker("w")
		c.accept(c.later("a", 30*time.Millisecond))
		due := c.find("a").RunAt
		got := ask(c, "Claim", c.b.Claim, w.request(1))
		c.that(len(got.Jobs) > 0 || got.More || !got.NextDue.IsZero(), "NextDue\ngot  none\nwant %v", due) // a slow store: it is due
		if len(got.Jobs) == 0 {
			got = c.claimDue(w)
		}
		c.that(!got.Now.Before(due), "claimed\ngot  at %v\nwant not before it was due at %v", got.Now, due)
	}},
	{"Wake/WhenDueBesideAFullWorker", "§17",
		"After a claim that took as many jobs as it may, another waiting claim gets the next job that falls due, even in another process.", wait,
		func(c *check) {
			c.real()
			for round := range 4 {
				workers := []*worker{c.workerOn(c.open(), fmt.Sprint("w", round)), c.workerOn(c.open(), fmt.Sprint("v", round))}
				for i := range workers {
					c.accept(c.later(fmt.Sprint(round, " ", i), time.Duration(20+30*i)*time.Millisecond))
				}
				c.together(len(workers), func(i int) error {
					c.claimDue(workers[i])
					return nil
				})
			}
		}},
	{"Wake/ByWhatIsDueSooner", "§17",
		"If an enqueue, a retry, a reschedule, an unhold or a debounce makes a job due sooner than all that a waiting claim knew, the claim " +
			"gets it soon after that time.",
		wait, func(c *check) {
			c.real()
			w, v := c.workerOn(c.open(), "w"), c.realWorker("v")
			triggers := []func(id string, delay time.Duration) func(){
				func(id string, delay time.Duration) func() {
					return func() { c.accept(c.later(id, delay)) }
				},
				func(id string, delay time.Duration) func() {
					c.add(id)
					held := v.one(id)
					return func() { v.settle(broker.Retry(delay, failure("x")), held) }
				},
				func(id string, delay time.Duration) func() {
					c.accept(c.later(id, 2*time.Hour))
					return func() { c.reschedule(delay, id) }
				},
			}
			if !meets.declared(c.limits) {
				triggers = append(triggers, func(id string, delay time.Duration) func() {
					c.accept(c.later(id, delay))
					c.hold(id)
					return func() { c.decide(broker.OpUnhold, id) }
				}, func(id string, delay time.Duration) func() {
					n := c.debounced(id, 2*time.Hour)
					n.Body.Unique.Key, n.Body.Unique.Latest = id, 3*time.Hour
					c.accept(n)
					n.ID, n.Delay = id+" again", delay
					return func() { c.replaced(n, id) }
				})
			}
			for i, trigger := range triggers {
				id := fmt.Sprint("j", i)
				c.woken(w, id, trigger(id, 5*time.Millisecond))
				if i == 0 { // from now on, the store knows another job that is due much later
					c.accept(c.later("later", time.Hour))
				}
			}
		}},
	{"Wake/EndsByItself", "§17", "A claim that finds no job ends when its wait is over, without an error, even in a paused queue.",
		wait, func(c *check) {
			c.real()
			c.add("a")
			c.pause(c.q, true)
			w := c.worker("w")
			req := w.request(1)
			req.Wait = 20 * time.Millisecond
			got := ask(c, "Claim", c.b.Claim, req)
			c.same("jobs", len(got.Jobs), 0)
		}},
	{"Wake/EndsWithItsContext", "§17",
		"A waiting claim ends when its context does, with the context's error, and leases nothing.", wait, func(c *check) {
			c.real()
			for round := range 5 {
				gone := c.workerOn(c.open(), fmt.Sprint("gone", round))
				ctx, cancel := context.WithCancel(c.ctx)
				done := make(chan error, 1)
				go func() {
					req := gone.request(1)
					req.Wait = 6 * patience
					var err error
					for err == nil { // a claim may return without jobs
						_, err = gone.b.Claim(ctx, req)
					}
					done <- err
				}()
				<-time.After(time.Duration(round) * 2 * time.Millisecond) // so that some claims are already waiting
				cancel()
				c.is("Claim", c.receive("return of the claim", done), context.Canceled)
				id := fmt.Sprint("j", round)
				c.add(id)
				w := c.worker(fmt.Sprint("w", round))
				c.ok("claim by another", c.claimOne(w, id))
				c.same("held for the caller that went away", gone.renew().Held[c.q], 0)
			}
		}},
	{"Wake/EndsWithItsBroker", "§17", "Close ends claims that wait.", wait, func(c *check) {
		c.real()
		b := c.open()
		w := c.workerOn(b, "w")
		done := make(chan error, 1)
		go func() {
			req := w.request(1)
			req.Wait = 6 * patience
			var err error
			for err == nil {
				_, err = b.Claim(c.ctx, req)
			}
			done <- err
		}()
		<-time.After(5 * time.Millisecond) // so that the claim is mostly waiting already
		c.ok("Close", b.Close())
		c.is("Claim", c.receive("return of the claim", done), broker.ErrClosed)
	}},
	{"Wake/ManyWaitersShare", "§17", "Many waiting claims get the same number of jobs, each job once.", wait, func(c *check) {
		c.real()
		const n = 8
		var left atomic.Int64
		left.Store(3 * n)
		workers := make([]*worker, n)
		handles := []broker.Broker{c.open(), c.open()}
		for i := range workers {
			workers[i] = c.workerOn(handles[i%2], fmt.Sprint("w", i))
		}
		c.together(n+1, func(i int) error {
			if i == n {
				for k := range 3 * n {
					if _, err := c.b.Enqueue(c.ctx, broker.EnqueueRequest{Jobs: []broker.NewJob{c.job(fmt.Sprint("j", k))}}); err != nil {
						return err
					}
				}
				return nil
			}
			for end := time.Now().Add(patience); left.Load() > 0; {
				req := workers[i].request(1)
				req.Wait = 100 * time.Millisecond // so that workers without a job notice when none is left
				got, err := workers[i].b.Claim(c.ctx, req)
				if err != nil {
					return err
				}
				left.Add(-int64(len(got.Jobs)))
				if time.Now().After(end) {
					return fmt.Errorf("%d of %d jobs were claimed by nobody in %v", left.Load(), 3*n, patience)
				}
			}
			return nil
		})
		c.same("active", c.counted(c.q).Counts[broker.StateActive], int64(3*n))
	}},
}

// realWorker registers a worker that uses the store's own clock.
func (c *check) realWorker(id string) *worker {
	c.tb.Helper()
	c.real()
	return c.worker(id)
}

// wakes checks one cause of waking several times: with claims that are probably still
// on their way to the store, and with claims that probably wait there.
func (c *check) wakes(prepare func(w *worker, id string) (trigger func())) {
	c.tb.Helper()
	c.real()
	w := c.workerOn(c.open(), "w")
	for round := range 6 {
		id := fmt.Sprint("j", round)
		c.woken(w, id, prepare(w, id))
	}
}

// woken starts a claim that waits, calls trigger, which makes a job claimable, and
// requires that the claim gets it.
func (c *check) woken(w *worker, id string, trigger func()) {
	c.tb.Helper()
	done := make(chan error, 1)
	go func() { done <- c.claimOne(w, id) }()
	<-time.After(time.Duration(len(id)%3+int(id[len(id)-1]-'0')) * time.Millisecond)
	trigger()
	c.ok("waiting claim", c.receive("return of the waiting claim", done))
}

// claimDue claims until it gets a job that will fall due. It may run on any goroutine.
func (c *check) claimDue(w *worker) broker.Claimed {
	req := w.request(1)
	req.Wait = 3 * patience
	for end := time.Now().Add(patience); ; {
		got, err := w.b.Claim(c.ctx, req)
		switch {
		case err != nil:
			c.tb.Errorf("Claim: %v", err)
			return got
		case len(got.Jobs) > 0 && time.Now().Before(end):
			return got
		case time.Now().After(end):
			c.tb.Errorf("a claim that waits got no job in %v although one fell due; NextDue is %v, Now %v", patience, got.NextDue, got.Now)
			return got
		}
	}
}

// claimOne claims until it gets a job, which must have this ID, and completes it. It
// may run on any goroutine. A claim may return early without jobs; the next one waits
// no longer than until NextDue.
func (c *check) claimOne(w *worker, id string) error {
	end := time.Now().Add(patience)
	away := func(err error) bool {
		failed := broker.StoreFailed(err)
		return failed && c.rule.Group() == "Bounce" && time.Now().Before(end)
	}
	const pause = 5 * time.Millisecond
	var got broker.Claimed
	for {
		req := w.request(1)
		req.Wait = 3 * patience
		if !got.NextDue.IsZero() {
			req.Wait = min(req.Wait, max(got.NextDue.Sub(got.Now), time.Millisecond))
		}
		var err error
		got, err = w.b.Claim(c.ctx, req)
		switch {
		case away(err):
			<-time.After(pause)
		case err != nil:
			return err
		}
		if len(got.Jobs) > 0 {
			if got.Jobs[0].ID != id {
				return fmt.Errorf("claimed %s, want %s", got.Jobs[0].ID, id)
			}
			w.number++
			settle := broker.SettleRequest{Worker: w.id, Number: w.number,
				Items: []broker.Settlement{{Job: &got.Jobs[0], Outcome: broker.Complete(nil)}}}
			verdicts, err := w.b.Settle(c.ctx, settle)
			for ; away(err); verdicts, err = w.b.Settle(c.ctx, settle) {
				<-time.After(pause)
			}
			if err != nil {
				return err
			}
			return verdicts[0].Err
		}
		if time.Now().After(end) {
			return fmt.Errorf("claimed nothing in %v, want %s", patience, id)
		}
	}
}

func (c *check) receive(what string, from <-chan error) error {
	c.tb.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case err := <-from:
		return err
	case <-timeout.C:
		c.failf("%s\ngot  nothing in %v\nwant it", what, patience)
		return nil
	}
}
