package conformance

import (
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

var findDeadRules = []Rule{
	{"Find/DeadByTypeAndReason", "§21", "A listing by type or reason, or both, shows what matches in the listing of all dead jobs, in its " +
		"order, however they died, and after some were redriven, deleted or suppressed.", nil, func(c *check) {
		w := c.worker("w")
		types, reasons := []string{"", "a", "ab", "other"}, []broker.DeadReason{broker.ReasonNone, broker.ReasonSkipRetry, broker.ReasonCrashes,
			broker.ReasonExpired}
		agrees := func(when string, dead int) {
			c.tb.Helper()
			c.same("dead jobs "+when, len(c.list(broker.Query{State: broker.StateDead, Suppressed: true})), dead)
			for n := range 4 {
				q := broker.Query{State: broker.StateDead, Newest: n%2 == 1, Suppressed: n > 1}
				listed := c.list(q)
				for k := range len(types) * len(reasons) {
					q.Type, q.Reason, q.Limit = types[k%len(types)], reasons[k/len(types)], 1+(n+k)%2*99
					want := []string{}
					for _, j := range listed {
						if (q.Type == "" || j.Type == q.Type) && (q.Reason == broker.ReasonNone || j.Reason == q.Reason) {
							want = append(want, j.ID)
						}
					}
					c.same(fmt.Sprintf("%s, dead jobs for %+v", when, q), idsOf(c.list(q)), want)
				}
			}
		}
		add := func(id string, i int) broker.NewJob {
			j := c.job(id)
			j.Body.Type = types[1+i%2]
			return j
		}
		for i := range 4 {
			j := add(fmt.Sprint("j", i), i)
			c.accept(j)
			w.settle(broker.Die(reasons[1+i/2], failure("x")), w.one(j.ID))
			c.pass(time.Second)
		}
		agrees("settled", 4)
		j := add("late", 0)
		j.Body.Deadline = c.up(c.now.Add(time.Second))
		c.accept(j)
		c.pass(2 * time.Second)
		w.renew()
		w.settle(broker.Die(broker.ReasonExpired, failure("x")), w.one("late"))
		agrees("and one that expired", 5)
		c.pass(time.Second)
		c.decide(broker.OpSuppress, "j1")
		agrees("after a suppression", 5)
		c.decide(broker.OpDelete, "j0")
		agrees("after a deletion", 4)
		c.decide(broker.OpRedrive, "j2", "j3")
		agrees("after two redrives", 2)
		w.renew()
		for _, id := range []string{"j2", "j3"} {
			w.settle(broker.Die(broker.ReasonSkipRetry, failure("y")), w.one(id))
			c.pass(time.Second)
		}
		agrees("of another reason than before", 4)
		c.decide(broker.OpUnsuppress, "j1")
		c.decide(broker.OpDelete, "j1", "j3")
		agrees("at the end", 2)
	}},
}
