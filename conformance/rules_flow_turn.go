package conformance

import (
	"fmt"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Rules about the turns of keys. Each makes one call at a time, on one handle.
var turnRules = []Rule{
	{"Turn/EachKeyHasOneBeforeAnyHasTwo", "§34",
		"Keys with pending jobs take turns, in small claims and in large ones, and the jobs of each keep their order.", flow, func(c *check) {
			for _, key := range []string{"a", "b", "c", "d", "e"} {
				c.addTo(key, numbered(key, 20)...)
			}
			c.turns(c.worker("w"), map[string]int64{"a": 1, "b": 1, "c": 1, "d": 1, "e": 1}, []int{1, 1, 2, 3, 1, 5, 7, 1, 10, 4, 20, 1,
				1, 1, 9}, 1)
		}},
	{"Turn/ManyJobsOfOneKeyDelayAnotherByOne", "§34",
		"However many jobs one key has, a new job of another key is claimed after at most one of them.", flow, func(c *check) {
			for i := range 3 {
				c.addTo("a", numbered(fmt.Sprint("a", i), 300)...)
			}
			w := c.worker("w")
			w.oneByOne(10)
			for i := range 5 {
				id := fmt.Sprint("b", i)
				c.addTo([]string{"b", "c", "b", "", "d"}[i], id)
				got := idsOf(w.oneByOne(2))
				c.that(got[0] == id || got[1] == id, "claimed after %s was enqueued\ngot  %v\nwant it after at most one other", id, got)
				w.oneByOne(i)
			}
		}},
	{"Turn/ANewKeyComesAfterOneOfEach", "§34",
		"A key that becomes able to start a job, by enqueue, settle, resume or time, gets its first turn after at most one job of " +
			"each other key, and no more turns than they from then on.", flow, func(c *check) {
			for _, key := range []string{"a", "b", "c"} {
				c.addTo(key, numbered(key, 100)...)
			}
			c.policy(broker.PolicyRequest{Key: "n", MaxActive: new(int64(1)), Rate: &broker.Rate{Jobs: 1, Per: time.Minute, Burst: 20}})
			w := c.worker("w")
			w.oneByOne(37)
			c.addTo("n", numbered("n", 30)...)
			var held *broker.Job
			first := func(why string) {
				c.tb.Helper()
				for i := 0; held == nil; i++ {
					c.that(i < 4, "a key that may start a job, %s\ngot  four jobs of others\nwant one of its own after three", why)
					if got := w.oneByOne(1); got[0].Key == "n" {
						held = &got[0]
					}
				}
			}
			first("which is new")
			w.oneByOne(20)
			w.settle(broker.Complete(nil), held)
			held = nil
			first("which ran as many as may")
			c.policy(broker.PolicyRequest{Key: "n", Paused: new(true), MaxActive: new(int64(50))})
			w.oneByOne(5)
			c.policy(broker.PolicyRequest{Key: "n", Paused: new(false)})
			held = nil
			first("which was paused")
			n := 0
			for _, j := range w.oneByOne(40) {
				if j.Key == "n" {
					n++
				}
			}
			c.that(9 <= n && n <= 11,
				"of 40 jobs of four keys those of the key that came late\ngot  %d\nwant 10: it neither gains nor loses", n)
		}},
	{"Turn/NobodySavesTurnsUp", "§34",
		"A key that had no jobs for a long time gets no more turns than others when it has some, and a key that comes back for " +
			"each job gains nothing.",
		flow,
		func(c *check) {
			w := c.worker("w")
			c.addTo("a", numbered("a", 120)...)
			c.addTo("b", numbered("b", 120)...)
			c.addTo("late", "l0")
			for range 10 {
				w.claim(10)
			}
			c.addTo("late", numbered("l", 50)...)
			c.turns(w, map[string]int64{"a": 1, "b": 1, "l": 1}, []int{1, 1, 1, 1, 5, 9, 30}, 2)
			n := 0
			for i := range 10 { // the key has one job at a time
				c.addTo("single", fmt.Sprint("s", i))
				for more := true; more; {
					got := w.oneByOne(1)
					n++
					more = got[0].Key != "single"
				}
			}
			c.that(n >= 27, "jobs claimed until a key that has one job at a time, beside three others, had 10\ngot  %d\nwant about 40", n)
		}},
	{"Turn/NobodyRepaysTurns", "§34",
		"A key that had all turns while no other key had jobs then waits for one round of the others, like a new key; so do the " +
			"jobs without a key.",
		flow, func(c *check) {
			w := c.worker("w")
			for _, key := range []string{"", "b"} {
				for turn := range 2 { // in one claim, and in several
					alone, then := fmt.Sprint("alone", key, turn, " "), fmt.Sprint("then", key, turn, " ")
					c.addTo(key, numbered(alone, 30)...)
					held := w.claim([]int{30, 5}[turn])
					for len(held) < 30 {
						held = append(held, w.claim(5)...)
					}
					c.addTo("c", numbered(then+"c", 30)...)
					c.addTo("d", numbered(then+"d", 30)...)
					c.addTo(key, numbered(then+"e", 30)...)
					held = append(held, w.oneByOne(7)...) // one round, and one more of each for rounding
					c.that(slices.ContainsFunc(held[30:], func(j broker.Job) bool { return j.Key == key }),
						"jobs claimed beside those of the key %q, which had been alone\ngot  %v\nwant one of its jobs among them", key, idsOf(held[30:]))
					for more := w.claim(100); len(more) > 0; more = w.claim(100) {
						held = append(held, more...)
					}
					w.settle(broker.Complete(nil), refs(held)...)
				}
			}
		}},
	{"Turn/WeightsAreTurns", "§34",
		"A key of weight w has w turns while a key of weight 1 has one, from the next turn after the weight is set.", flow, func(c *check) {
			weights := map[string]int64{"a": 1, "b": 3, "c": 1, "d": 2}
			for key := range weights {
				c.addTo(key, numbered(key, 250)...)
			}
			for key, weight := range weights {
				if weight > 1 {
					c.policy(broker.PolicyRequest{Key: key, Weight: &weight})
				}
			}
			w := c.worker("w")
			c.turns(w, weights, []int{1, 1, 1, 1, 1, 1, 1, 7, 14, 35, 3, 3, 1}, 2)
			c.policy(broker.PolicyRequest{Key: "b", Weight: new(int64(broker.NoLimit))})
			c.policy(broker.PolicyRequest{Key: "a", Weight: new(int64(5))})
			w.claim(40)
			c.turns(w, map[string]int64{"a": 5, "b": 1, "c": 1, "d": 2}, []int{9, 9, 9, 1, 1, 7, 9}, 2)
		}},
	{"Turn/JobsWithoutAKeyAreOneMore", "§34", "All jobs without a key together count as one more key.", flow, func(c *check) {
		c.add(numbered("x", 50)...)
		c.addTo("a", numbered("a", 50)...)
		c.addTo("b", numbered("b", 50)...)
		c.turns(c.worker("w"), map[string]int64{"x": 1, "a": 1, "b": 1}, []int{1, 1, 1, 1, 6, 10, 1, 30}, 1)
	}},
	{"Turn/PriorityGoesBeforeTurns", "§34",
		"Turns are within a priority: an urgent job of one key goes before the less " +
			"urgent jobs of every key.", flow.and(priority), func(c *check) {
			var jobs []broker.NewJob
			for i := range 12 {
				j := c.keyedJob(fmt.Sprint(i), fmt.Sprint("k", i%3))
				if j.Body.Priority = broker.PriorityNormal; i >= 8 {
					j.ID, j.Body.Priority = fmt.Sprint("urgent", i), broker.PriorityUrgent
					j.Body.Key = "k0"
				}
				jobs = append(jobs, j)
			}
			c.accept(jobs...)
			w := c.worker("w")
			w.take("urgent8", "urgent9", "urgent10", "urgent11")
			seen := map[string]bool{}
			for _, j := range w.oneByOne(3) {
				seen[j.Key] = true
			}
			c.same("keys that had a turn of three", len(seen), 3)
		}},
	{"Turn/RoundsReachEachPriorityOfKeys", "§16",
		"With a PriorityRound, each round of jobs includes one of each priority that has jobs which may start, and within each priority " +
			"keys take turns.", flow.and(priority), func(c *check) {
			c.policy(broker.PolicyRequest{PriorityRound: new(int64(5))})
			for p := broker.PriorityUrgent; p <= broker.PriorityBulk; p++ {
				for _, key := range []string{"a", "b"} {
					var jobs []broker.NewJob
					for _, id := range numbered(fmt.Sprint(key, p), 30) {
						j := c.keyedJob(id, key)
						j.Body.Priority = p
						jobs = append(jobs, j)
					}
					c.accept(jobs...)
				}
			}
			w := c.worker("w")
			got := w.oneByOne(30)
			last := map[broker.Priority]string{}
			for i := range got {
				if i+5 <= len(got) {
					n := map[broker.Priority]int{}
					for _, j := range got[i : i+5] {
						n[j.Priority]++
					}
					c.same(fmt.Sprintf("jobs of each priority of five, from the %d-th on", i+1), fmt.Sprint(n),
						fmt.Sprint(map[broker.Priority]int{1: 2, 2: 1, 3: 1, 4: 1}))
				}
				j := got[i]
				c.that(last[j.Priority] != j.Key, "jobs of priority %d\ngot  two of the key %s in a row\nwant the other's turn",
					j.Priority, j.Key)
				last[j.Priority] = j.Key
			}
			c.policy(broker.PolicyRequest{Key: "a", Paused: new(true)})
			c.policy(broker.PolicyRequest{Key: "b", Paused: new(true)})
			bulk := c.job("x")
			bulk.Body.Priority = broker.PriorityBulk
			c.accept(bulk)
			w.take("x")
			w.rest()
		}},
	{"Turn/RoundsGoByTheJobsThatTheirQueueGives", "§16",
		"A round counts the jobs of its queue, whatever other queues give to the same claims. If a key at its limit cannot use a turn, the " +
			"claim gives another job, or says More.", flow.and(priority), func(c *check) {
			of := func(id, key string, p broker.Priority) broker.NewJob {
				j := c.keyedJob(id, key)
				j.Body.Priority = p
				return j
			}
			c.policy(broker.PolicyRequest{PriorityRound: new(int64(4))})
			w := c.worker("w", "other", c.q)
			for i := range 32 {
				beside := c.keyedJob(fmt.Sprint(i), "a")
				beside.Queue = "other"
				c.accept(of(fmt.Sprint("urgent", i), "a", broker.PriorityUrgent), of(fmt.Sprint("bulk", i), "a", broker.PriorityBulk), beside)
			}
			without := 0
			for i := range 32 { // the other queue gives a job to every fourth claim, which moves on after eight claims
				req := w.request(2)
				req.Queues[0].Max, req.Queues[1].Max = 0, 1
				if i%4 == i/8 {
					req.Queues[0].Max = 1
				}
				got, err := c.b.Claim(c.ctx, req)
				c.ok("Claim", err)
				for _, j := range got.Jobs {
					if without++; j.Queue == "other" {
						without--
					} else if j.Priority == broker.PriorityBulk {
						without = 0
					}
				}
				c.that(without < 4, "jobs in a row without one of the lowest priority\ngot  %d\nwant less than a round of 4", without)
			}
			c.q = "short"
			c.policy(broker.PolicyRequest{PriorityRound: new(int64(4)), KeyMaxActive: new(int64(1))})
			c.accept(of("a", "k", broker.PriorityUrgent), of("b", "k", broker.PriorityNormal))
			c.add("c", "d", "e")
			c.same("jobs claimed", len(c.worker("v").claim(3)), 3)
		}},
	{"Turn/ReleasedAreFirstOfTheirKey", "§34", "A released job is the first of its key, and of no other.", flow, func(c *check) {
		c.addTo("a", "a1", "a2", "a3")
		c.addTo("b", "b1", "b2", "b3")
		w := c.worker("w")
		held := w.claim(4)
		c.same("claimed", sorted(idsOf(held)), []string{"a1", "a2", "b1", "b2"})
		w.settle(broker.Release(), refs(held)...)
		got := map[string][]string{}
		for _, j := range w.oneByOne(6) {
			got[j.Key] = append(got[j.Key], j.ID)
		}
		for key, ids := range got {
			c.same("the first two of "+key, sorted(ids[:2]), []string{key + "1", key + "2"})
			c.same("the last of "+key, ids[2], key+"3")
		}
	}},
}

// turns makes claims of these sizes. It requires that after each claim no key is more
// than slack of its turns ahead of another, and that the jobs of each key keep their
// order. All keys must have pending jobs to the end. The first letter of a job's ID is
// its key.
func (c *check) turns(w *worker, weights map[string]int64, sizes []int, slack int64) {
	c.tb.Helper()
	had, last := map[string]int64{}, map[string]string{}
	var order list
	for _, n := range sizes {
		got := w.claim(n)
		c.same("number of jobs claimed", len(got), n)
		for _, j := range got {
			key := j.ID[:1]
			had[key]++
			order.add(j.ID)
			c.that(last[key] < j.ID, "jobs of the key %s\ngot  %s after %s\nwant them in order", key, j.ID, last[key])
			last[key] = j.ID
		}
		for a, weight := range weights {
			for b, other := range weights {
				c.that(had[a]*other-had[b]*weight <= slack*weight*other,
					"jobs of the keys %s (weight %d) and %s (weight %d)\ngot  %d and %d, of %s\nwant no key ahead by more than %d of its turns",
					a, weight, b, other, had[a], had[b], order, slack)
			}
		}
	}
}
