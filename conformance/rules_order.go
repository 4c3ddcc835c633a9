package conformance

import (
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

var orderRules = []Rule{
	{"Order/FirstInFirstOut", "§16",
		"Within a priority, jobs are claimed in the order in which they became pending, whichever handle enqueued them.", nil, func(c *check) {
			first, other := c.b, c.open()
			var ids []string
			for i := range 10 {
				id := fmt.Sprint("j", 9-i) // not in the order of their IDs
				c.b = []broker.Broker{first, other}[i%2]
				c.add(id)
				if i%3 == 0 {
					c.pass(time.Second)
				}
				ids = append(ids, id)
			}
			w := c.worker("w")
			w.take(ids[:4]...)
			w.take(ids[4:]...)
		}},
	{"Order/BatchesKeepTheirOrder", "§16", "A batch keeps its order, between other batches.", nil, func(c *check) {
		var ids []string
		for b := range 3 {
			var batch []string
			for i := range 40 {
				batch = append(batch, fmt.Sprintf("%d-%d", 9-b, (i*17)%40))
			}
			c.add(batch...)
			ids = append(ids, batch...)
		}
		c.worker("w").take(ids...)
	}},
	{"Order/LowerPriorityNumbersFirst", "§16", "Lower priority numbers go first, and within each the order stays.", priority,
		func(c *check) {
			var jobs []broker.NewJob
			for i, p := range []broker.Priority{4, 2, 3, 1, 2, 4, 1, 3} {
				j := c.job(fmt.Sprintf("%d-%d", p, i))
				j.Body.Priority = p
				jobs = append(jobs, j)
			}
			c.accept(jobs...)
			w := c.worker("w")
			w.take("1-3", "1-6", "2-1")
			urgent := c.job("1-late")
			urgent.Body.Priority = broker.PriorityUrgent
			c.accept(urgent)
			w.take("1-late", "2-4", "3-2", "3-7", "4-0", "4-5")
		}},
	{"Order/RoundsReachEachPriority", "§16",
		"With a PriorityRound, each round of jobs includes one of each priority that has pending jobs, in small claims and in large ones; " +
			"the others are the most urgent.", priority, func(c *check) {
			const round, each = 6, 30
			w := c.worker("w")
			next := map[broker.Priority]int{}
			for p := broker.PriorityUrgent; p <= broker.PriorityBulk; p++ {
				var jobs []broker.NewJob
				for i := range each {
					j := c.job(fmt.Sprintf("%d-%02d", p, i))
					j.Body.Priority = p
					jobs = append(jobs, j)
				}
				c.accept(jobs...)
			}
			c.policy(broker.PolicyRequest{PriorityRound: new(int64(round))})
			var order []broker.Priority
			went := func(got []broker.Job, most int) {
				c.tb.Helper()
				c.same("number of jobs", len(got), most)
				for i := range got {
					p := got[i].Priority
					c.same("job of its priority", got[i].ID, fmt.Sprintf("%d-%02d", p, next[p]))
					next[p]++
					order = append(order, p)
				}
			}
			for _, most := range []int{1, 1, 1, 1, 1, 1, 1, 1, 2, 3, 5, 1, 17, 2, 1, 4} {
				went(w.claim(most), most)
			}
			for range 8 { // claims that end early, at their bytes
				req := w.request(20)
				req.Bytes = 1
				got := ask(c, "Claim", w.b.Claim, req)
				went(got.Jobs, 1)
			}
			for i := range len(order) - round + 1 {
				n := map[broker.Priority]int{}
				for _, p := range order[i : i+round] {
					n[p]++
				}
				c.same(fmt.Sprintf("jobs of each priority, from the %d-th on, of %v", i+1, order), fmt.Sprint(n),
					fmt.Sprint(map[broker.Priority]int{1: 3, 2: 1, 3: 1, 4: 1}))
			}
			c.policy(broker.PolicyRequest{PriorityRound: new(int64(0))})
			c.same("next jobs without rounds", idsOf(w.claim(2)), []string{fmt.Sprintf("1-%02d", next[1]), fmt.Sprintf("1-%02d", next[1]+1)})
		}},
	{"Order/RoundsWasteNoTurn", "§16",
		"With a PriorityRound, the most urgent job takes the turn of a priority without pending jobs, and jobs of one priority keep their " +
			"order.", priority, func(c *check) {
			c.policy(broker.PolicyRequest{PriorityRound: new(int64(4))})
			var low, ids []string
			var jobs []broker.NewJob
			for i := range 9 {
				j := c.job(fmt.Sprint("3-", i))
				j.Body.Priority = broker.PriorityLow
				jobs, low = append(jobs, j), append(low, j.ID)
			}
			for i := range 2 {
				j := c.job(fmt.Sprint("1-", i))
				j.Body.Priority = broker.PriorityUrgent
				jobs, ids = append(jobs, j), append(ids, j.ID)
			}
			c.accept(jobs...)
			w := c.worker("w")
			got := w.claim(7)
			c.same("claimed", sorted(idsOf(got)), sorted(append(ids, low[:5]...)))
			var kept []string
			for i := range got {
				if got[i].Priority == broker.PriorityLow {
					kept = append(kept, got[i].ID)
				}
			}
			c.same("low jobs in the order of the answer", kept, low[:5])
			w.take(low[5:]...)
		}},
	{"Order/ReleasedGoToTheFront", "§16", "A released job is the next of its priority.", nil, func(c *check) {
		c.add("a", "b", "c")
		w := c.worker("w")
		held := w.take("a", "b")
		w.settle(broker.Release(), &held[1])
		c.add("d")
		w.take("b", "c", "d")
	}},
	{"Order/CrashedWithoutDelayGoToTheFront", "§16",
		"A crashed job goes to the front when it has no delay, and waits for its time when it has one.", nil, func(c *check) {
			c.add("a", "b", "c", "d")
			w := c.worker("w")
			held := w.take("a", "b")
			w.settle(broker.Crash(0, failure("crashed")), &held[1])
			w.settle(broker.Crash(time.Second, failure("crashed")), &held[0])
			w.take("b")
			c.pass(time.Second)
			w.take("c", "d", "a")
		}},
	{"Order/RetriedAtOnceGoToTheBack", "§16", "A job that is retried or snoozed without delay goes to the back.", nil, func(c *check) {
		c.add("a", "b", "c")
		w := c.worker("w")
		held := w.take("a", "b")
		w.settle(broker.Retry(0, failure("again")), &held[0])
		w.settle(broker.Snooze(0, failure("")), &held[1])
		c.add("d")
		w.take("c", "a", "b", "d")
	}},
	{"Order/DueGoToTheBack", "§16", "A job that falls due goes behind the jobs that are already pending.", nil, func(c *check) {
		c.accept(c.later("due", time.Minute))
		c.pass(30 * time.Second)
		c.add("a", "b")
		c.pass(30 * time.Second)
		w := c.worker("w")
		w.take("a")
		c.add("c")
		w.take("b", "due", "c")
	}},
	{"Order/DueGoByDueTime", "§16", "Several jobs that fall due in one call are claimed by due time.", nil, func(c *check) {
		var jobs []broker.NewJob
		for _, s := range []int{30, 10, 50, 20, 40} {
			j := c.later(fmt.Sprint("due", s), time.Duration(s)*time.Second)
			jobs = append(jobs, j)
		}
		c.accept(jobs...)
		c.pass(time.Minute)
		c.worker("w").take("due10", "due20", "due30", "due40", "due50")
	}},
	{"Order/DueKeepTheirPriority", "§16", "A job that falls due is claimed by its priority.", priority, func(c *check) {
		bulk, urgent := c.job("bulk"), c.job("urgent")
		bulk.Body.Priority, bulk.Delay = broker.PriorityBulk, time.Second
		urgent.Body.Priority, urgent.Delay = broker.PriorityUrgent, time.Minute
		c.accept(bulk, c.job("normal"), urgent)
		c.pass(time.Minute)
		c.worker("w").take("urgent", "normal", "bulk")
	}},
	{"Order/RedrivenGoToTheBack", "§16", "A redriven job goes to the back.", nil, func(c *check) {
		c.add("a", "b")
		w := c.worker("w")
		w.settle(broker.Die(broker.ReasonSkipRetry, failure("no")), w.one("a"))
		c.decide(broker.OpRedrive, "a")
		c.add("c")
		w.take("b", "a", "c")
	}},
	{"Order/RescheduledGoToTheBack", "§16", "A pending job that is rescheduled goes to the back, at once or when it is due.", nil,
		func(c *check) {
			c.add("a", "b", "c")
			c.decide(broker.OpReschedule, "a")
			c.reschedule(time.Second, "b")
			c.pass(time.Second)
			w := c.worker("w")
			w.take("c", "a", "b")
		}},
	{"Order/FrontIsOfAPriority", "§16", "A released job does not overtake jobs of a more urgent priority.", priority, func(c *check) {
		bulk := c.job("bulk")
		bulk.Body.Priority = broker.PriorityBulk
		c.accept(bulk)
		w := c.worker("w")
		held := w.one("bulk")
		other := c.job("other bulk")
		other.Body.Priority = broker.PriorityBulk
		c.accept(other, c.job("normal"))
		w.settle(broker.Release(), held)
		w.take("normal", "bulk", "other bulk")
	}},
	{"Order/RetiredGoToTheFront", "§12", "The jobs of a retiring worker go to the front.", nil, func(c *check) {
		c.add("a", "b", "c")
		w := c.worker("w")
		w.take("a", "b")
		w.retire()
		got := idsOf(c.worker("w2").claim(3))
		c.same("first two", sorted(got[:min(2, len(got))]), []string{"a", "b"})
		c.same("last", got[2:], []string{"c"})
	}},
	{"Order/StaysBehindAReturnedJob", "§16", "A job that returns to the front repeatedly does not change the order behind it.",
		nil, func(c *check) {
			c.add("first")
			w := c.worker("w")
			want := []string{"first"}
			for i := range 10 {
				held := w.one("first")
				id := fmt.Sprint("behind", i)
				c.add(id)
				w.settle(broker.Release(), held)
				want = append(want, id)
			}
			w.take(want...)
		}},
}
