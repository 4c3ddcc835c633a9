package conformance

import (
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Rules of several groups that require two structures of a store to agree.
var moreRules = []Rule{
	{"Retention/RedrivenJobIsNotPruned", "§23",
		"A dead job that was redriven is not pruned as a dead one, and does not count as the oldest.", nil, func(c *check) {
			w := c.worker("w")
			c.add("a", "b")
			w.settle(broker.Die(broker.ReasonRetries, failure("x")), refs(w.take("a", "b"))...)
			c.pass(time.Second)
			c.decide(broker.OpRedrive, "a", "b")
			w.settle(broker.Die(broker.ReasonRetries, failure("x")), w.one("a"))
			again := c.now
			c.policy(broker.PolicyRequest{RetainDead: &broker.Retention{Age: time.Minute, Count: 1}})
			c.same("the earliest end of a dead job", c.counted(c.q).Oldest[broker.StateDead].UTC(), again.UTC())
			c.same("dead jobs pruned", c.prune().Dead, 0)
			w.take("b")
			c.pass(time.Hour)
			c.same("dead jobs pruned later", c.prune().Dead, 1)
			c.gone("a")
			c.must("b", broker.StateActive)
		}},
	{"Order/DueGoByDueTimeWhereverTheyWait", "§16", "Scheduled jobs and retries that fall due in one call are claimed together, by due time.",
		nil, func(c *check) {
			w := c.worker("w")
			c.add("r1", "r2")
			for i, j := range w.take("r1", "r2") {
				w.settle(broker.Retry(time.Duration(2*i+2)*time.Second, failure("x")), &j)
			}
			for i, id := range []string{"s1", "s2", "s3"} {
				c.accept(c.later(id, time.Duration(2*i+1)*time.Second))
			}
			c.pass(time.Minute)
			w.take("s1", "r1", "s2", "r2", "s3")
		}},
}
