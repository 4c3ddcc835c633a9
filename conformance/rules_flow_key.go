package conformance

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Rules about the limits and the policies of keys.
var keyRules = []Rule{
	{"Key/MaxActiveBounds", "§35",
		"Of each key at most KeyMaxActive jobs are active over all workers; a claim skips keys that have as many.", flow, func(c *check) {
			c.policy(broker.PolicyRequest{KeyMaxActive: new(int64(2))})
			c.addTo("a", "a1", "a2", "a3", "a4")
			c.addTo("b", "b1", "b2", "b3")
			w, v := c.worker("w"), c.workerOn(c.open(), "v")
			held := append(w.claim(3), v.claim(10)...)
			c.same("claimed", sorted(idsOf(held)), []string{"a1", "a2", "b1", "b2"})
			w.rest()
			v.rest()
			c.addTo("c", "c1")
			v.take("c1")
			c.blocked("a", broker.BlockActive)
			c.blocked("c", broker.BlockNone)
			for i := range held {
				if held[i].ID == "a1" {
					(&worker{c: c, b: c.b, id: held[i].Worker, number: 10}).settle(broker.Complete(nil), &held[i])
				}
			}
			v.take("a3")
			v.rest()
		}},
	{"Key/ActiveIsCountedFromLeases", "§35",
		"The active jobs of a key are counted from leases: lost answers, workers that ran out, reclaims, retires and cancels neither leak " +
			"a slot nor add one.", flow, func(c *check) {
			c.policy(broker.PolicyRequest{KeyMaxActive: new(int64(2))})
			c.countsLeases(func(ids ...string) { c.addTo("k", ids...) })
			u := c.worker("u")
			for i := range 3 {
				held := u.claim(5)
				c.same("jobs claimed", len(held), 2)
				u.rest()
				u.settle([]broker.Outcome{broker.Snooze(time.Hour, failure("")), broker.Die(broker.ReasonRetries, failure("x")),
					broker.Crash(0, failure("x"))}[i],
					&held[0])
				u.settle(broker.Release(), &held[1])
			}
			c.decide(broker.OpDelete, sorted(idsOf(append(c.list(broker.Query{Key: "k", State: broker.StatePending}),
				c.list(broker.Query{Key: "k", State: broker.StateRetry})...)))...)
			c.same("active of the key when all is over", c.key("k").Active, int64(0))
			c.addTo("k", "x", "y", "z")
			c.same("claimed anew", idsOf(u.claim(5)), []string{"x", "y"})
		}},
	{"Key/RateBounds", "§35",
		"Of each key claims lease as many jobs as a Bucket of its rate allows, also when the key had no jobs in between.", flow, func(c *check) {
			rate := broker.Rate{Jobs: 2, Per: 10 * time.Second, Burst: 1}
			c.policy(broker.PolicyRequest{KeyRate: &rate})
			workers := []*worker{c.worker("w"), c.workerOn(c.open(), "v")}
			buckets := map[string]*broker.Bucket{"a": {}, "b": {}}
			made := 0
			for step, pass := range []time.Duration{0, 1, 2, 2, 30, 0, 4, 1, 5, 100, 3, 2} {
				c.pass(pass * time.Second)
				c.prune()
				w := workers[step%2]
				want := map[string]int64{}
				for key, bucket := range buckets {
					if step%3 == 2 && key == "b" {
						continue // it has no jobs now
					}
					c.addTo(key, numbered(fmt.Sprint(key, step), 5)...)
					made += 5
					want[key], _ = bucket.Free(rate, c.now.UnixMicro())
					bucket.Take(want[key])
				}
				got := map[string]int64{}
				for _, j := range w.claim(50) {
					got[j.Key]++
				}
				for key := range buckets {
					c.same(fmt.Sprintf("jobs of %s claimed in step %d", key, step), got[key], want[key])
				}
				w.rest()
				for _, w := range workers {
					w.settle(broker.Complete(nil), refs(c.list(broker.Query{Worker: w.id}))...)
					w.renew()
				}
				c.decide(broker.OpDelete, idsOf(c.list(broker.Query{State: broker.StatePending, Limit: 100}))...)
			}
		}},
	{"Key/TellsWhenTimeMakesRoom", "§37",
		"NextDue is not later than the earliest time when the rate of a key allows its next job.", flow, func(c *check) {
			c.policy(broker.PolicyRequest{KeyRate: &broker.Rate{Jobs: 1, Per: time.Minute}})
			w := c.worker("w")
			c.addTo("a", "a1", "a2")
			start := c.now
			w.take("a1")
			c.pass(10 * time.Second)
			c.addTo("b", "b1", "b2")
			w.take("b1")
			c.that(c.blocked("a", broker.BlockRate).Until.Equal(c.up(start.Add(time.Minute))), "Until\ngot  %v\nwant %v",
				c.key("a").Until, start.Add(time.Minute))
			w.until(start.Add(time.Minute), "a2")
			w.until(start.Add(70*time.Second), "b2")
			c.that(w.rest().NextDue.IsZero(), "NextDue with nothing pending\ngot  a time\nwant none")
		}},
	{"Key/PauseKeepsItsJobsBack", "§35",
		"A paused key keeps back all its jobs and no others, accepts more, and continues when it is resumed.", flow, func(c *check) {
			c.addTo("a", "a1", "a2")
			c.addTo("b", "b1")
			w := c.worker("w")
			a1 := w.one("a1")
			c.policy(broker.PolicyRequest{Key: "a", Paused: new(true)})
			c.add("c1")
			c.same("claimed beside a paused key", sorted(idsOf(w.claim(9))), []string{"b1", "c1"})
			c.addTo("a", "a3")
			w.settle(broker.Release(), a1)
			w.rest()
			c.blocked("a", broker.BlockPaused)
			c.b = c.open()
			c.workerOn(c.b, "v").rest()
			c.policy(broker.PolicyRequest{Key: "a", Paused: new(false)})
			c.workerOn(c.b, "v").take("a1", "a2", "a3")
		}},
	{"Key/MaxDepthBounds", "§35",
		"If a key has KeyMaxDepth waiting jobs, including retries, more are refused, with an error about the key; other keys still accept jobs.",
		flow, func(c *check) {
			c.policy(broker.PolicyRequest{KeyMaxDepth: new(int64(2))})
			late := c.keyedJob("a2", "a")
			late.Delay = time.Hour
			r := c.enqueue(c.keyedJob("a1", "a"), late, c.keyedJob("a3", "a"), c.keyedJob("b1", "b"), c.job("c1"), c.job("c2"), c.job("c3"))
			c.errs(r, nil, nil, broker.ErrQueueFull, nil, nil, nil, nil)
			var full *broker.Error
			c.that(errors.As(r[2].Err, &full) && full.Field == "key", "the third of a key\ngot  %v\nwant an Error with the field key",
				r[2].Err)
			c.gone("a3")
			w := c.worker("w")
			a1 := w.one("a1")
			c.addTo("a", "a3")
			c.refuse(c.keyedJob("a4", "a"), broker.ErrQueueFull)
			w.settle(broker.Retry(time.Hour, failure("x")), a1) // never refused
			c.same("depth", c.key("a").Depth, int64(3))
			c.decide(broker.OpDelete, "a2")
			c.refuse(c.keyedJob("a4", "a"), broker.ErrQueueFull)
			c.policy(broker.PolicyRequest{Key: "a", MaxDepth: new(int64(3))})
			c.addTo("a", "a4")
			c.policy(broker.PolicyRequest{Key: "b", MaxDepth: new(int64(1))})
			c.refuse(c.keyedJob("b2", "b"), broker.ErrQueueFull)
			c.policy(broker.PolicyRequest{MaxDepth: new(int64(1))})
			err := c.refuse(c.keyedJob("b2", "b"), broker.ErrQueueFull).Err
			c.that(errors.As(err, &full) && full.Field == "",
				"by the queue and by the key\ngot  %v\nwant the refusal of the queue, which comes first", err)
		}},
	{"Key/DepthComesBeforeUniqueKeys", "§18",
		"If a job's partition key is full and its unique key is held, the full key refuses it, even if an earlier job of the " +
			"request filled the key; the bytes of the queue refuse before that, and its depth first.", flow.and(unique),
		func(c *check) {
			c.policy(broker.PolicyRequest{KeyMaxDepth: new(int64(1))})
			keyed := func(id, key, unique string) broker.NewJob {
				j := c.uniqueJob(id, unique, untilDone, 0)
				j.Body.Key = key
				return j
			}
			c.accept(keyed("holder", "z", "u"))
			r := c.enqueue(keyed("a1", "a", "u"), keyed("b1", "b", ""), keyed("b2", "b", "u"), keyed("a2", "a", "u"))
			c.errs(r, broker.ErrDuplicate, nil, broker.ErrQueueFull, broker.ErrDuplicate)
			for _, by := range []struct {
				field string
				limit broker.PolicyRequest
			}{{"key", broker.PolicyRequest{}}, {"bytes", broker.PolicyRequest{MaxBytes: new(int64(1))}},
				{"", broker.PolicyRequest{MaxDepth: new(int64(1))}}} { // each goes before those before it
				c.policy(by.limit)
				var full *broker.Error
				err := c.refuse(keyed("b3", "b", "u"), broker.ErrQueueFull).Err
				c.that(errors.As(err, &full) && full.Field == by.field, "Enqueue of b3\ngot  %v\nwant an Error with the field %q", err, by.field)
			}
		}},
	{"Key/OwnRulesTakeThePlace", "§33",
		"Each rule of a key's own policy replaces the queue's rule for each key.", flow, func(c *check) {
			c.policy(broker.PolicyRequest{KeyMaxActive: new(int64(1)), KeyRate: &broker.Rate{Jobs: 1, Per: time.Minute, Burst: 2}})
			want := broker.Policy{MaxActive: 2}
			c.same("policy of a key", c.policy(broker.PolicyRequest{Key: "a", MaxActive: new(int64(2))}), want)
			c.addTo("a", "a1", "a2", "a3", "a4", "a5")
			c.addTo("b", "b1", "b2")
			w := c.worker("w")
			got := w.claim(9)
			c.same("claimed", sorted(idsOf(got)), []string{"a1", "a2", "b1"})
			c.policy(broker.PolicyRequest{Key: "a", MaxActive: new(int64(9))})
			w.take("a3")
			c.blocked("a", broker.BlockRate) // by the queue's KeyRate, which still applies
			want.MaxActive, want.Rate = 9, broker.Rate{Jobs: 10, Per: time.Second, Burst: 10}
			c.same("policy of the key", c.policy(broker.PolicyRequest{Key: "a", Rate: &want.Rate}), want)
			c.same("as Keys shows it", c.key("a").Policy, want)
			c.same("policy of the queue", c.policy(broker.PolicyRequest{}).MaxActive, int64(0))
			w.rest() // the new rate counts what the old one counted
			c.pass(time.Second)
			w.take("a4", "a5")
			c.policy(broker.PolicyRequest{Key: "a", MaxActive: new(int64(broker.NoLimit)), Rate: &broker.Rate{Jobs: broker.NoLimit}})
			c.addTo("a", "a6")
			w.rest()
			c.blocked("a", broker.BlockActive)
		}},
	{"Key/LivesWithoutJobs", "§33",
		"A key with a policy of its own is listed without jobs until its last rule, or the queue, is removed.", flow, func(c *check) {
			c.policy(broker.PolicyRequest{Key: "b", Paused: new(true)})
			c.policy(broker.PolicyRequest{Key: "b", Weight: new(int64(3))})
			c.policy(broker.PolicyRequest{Key: "a", MaxDepth: new(int64(3))})
			c.same("keys of a queue without jobs", c.keyNames(9), []string{"a", "b"})
			c.b = c.open()
			c.same("policy of b", c.policy(broker.PolicyRequest{Key: "b"}), broker.Policy{Paused: true, Weight: 3})
			c.policy(broker.PolicyRequest{Key: "b", Paused: new(false)})
			c.same("keys", c.keyNames(9), []string{"a", "b"})
			c.policy(broker.PolicyRequest{Key: "b", Weight: new(int64(broker.NoLimit))})
			c.same("keys when the last rule of b was removed", c.keyNames(9), []string{"a"})
			c.same("policy of b", c.policy(broker.PolicyRequest{Key: "b"}), broker.Policy{})
			c.ok("removal of the queue", c.removeQueue(c.q))
			c.add("j")
			c.same("keys of a queue of the same name", len(c.keyNames(9)), 0)
			c.same("policy of a", c.policy(broker.PolicyRequest{Key: "a"}), broker.Policy{})
		}},
	{"Key/NoneHasNoLimit", "§33", "No limit of a key applies to jobs without a key, and they count for none.", flow, func(c *check) {
		c.policy(broker.PolicyRequest{KeyMaxActive: new(int64(1)), KeyRate: &broker.Rate{Jobs: 1, Per: time.Hour},
			KeyMaxDepth: new(int64(1))})
		c.add("x1", "x2", "x3")
		c.addTo("k", "k1")
		w := c.worker("w")
		c.same("claimed", sorted(idsOf(w.claim(9))), []string{"k1", "x1", "x2", "x3"})
		c.same("keys", c.keyNames(9), []string{"k"})
	}},
	{"Key/BlockedOnesHinderNoOther", "§35",
		"However many keys are blocked, and however many jobs they have, the jobs of other keys are claimed at once.",
		flow, func(c *check) {
			c.policy(broker.PolicyRequest{KeyMaxActive: new(int64(1))})
			w := c.worker("w")
			const keys = 300
			var jobs []broker.NewJob
			for i := range keys {
				for k := range 4 {
					jobs = append(jobs, c.keyedJob(fmt.Sprintf("j%d-%d", i, k), fmt.Sprint("key ", i)))
				}
				if len(jobs) > 900 {
					c.accept(jobs...)
					jobs = nil
				}
			}
			c.accept(jobs...)
			c.same("jobs claimed", len(w.claim(2*keys)), keys)
			w.rest()
			c.addTo("free", "a")
			c.add("b")
			got := ask(c, "Claim", w.b.Claim, w.request(2))
			rest := w.claim(2 - len(got.Jobs))
			c.same("claimed", sorted(append(idsOf(got.Jobs), idsOf(rest)...)), []string{"a", "b"})
			w.rest()
		}},
	{"Key/KeysTellsAll", "§33",
		"Keys shows for each key the numbers of pending, active and waiting jobs, the creation of its next job, its policy, and why it " +
			"may start nothing.",
		flow,
		func(c *check) {
			c.keep(time.Hour)
			w := c.worker("w")
			c.addTo("gone", "g")
			w.settle(broker.Complete(nil), w.one("g"))
			late := c.keyedJob("late", "k")
			late.Delay = time.Hour
			c.accept(c.keyedJob("a", "k"), c.keyedJob("b", "k"), c.keyedJob("c", "k"), late)
			want := broker.KeyInfo{Key: "k", Pending: 2, Active: 1, Depth: 4, Oldest: c.find("c").CreatedAt}
			c.pass(time.Second)
			c.addTo("k", "d")
			c.addTo("other", "x")
			held := w.claim(3)
			c.same("claimed", sorted(idsOf(held)), []string{"a", "b", "x"})
			for i := range held {
				if held[i].ID == "a" {
					w.settle(broker.Retry(time.Hour, failure("x")), &held[i])
				}
			}
			tells := func(want broker.KeyInfo) {
				c.tb.Helper()
				got := c.key("k")
				c.that(got.Oldest.Equal(want.Oldest) && got.Until.Equal(want.Until), "times of the key\ngot  %v and %v\nwant %v and %v",
					got.Oldest,
					got.Until, want.Oldest, want.Until)
				got.Oldest, got.Until = want.Oldest, want.Until
				c.same("the key", got, want)
			}
			tells(want)
			c.policy(broker.PolicyRequest{KeyMaxActive: new(int64(1))})
			want.Block = broker.BlockActive
			tells(want)
			c.policy(broker.PolicyRequest{Key: "k", Paused: new(true)})
			want.Block, want.Policy.Paused = broker.BlockPaused, true
			tells(want)
			c.policy(broker.PolicyRequest{Key: "k", Paused: new(false), MaxActive: new(int64(2)), Rate: &broker.Rate{Jobs: 1,
				Per: time.Minute}})
			w.take("c")
			c.policy(broker.PolicyRequest{Key: "k", MaxActive: new(int64(9))})
			want.Policy = broker.Policy{MaxActive: 9, Rate: broker.Rate{Jobs: 1, Per: time.Minute}}
			want.Pending, want.Active, want.Depth, want.Oldest = 1, 2, 3, c.find("d").CreatedAt
			want.Block, want.Until = broker.BlockRate, c.up(c.now.Add(time.Minute))
			tells(want)
			c.same("keys", c.keyNames(5), []string{"k", "other"}) // without a key whose only job has ended
			reply := ask(c, "Keys", c.b.Keys, broker.KeysRequest{Now: c.now, Queue: "no such", Names: []string{"k"}})
			c.same("keys of a queue that does not exist", len(reply.Keys), 0)
		}},
	{"Key/AreListedByTheirBytes", "§33",
		"Pages of Keys show every key once, sorted by bytes, whatever its name; keys asked for by name come in that " +
			"order, also unknown ones.", flow,
		func(c *check) {
			names := hostile()
			w := c.worker("w")
			for i, key := range names {
				c.addTo(key, fmt.Sprint("j", i))
			}
			for _, limit := range []int{1, 4, 1000} {
				c.same(fmt.Sprintf("keys in pages of %d", limit), c.keyNames(limit), sorted(names))
			}
			first := ask(c, "Keys", c.b.Keys, broker.KeysRequest{Now: c.now, Queue: c.q, Limit: 1})
			rest := ask(c, "Keys", c.open().Keys, broker.KeysRequest{Now: c.now, Queue: c.q, Cursor: first.Cursor})
			c.same("number of keys on a page of one and, of another handle, a page of the rest", len(first.Keys)+len(rest.Keys), len(names))
			asked := append([]string{"unknown"}, names...)
			reply := ask(c, "Keys", c.b.Keys, broker.KeysRequest{Now: c.now, Queue: c.q, Names: asked})
			c.same("number of keys", len(reply.Keys), len(asked))
			for i, k := range reply.Keys {
				c.same("key", k.Key, asked[i])
				c.same("pending of "+k.Key, k.Pending, int64(min(i, 1)))
			}
			for _, key := range names {
				c.policy(broker.PolicyRequest{Key: key, Paused: new(true)})
			}
			w.rest()
			for i, key := range names {
				c.policy(broker.PolicyRequest{Key: key, Paused: new(false)})
				w.settle(broker.Complete(nil), w.one(fmt.Sprint("j", i)))
			}
			c.same("keys when all is done", len(c.keyNames(100)), 0)
		}},
}

// hostile returns key names that a store may misread, for example as a pattern.
func hostile() []string {
	return []string{"*", "{k}", "a:b", "a b", "'; --", "\"",
		"\\", "\u00e9\u4e2d", "%s", "[a-z]", "0", "007", "k\u2028", "nil", "-", "K", "k", "~", "\U0010ffff",
		strings.Repeat("x", broker.MaxNameLen)}
}
