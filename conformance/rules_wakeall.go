package conformance

import (
	"context"
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// More of the group Wake: several claims that wait.
var wakeAllRules = []Rule{
	{"Wake/BatchWakesAsManyAsItHasJobsFor", "§17",
		"A call that makes as many jobs claimable as there are waiting claims, for one job each, wakes them all, on every handle.", wait,
		func(c *check) {
			c.real()
			const n = 6
			handles := c.handles()
			for _, cause := range []string{"an enqueue", "a settle", "a retire", "a resume", "a redrive", "a reschedule", "an unhold"} {
				if c.limits.NoMove && cause == "an unhold" {
					continue
				}
				c.q = cause
				v, ids := c.worker("v"), numbered("j", n)
				trigger := func() { c.add(ids...) }
				switch cause {
				case "a settle", "a retire", "a redrive":
					c.add(ids...)
					held := v.takeAll(ids...)
					switch cause {
					case "a settle":
						trigger = func() { v.settle(broker.Retry(0, failure("x")), refs(held)...) }
					case "a retire":
						trigger = func() { v.retire() }
					default:
						v.settle(broker.Die(broker.ReasonRetries, failure("x")), refs(held)...)
						trigger = func() { c.decide(broker.OpRedrive, ids...) }
					}
				case "a resume":
					c.pause(c.q, true)
					c.add(ids...)
					trigger = func() { c.pause(c.q, false) }
				case "a reschedule":
					for _, id := range ids {
						c.accept(c.later(id, time.Hour))
					}
					trigger = func() { c.decide(broker.OpReschedule, ids...) }
				case "an unhold":
					c.add(ids...)
					c.hold(ids...)
					trigger = func() { c.decide(broker.OpUnhold, ids...) }
				}
				done := make(chan error, n)
				for i := range n {
					w := c.workerOn(handles[i%3], fmt.Sprint("w", i))
					go func() { done <- c.claimAny(c.ctx, w) }()
				}
				<-time.After(settleDown)
				trigger()
				for i := range n {
					c.ok("waiting claim", c.receive(fmt.Sprintf("claim %d of %d that waited for %s of %d jobs", i+1, n, cause, n), done))
				}
			}
		}},
	{"Wake/WhoLeavesTakesNoOtherAlong", "§17",
		"After a claim ended its wait, by its context or its time, the others that wait for the same queue are still woken.", wait,
		func(c *check) {
			c.real()
			b := c.open()
			stays, leaves, ends := c.workerOn(b, "stays"), c.workerOn(b, "leaves"), c.workerOn(b, "ends")
			done, left := make(chan error, 1), make(chan error, 1)
			go func() { done <- c.claimAny(c.ctx, stays) }()
			<-time.After(settleDown)
			ctx, cancel := context.WithCancel(c.ctx)
			go func() { left <- c.claimAny(ctx, leaves) }()
			req := ends.request(1)
			req.Wait = settleDown
			got, err := b.Claim(c.ctx, req)
			c.ok("a claim whose time is up", err)
			c.same("jobs", len(got.Jobs), 0)
			cancel()
			c.is("a claim whose context ended", c.receive("return of the claim", left), context.Canceled)
			c.add("a")
			c.ok("the claim that stayed", c.receive("return of the claim that stayed", done))
		}},
}

// settleDown is how long claims have until they should be waiting. A slower one finds
// the job by itself: then the rule proves less, and still passes.
const settleDown = 50 * time.Millisecond

// claimAny claims until it gets a job. Its claims wait longer than the rule's patience,
// so that a new claim cannot hide a lost wake-up.
func (c *check) claimAny(ctx context.Context, w *worker) error {
	req := w.request(1)
	req.Wait = min(3*patience, broker.MaxWait)
	for {
		got, err := w.b.Claim(ctx, req)
		if err != nil || len(got.Jobs) > 0 {
			return err
		}
	}
}
