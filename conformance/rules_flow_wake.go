package conformance

import (
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// These rules use the store's own clock, like those of Wake.
var flowWakeRules = []Rule{
	{"Room/ByTheEndOfALease", "§37",
		"A waiting claim gets a job soon after the job that kept it back ends, whatever the limit.", flow.and(wait), func(c *check) {
			for i, limit := range []broker.PolicyRequest{{MaxActive: new(int64(1))}, {KeyMaxActive: new(int64(1))},
				{Ordered: new(broker.OrderStop)}} {
				c.q = fmt.Sprint("q", i)
				c.policy(limit)
				v := c.realWorker("v")
				end := 0
				c.wakes(func(w *worker, id string) func() {
					c.addTo("k", id+"-before", id)
					held := v.one(id + "-before")
					end++
					switch end % 3 {
					case 0:
						return func() { v.settle(broker.Complete(nil), held) }
					case 1:
						return func() { v.settle(broker.Cancel(failure("x")), held) }
					}
					c.decide(broker.OpCancel, id+"-before")
					return func() { v.settle(broker.Release(), held) }
				})
			}
		}},
	{"Room/ByAChangeOfAPolicy", "§37",
		"A waiting claim gets a job soon after a limit that kept it back is raised or removed, or its key is resumed.", flow.and(wait),
		func(c *check) {
			hour := &broker.Rate{Jobs: 1, Per: time.Hour}
			none := &broker.Rate{Jobs: broker.NoLimit}
			for i, r := range []struct{ set, remove broker.PolicyRequest }{
				{broker.PolicyRequest{MaxActive: new(int64(1))}, broker.PolicyRequest{MaxActive: new(int64(broker.NoLimit))}},
				{broker.PolicyRequest{KeyMaxActive: new(int64(1))}, broker.PolicyRequest{KeyMaxActive: new(int64(5))}},
				{broker.PolicyRequest{Rate: hour}, broker.PolicyRequest{Rate: none}},
				{broker.PolicyRequest{KeyRate: hour}, broker.PolicyRequest{KeyRate: none}},
				{broker.PolicyRequest{KeyRate: hour}, broker.PolicyRequest{Key: "k", Rate: &broker.Rate{Jobs: 1000, Per: time.Second,
					Burst: 1000}}},
				{broker.PolicyRequest{Ordered: new(broker.OrderStop)}, broker.PolicyRequest{Ordered: new(broker.OrderNone)}},
				{broker.PolicyRequest{Key: "k", Paused: new(true)}, broker.PolicyRequest{Key: "k", Paused: new(false)}},
				{broker.PolicyRequest{Key: "k", MaxActive: new(int64(1))}, broker.PolicyRequest{Key: "k",
					MaxActive: new(int64(broker.NoLimit))}},
			} {
				c.q = fmt.Sprint("q", i)
				v := c.realWorker("v")
				w := c.workerOn(c.open(), "w")
				for round := range 2 {
					id := fmt.Sprint("j", round)
					c.addTo("k", id+"-before")
					v.one(id + "-before")
					if c.policy(r.set); r.set.Rate != nil || r.set.KeyRate != nil {
						c.addTo("k", id+"-too")
						v.one(id + "-too") // counts towards the rate
					}
					c.addTo("k", id)
					c.woken(w, id, func() { c.policy(r.remove) })
					for _, j := range c.list(broker.Query{Worker: "v"}) {
						v.settle(broker.Complete(nil), &j)
					}
					if r.remove.Key != "" && r.remove.Rate != nil {
						c.policy(broker.PolicyRequest{Key: "k", Rate: none})
						break
					}
				}
			}
		}},
	{"Room/ByWhatBecomesOfAHead", "§37",
		"A waiting claim gets a job soon after its key's head is deleted or cancelled, and a dead head soon after it is redriven.",
		flow.and(wait), func(c *check) {
			c.ordered(broker.OrderStop)
			v := c.realWorker("v")
			n := 0
			c.wakes(func(w *worker, id string) func() {
				n++
				c.addTo("k", id+"-before", id)
				head := v.one(id + "-before")
				switch n % 3 {
				case 0:
					v.settle(broker.Die(broker.ReasonRetries, failure("x")), head)
					return func() { c.decide(broker.OpDelete, id+"-before") }
				case 1:
					v.settle(broker.Retry(time.Hour, failure("x")), head)
					return func() { c.decide(broker.OpCancel, id+"-before") }
				}
				v.settle(broker.Complete(nil), head)
				v.settle(broker.Die(broker.ReasonRetries, failure("x")), v.one(id))
				return func() { c.decide(broker.OpRedrive, id) }
			})
		}},
	{"Room/ByTime", "§37",
		"A waiting claim gets a job soon after the rate of its queue or key allows it, also if the claim knew no such time.",
		flow.and(wait), func(c *check) {
			rate := &broker.Rate{Jobs: 20, Per: time.Second}
			for i, limit := range []broker.PolicyRequest{{Rate: rate}, {KeyRate: rate}} {
				c.q = fmt.Sprint("q", i)
				c.policy(limit)
				v := c.realWorker("v")
				c.wakes(func(w *worker, id string) func() {
					c.addTo("k", id+"-before")
					for len(v.claim(1)) == 0 {
						<-time.After(time.Millisecond) // the rate allows it within 50 ms
					}
					return func() { c.addTo("k", id) }
				})
			}
		}},
	{"Room/ByTheEndOfALeaseAndTime", "§37",
		"A waiting claim gets a job soon after its key's rate allows it, also if the end of another job of the key left it to the rate.",
		flow.and(wait), func(c *check) {
			c.policy(broker.PolicyRequest{KeyMaxActive: new(int64(1)), KeyRate: &broker.Rate{Jobs: 20, Per: time.Second}})
			v := c.realWorker("v")
			c.wakes(func(w *worker, id string) func() {
				c.addTo("k", id+"-before", id)
				var held []broker.Job
				for len(held) == 0 {
					<-time.After(time.Millisecond) // the rate allows it within 50 ms
					held = v.claim(1)
				}
				return func() { v.settle(broker.Complete(nil), refs(held)...) }
			})
		}},
	{"Room/ByTimeForRetries", "§38", "A waiting claim gets a retry soon after the rate of retries allows it.", flow.and(wait),
		func(c *check) {
			c.policy(broker.PolicyRequest{RetryRate: &broker.Rate{Jobs: 20, Per: time.Second}})
			v := c.realWorker("v")
			c.wakes(func(w *worker, id string) func() {
				c.add(id)
				held := v.one(id)
				return func() { v.settle(broker.Retry(time.Millisecond, failure("x")), held) }
			})
		}},
	{"Room/NotByWhatIsKeptBack", "§37",
		"A claim that waits while a limit keeps jobs back continues to wait, and no claim says More.", flow.and(wait), func(c *check) {
			hour := &broker.Rate{Jobs: 1, Per: time.Hour}
			for i, limit := range []broker.PolicyRequest{{MaxActive: new(int64(1))}, {KeyMaxActive: new(int64(1))}, {Rate: hour},
				{KeyRate: hour},
				{Ordered: new(broker.OrderStop)}} {
				c.q = fmt.Sprint("q", i)
				c.policy(limit)
				v, w := c.realWorker("v"), c.workerOn(c.open(), "w")
				c.addTo("k", "a")
				v.one("a")
				c.addTo("k", numbered("kept back ", 20)...)
				waited := false
				const long = 40 * time.Millisecond
				for range 8 {
					req := w.request(5)
					req.Wait = long
					start := time.Now()
					got := ask(c, "Claim", w.b.Claim, req)
					c.same("jobs", len(got.Jobs), 0)
					c.that(!got.More, "a claim beside jobs that are kept back by %+v\ngot  More\nwant none", limit)
					waited = waited || time.Since(start) >= long/2
				}
				c.that(waited, "eight claims that wait beside jobs that are kept back by %+v\ngot  each returned at once\nwant them to wait",
					limit)
			}
		}},
}
