package conformance

import (
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// The rules of this group close their handles, restart the store, and ask again for every kind of
// record, since a store may keep one of them in memory by mistake.
var durableRules = []Rule{
	{"Durable/EveryKindOfRecordOutlivesARestart", "§26",
		"After a restart jobs in every state, leases, workers, settle numbers, remembered IDs, unique keys, cancel requests, " +
			"keys, policies, totals and marks are what they were.", nil, func(c *check) {
			w := c.everyState()
			v, ended := c.worker("v"), c.worker("ended")
			ended.retire()
			ids := []string{"pending", "scheduled", "active", "retry", "dead", "completed", "cancelled", "keyed", "hidden"}
			waiting := []string{"keyed", "pending"} // to be claimed at the end
			keyed, given := c.job("keyed"), c.job("given")
			keyed.Body.Key, given.Body.GivenID = "tenant", true
			if !c.limits.NoUnique {
				keyed.Body.Unique = broker.Unique{Key: "key", Mode: untilDone}
			}
			hidden, first := c.job("hidden"), c.job("settled")
			if !c.limits.NoMove {
				c.add("held")
				c.hold("held")
				ids, waiting = append(ids, "held"), append([]string{"held"}, waiting...)
			}
			c.accept(hidden, first, given)
			taken := v.take("pending", "hidden", "settled", "given")
			v.settle(broker.Release(), &taken[0])
			v.settle(broker.Die(broker.ReasonRetries, failure("x")), &taken[1])
			c.decide(broker.OpSuppress, "hidden")
			items := []broker.Settlement{{Job: &taken[2], Outcome: broker.Complete(nil)}, {Job: &taken[3], Outcome: broker.Complete(nil)}}
			v.number++
			verdicts := v.sendAs(v.number, items...)
			c.decide(broker.OpDelete, "given")
			c.accept(keyed)
			c.decide(broker.OpCancel, "active")
			depth, dead := int64(1000), broker.Retention{Age: 100 * time.Hour, Count: 7}
			c.policy(broker.PolicyRequest{MaxDepth: &depth, RetainDead: &dead})
			c.pause("paused", true)
			mark := broker.Marked{}
			if !c.limits.NoMark {
				mark = c.mark(broker.MarkRequest{Action: broker.MarkTake, Name: "m", Owner: "a", TTL: time.Hour, Value: []byte("value")})
			}
			before := make(map[string]*broker.Job)
			for _, id := range ids {
				before[id] = c.find(id)
			}
			policy, counted := c.policy(broker.PolicyRequest{}), c.counted(c.q)
			lapse := w.renew()

			c.restart()
			w.b, v.b, ended.b = c.b, c.b, c.b

			for _, id := range ids {
				c.same("job "+id, c.find(id), before[id])
			}
			for _, state := range broker.States() {
				c.same("count of "+state.String()+" jobs", c.counted(c.q).Counts[state], counted.Counts[state])
				c.same("listed "+state.String()+" jobs", int64(len(c.list(broker.Query{State: state, Suppressed: true}))), counted.Counts[state])
			}
			c.same("totals", c.counted(c.q).Totals, counted.Totals)
			c.same("found by key", idsOf(c.list(broker.Query{Key: "tenant"})), []string{"keyed"})
			c.same("policy", c.policy(broker.PolicyRequest{}), policy)
			c.that(c.policy(broker.PolicyRequest{Queue: "paused"}).Paused, "the paused queue\ngot  resumed\nwant it paused")
			c.same("verdicts of a repeated settle", v.sendAs(v.number, items...), verdicts)
			for _, j := range []broker.NewJob{given, c.job("pending")} {
				c.same("holder of the ID "+j.ID, c.refuse(j, broker.ErrDuplicate).Holder, j.ID)
			}
			if !c.limits.NoUnique {
				c.same("holder of the unique key", c.refuse(c.uniqueJob("u", "key", untilDone, 0), broker.ErrDuplicate).Holder, "keyed")
			}
			now := w.renew()
			c.that(!now.Lost && !v.renew().Lost, "workers that were alive\ngot  Lost\nwant them alive")
			c.same("held", now.Held, lapse.Held)
			c.same("asked to cancel", now.Cancel, []broker.Ref{before["active"].Ref()})
			c.that(now.NextLapse.Equal(lapse.NextLapse), "NextLapse\ngot  %v\nwant %v", now.NextLapse, lapse.NextLapse)
			c.that(ended.renewAs(lease, true).Lost, "the worker that had retired\ngot  alive\nwant Lost")
			if !c.limits.NoMark {
				c.same("mark", c.readMark("m"), mark)
				c.that(!c.mark(broker.MarkRequest{Action: broker.MarkTake, Name: "m", Owner: "b", TTL: time.Hour}).Held,
					"the mark\ngot  taken by another\nwant it held")
			}
			w.settle(broker.Complete(nil), before["active"])
			if !c.limits.NoMove {
				c.decide(broker.OpUnhold, "held")
			}
			c.same("claimed", sorted(idsOf(w.claim(9))), waiting)
			c.pass(2 * time.Hour)
			r := c.worker("r")
			c.same("due", sorted(idsOf(r.claim(9))), []string{"retry", "scheduled"})
			c.same("of workers that ran out", sorted(idsOf(r.reclaim(9))), waiting)
			c.pass(30 * time.Hour)
			c.that(c.prune().Completed >= 2, "pruned\ngot  fewer completed records than are past their retention\nwant them gone")
			c.gone("completed")
		}},
	{"Durable/LimitsAndHeadsOutliveARestart", "§37",
		"After a restart limits, policies of keys, heads, the counts of rates and the active jobs are what they were.", flow, func(c *check) {
			hours := func(jobs, burst int64) *broker.Rate { return &broker.Rate{Jobs: jobs, Per: time.Hour, Burst: burst} }
			c.policy(broker.PolicyRequest{MaxActive: new(int64(3)), KeyMaxDepth: new(int64(2)), Rate: hours(1, 6), KeyRate: hours(1, 2),
				Ordered: new(broker.OrderStop)})
			c.policy(broker.PolicyRequest{Key: "paused", Paused: new(true), Weight: new(int64(3))})
			c.policy(broker.PolicyRequest{Key: "slow", Rate: hours(1, 0)})
			w := c.worker("w")
			outcomes := map[string]broker.Outcome{"retry": broker.Retry(10*time.Hour, failure("x")),
				"dead": broker.Die(broker.ReasonRetries, failure("x")),
				"slow": broker.Complete(nil)}
			var active *broker.Job
			for _, key := range []string{"retry", "dead", "slow", "active"} {
				c.addTo(key, key+"1", key+"2")
				if active = w.one(key + "1"); key != "active" {
					w.settle(outcomes[key], active)
				}
			}
			c.addTo("paused", "paused1", "paused2")
			names := []string{"retry", "dead", "slow", "active", "paused", "unknown"}
			before := map[string]broker.KeyInfo{}
			for _, name := range names {
				before[name] = c.key(name)
			}
			c.same("why the keys may start nothing", fmt.Sprint(before["retry"].Block, before["dead"].Block, before["slow"].Block,
				before["active"].Block, before["paused"].Block), "order order rate order paused")
			policy := c.policy(broker.PolicyRequest{})

			c.restart()
			w.b = c.b

			for _, name := range names {
				c.same("the key "+name, c.key(name), before[name])
			}
			c.same("keys", c.keyNames(2), []string{"active", "dead", "paused", "retry", "slow"})
			c.same("policy", c.policy(broker.PolicyRequest{}), policy)
			c.same("policy of a key", c.policy(broker.PolicyRequest{Key: "paused"}), broker.Policy{Paused: true, Weight: 3})
			w.rest()
			c.refuse(c.keyedJob("paused3", "paused"), broker.ErrQueueFull)
			for _, key := range []string{"x", "y", "z"} {
				c.addTo(key, key+"1", key+"2")
			}
			held := w.claim(9)
			c.same("jobs claimed: three are active then", len(held), 2)
			w.settle(broker.Complete(nil), active)
			c.same("jobs claimed when one had ended", len(w.claim(9)), 1)
			w.settle(broker.Complete(nil), refs(held)...)
			c.that(w.rest().NextDue.After(c.now), "after seven starts that the rate counted\ngot  no NextDue\nwant one")
			c.pass(time.Hour)
			c.same("jobs claimed when the rate allows one more", len(c.worker("v").claim(9)), 1)
		}},
}

// restart closes the first handle, reopens the store or severs all its connections,
// and opens another handle.
func (c *check) restart() {
	c.tb.Helper()
	if c.store.Reopen != nil {
		c.ok("Close", c.b.Close())
		c.store.Reopen(c.tb)
	} else {
		old := c.b
		c.b = c.open() // to see when the store is back
		c.ok("Close", old.Close())
		c.store.Bounce(c.tb)
		c.back()
	}
	c.b = c.open()
}
