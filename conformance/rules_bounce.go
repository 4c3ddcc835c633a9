package conformance

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

var bounceRules = []Rule{
	{"Bounce/NothingAcceptedIsLost", "§26",
		"After the store was unreachable the same handles work again, and jobs, leases and workers are as they were.", nil, func(c *check) {
			c.add("a", "b")
			w := c.worker("w")
			a := w.one("a")
			c.store.Bounce(c.tb)
			c.back()
			c.that(!w.renew().Lost, "Renew after the store was away\ngot  Lost\nwant alive")
			w.settle(broker.Complete(nil), a)
			w.take("b")
			c.add("c")
		}},
	{"Bounce/UnavailableMeansNotApplied", "§26",
		"ErrUnavailable is answered only for calls that were not applied, and nil only for calls that were.", nil, func(c *check) {
			c.add("first of the queue")
			var stop atomic.Bool
			var mu sync.Mutex
			got := make(map[string]error)
			enqueuers := make([]broker.Broker, 4)
			for i := range enqueuers {
				enqueuers[i] = c.open()
			}
			c.together(len(enqueuers)+1, func(i int) error {
				if i == len(enqueuers) {
					for range 3 {
						c.store.Bounce(c.tb)
					}
					stop.Store(true)
					return nil
				}
				for n := 0; !stop.Load() || n < 10; n++ {
					id := fmt.Sprintf("j%d-%d", i, n)
					receipts, err := enqueuers[i].Enqueue(c.ctx, broker.EnqueueRequest{Now: c.now, Jobs: []broker.NewJob{c.job(id)}})
					if err == nil {
						err = receipts[0].Err
					}
					mu.Lock()
					got[id] = err
					mu.Unlock()
				}
				return nil
			})
			c.back()
			for id, err := range got {
				stored := c.find(id) != nil
				c.that(stored || err != nil, "Enqueue of %s\ngot  nil, and no job\nwant the job", id)
				c.that(!stored || err == nil || broker.MayHaveApplied(err),
					"Enqueue of %s\ngot  error %v, which means not applied, and the job\nwant no job", id, err)
			}
		}},
	{"Bounce/WaitingGoesOn", "§17", "A worker that waits while the store is unreachable gets the jobs that are enqueued afterwards.", wait,
		func(c *check) {
			c.real()
			other := c.open()
			w := c.worker("w")
			done := make(chan error, 1)
			go func() { done <- c.claimOne(w, "late") }()
			c.store.Bounce(c.tb)
			c.eventually("Enqueue after the store was away", func() error {
				receipts, err := other.Enqueue(c.ctx, broker.EnqueueRequest{Jobs: []broker.NewJob{c.job("late")}})
				if err == nil && !errors.Is(receipts[0].Err, broker.ErrDuplicate) {
					err = receipts[0].Err
				}
				return err
			})
			c.ok("claim", <-done)
		}},
	{"Bounce/WatchingGoesOnOrEnds", "§25", "A watcher of a store that was unreachable gets later events, or its channel is closed.", watch,
		func(c *check) {
			events := c.watch(broker.WatchRequest{Queues: []string{c.q}})
			c.store.Bounce(c.tb)
			c.back()
			w := c.worker("w")
			n := 0
			c.eventually("an event or the end", func() error {
				id := fmt.Sprint("j", n)
				n++
				c.add(id)
				w.settle(broker.Complete(nil), w.one(id))
				timeout := time.NewTimer(100 * time.Millisecond)
				defer timeout.Stop()
				for {
					select {
					case e, open := <-events:
						if !open || e.Kind == broker.EventSettled {
							return nil
						}
					case <-timeout.C:
						return errNotYet
					}
				}
			})
		}},
}

// back waits until the store answers again over every connection that the handle
// may have kept.
func (c *check) back() {
	c.tb.Helper()
	c.eventually("many Pings at once after the store was away", func() error {
		errs := make(chan error)
		for range 16 {
			go func() {
				_, err := c.b.Ping(c.ctx)
				errs <- err
			}()
		}
		var all []error
		for range 16 {
			all = append(all, <-errs)
		}
		return errors.Join(all...)
	})
}
