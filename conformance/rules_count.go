package conformance

import (
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

var countRules = []Rule{
	{"Count/CountsAreOfStates", "§23", "Counts say how many jobs are in each state, through every transition, on every handle.", nil,
		func(c *check) {
			w := c.everyState()
			c.b = c.open()
			one := map[broker.State]int64{}
			for state := range stateIDs {
				one[state] = 1
			}
			c.countsAre(one)
			c.decide(broker.OpDelete, "completed", "scheduled", "cancelled")
			c.decide(broker.OpRedrive, "dead")
			w.settle(broker.Retry(time.Hour, failure("x")), c.must("active", broker.StateActive))
			c.countsAre(map[broker.State]int64{broker.StatePending: 2, broker.StateRetry: 2})
			c.pass(time.Hour)
			v := c.worker("v")
			held := v.claim(3)
			c.same("claimed", len(held), 3)
			v.settle(broker.Complete(nil), &held[0])
			c.countsAre(map[broker.State]int64{broker.StatePending: 1, broker.StateActive: 2, broker.StateCompleted: 1})
			v.retire()
			c.countsAre(map[broker.State]int64{broker.StatePending: 3, broker.StateCompleted: 1})
			c.pass(25 * time.Hour)
			c.prune()
			c.countsAre(map[broker.State]int64{broker.StatePending: 3})
			u, r := c.worker("u"), c.worker("r")
			u.claim(2)
			c.runOut(r)
			c.same("reclaimed", len(r.reclaim(1)), 1)
			c.countsAre(map[broker.State]int64{broker.StatePending: 1, broker.StateActive: 2})
		}},
	{"Count/OldestSaysSinceWhen", "§23",
		"Oldest has the earliest creation among the pending jobs that are next in their priority, the earliest due time, " +
			"and the earliest end.", nil,
		func(c *check) {
			c.keep(24 * time.Hour)
			w := c.worker("w")
			at := map[broker.State]time.Time{}
			for i, o := range []broker.Outcome{broker.Complete(nil), broker.Cancel(failure("x")),
				broker.Die(broker.ReasonRetries, failure("x"))} {
				for _, id := range []string{"first", "second"} {
					id += o.State().String()
					c.add(id)
					w.settle(o, w.one(id))
					if at[o.State()].IsZero() {
						at[o.State()] = c.up(c.now)
					}
					c.pass(time.Duration(i+1) * time.Second)
				}
			}
			c.add("r1", "r2")
			held := w.take("r1", "r2")
			w.settle(broker.Retry(3*time.Hour, failure("x")), &held[0])
			w.settle(broker.Retry(2*time.Hour, failure("x")), &held[1])
			at[broker.StateRetry] = c.up(c.now.Add(2 * time.Hour))
			s1, s2 := c.job("s1"), c.job("s2")
			s1.Delay, s2.Delay = 5*time.Hour, 4*time.Hour
			at[broker.StatePending] = c.up(c.now)
			at[broker.StateScheduled] = c.up(c.now.Add(4 * time.Hour))
			c.accept(s1, s2, c.job("p1"))
			c.pass(time.Second)
			c.add("p2")
			oldest := c.counted(c.q).Oldest
			for state, want := range at {
				c.same("oldest "+state.String(), oldest[state], want)
			}
			c.that(oldest[broker.StateActive].IsZero(), "oldest active\ngot  %v\nwant none", oldest[broker.StateActive])
			c.same("claimed", idsOf(w.claim(1)), []string{"p1"})
			c.same("oldest pending", c.counted(c.q).Oldest[broker.StatePending], c.up(c.now))
		}},
	{"Count/OldestIsOfEachPriority", "§23",
		"For each priority that has pending jobs, OldestPending has the creation of the next one; Oldest has the earliest of these.",
		priority, func(c *check) {
			at := map[broker.Priority]time.Time{}
			created := map[string]time.Time{}
			for _, p := range []broker.Priority{broker.PriorityBulk, broker.PriorityUrgent, broker.PriorityLow, broker.PriorityNormal} {
				for i := range 2 {
					j := c.job(fmt.Sprint(p, "-", i))
					j.Body.Priority = p
					c.accept(j)
					created[j.ID] = c.up(c.now)
					c.pass(time.Hour)
				}
			}
			told := func(when string) {
				c.tb.Helper()
				var first time.Time
				want, got := list{}, list{}
				info := c.counted(c.q)
				for p := broker.PriorityUrgent; p <= broker.PriorityBulk; p++ {
					want.add(fmt.Sprintf("%d: %v", p, at[p].UTC()))
					got.add(fmt.Sprintf("%d: %v", p, info.OldestPending[p].UTC()))
					if !at[p].IsZero() && (first.IsZero() || at[p].Before(first)) {
						first = at[p]
					}
				}
				c.same("creation of the next job of each priority "+when, got.String(), want.String())
				c.same("creation of the earliest "+when, info.Oldest[broker.StatePending].UTC(), first.UTC())
			}
			for p := broker.PriorityUrgent; p <= broker.PriorityBulk; p++ {
				at[p] = created[fmt.Sprint(p, "-0")]
			}
			told("at first")
			w := c.worker("w")
			c.same("claimed", idsOf(w.claim(1)), []string{"1-0"})
			at[broker.PriorityUrgent] = created["1-1"]
			told("after a claim")
			c.decide(broker.OpDelete, "4-0")
			at[broker.PriorityBulk] = created["4-1"]
			told("after the first of the lowest was deleted")
			c.decide(broker.OpCancel, "4-1")
			delete(at, broker.PriorityBulk)
			told("after the last of the lowest was cancelled")
			w.settle(broker.Release(), c.must("1-0", broker.StateActive))
			at[broker.PriorityUrgent] = created["1-0"]
			told("after a release")
		}},
	{"Count/SuppressedAreCountedApart", "§23",
		"Suppressed counts the suppressed dead jobs, however they came to be suppressed or ceased to be; Counts includes them, too.", nil,
		func(c *check) {
			w := c.worker("w")
			dead := func(ids ...string) {
				c.add(ids...)
				w.settle(broker.Die(broker.ReasonRetries, failure("x")), refs(w.take(ids...))...)
			}
			told := func(when string, suppressed, all int64) {
				c.tb.Helper()
				info := c.counted(c.q)
				c.same("suppressed jobs "+when, info.Suppressed, suppressed)
				c.same("dead jobs "+when, info.Counts[broker.StateDead], all)
				c.same("listed jobs "+when, int64(len(c.list(broker.Query{State: broker.StateDead}))), all-suppressed)
			}
			dead("a", "b", "c", "d", "e")
			told("at first", 0, 5)
			c.decide(broker.OpSuppress, "a", "b", "c", "d")
			told("once four are suppressed", 4, 5)
			c.decide(broker.OpSuppress, "a", "b")
			told("once two of them are suppressed again", 4, 5)
			c.decide(broker.OpUnsuppress, "a", "e")
			told("once one of them is not any more, and another never was", 3, 5)
			if !c.limits.NoMove {
				c.accept(c.copyOf("b"))
				c.same("suppressed jobs where one was restored", c.counted(elsewhere).Suppressed, int64(1))
			}
			c.decide(broker.OpRedrive, "b")
			told("after a redrive", 2, 4)
			c.decide(broker.OpDelete, "c", "e")
			told("after a delete", 1, 2)
			w.settle(broker.Die(broker.ReasonRetries, failure("x")), w.one("b"))
			told("after the redriven one died again", 1, 3)
			c.policy(broker.PolicyRequest{RetainDead: &broker.Retention{Age: time.Minute}})
			c.pass(time.Minute)
			c.prune()
			told("once all are pruned", 0, 0)
		}},
	{"Count/QueuesAreSorted", "§23", "Queues are sorted by name; if queues are asked for by name, those that do not exist are left out.", nil,
		func(c *check) {
			for _, q := range []string{"b", "c", "a", "B"} {
				c.accept(c.jobIn(q, "x"))
			}
			names := func(asked ...string) []string {
				reply := ask(c, "Queues", c.b.Queues, broker.QueuesRequest{Now: c.now, Names: asked})
				var names []string
				for _, q := range reply.Queues {
					names = append(names, q.Name)
				}
				return names
			}
			c.same("queues", names(), []string{"B", "a", "b", "c"})
			c.same("queues by name", names("c", "unknown", "a"), []string{"a", "c"})
		}},
	{"Count/AreOfOneQueue", "§23", "Counts count only the jobs of their own queue.", nil, func(c *check) {
		c.accept(c.job("a"), c.job("b"), c.jobIn("other", "a"))
		c.worker("w", "other").claim(1)
		c.same("pending here", c.counted(c.q).Counts[broker.StatePending], int64(2))
		c.same("active here", c.counted(c.q).Counts[broker.StateActive], int64(0))
		c.same("pending there", c.counted("other").Counts[broker.StatePending], int64(0))
		c.same("active there", c.counted("other").Counts[broker.StateActive], int64(1))
	}},
}

func (c *check) countsAre(want map[broker.State]int64) {
	c.tb.Helper()
	got := c.counted(c.q).Counts
	for _, state := range broker.States() {
		if got[state] != want[state] {
			c.failf("counts\ngot  %s\nwant %s", summary(got), summary(want))
		}
	}
}
