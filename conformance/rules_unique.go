package conformance

import (
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

const (
	untilDone    = broker.UniqueUntilDone
	untilStarted = broker.UniqueUntilStarted
	window       = broker.UniqueWindow
)

var uniqueRules = []Rule{
	{"Unique/SecondIsRefused", "§19",
		"While a key is held, another job with it is refused with ErrDuplicate and the holder's ID, on every handle.", unique,
		func(c *check) {
			c.accept(c.uniqueJob("a", "key", untilDone, 0), c.uniqueJob("b", "key2", untilDone, 0))
			c.same("holder", c.refuse(c.uniqueJob("c", "key", untilDone, 0), broker.ErrDuplicate).Holder, "a")
			c.b = c.open()
			c.same("holder", c.refuse(c.uniqueJob("c", "key2", untilStarted, time.Hour), broker.ErrDuplicate).Holder, "b")
			c.gone("c")
			c.worker("w").take("a", "b")
		}},
	{"Unique/HoldsWithinARequest", "§18", "Of two jobs with one key in a request, the first is accepted.", unique, func(c *check) {
		r := c.enqueue(c.uniqueJob("a", "key", untilDone, 0), c.uniqueJob("b", "key", untilDone, 0),
			c.uniqueJob("c", "other", untilDone, 0))
		c.ok("the first", r[0].Err)
		c.is("the second", r[1].Err, broker.ErrDuplicate)
		c.same("holder", r[1].Holder, "a")
		c.ok("the third", r[2].Err)
		c.gone("b")
	}},
	{"Unique/TheIDComesFirstWithinARequest", "§18",
		"If earlier jobs of a request have taken the ID and the unique key of a job, the job is " +
			"refused because of its ID.", unique, func(c *check) {
			r := c.enqueue(c.uniqueJob("a", "key", untilDone, 0), c.uniqueJob("b", "key", untilDone, 0), c.job("c"),
				c.uniqueJob("c", "key", untilDone, 0))
			c.same("holder of the key", r[1].Holder, "a")
			c.ok("the job between them", r[2].Err)
			c.is("the last", r[3].Err, broker.ErrDuplicate)
			c.same("what refuses the last", r[3].Holder, "c")
		}},
	{"Unique/KeysAreOfAQueue", "§1", "A key is free in one queue although it is held in another.", unique, func(c *check) {
		other := c.uniqueJob("b", "key", untilDone, 0)
		other.Queue = "other"
		c.accept(c.uniqueJob("a", "key", untilDone, 0), other)
	}},
	{"Unique/KeysAreBytes", "§19", "Keys are compared byte by byte: case, spaces and forms of a letter tell them apart.", unique,
		func(c *check) {
			for i, key := range oddNames {
				c.accept(c.uniqueJob(key, key, untilDone, 0))
				c.same("holder", c.refuse(c.uniqueJob("x", key, untilDone, 0), broker.ErrDuplicate).Holder, oddNames[i])
			}
		}},
	{"Unique/HeldThroughoutAJobsLife", "§19",
		"A key until done is held while its job is scheduled, pending, active, in retry, snoozed, released, retired and reclaimed.",
		unique, func(c *check) {
			j := c.uniqueJob("a", "key", untilDone, 0)
			j.Delay = time.Minute
			c.accept(j)
			held := func(when string) {
				c.tb.Helper()
				r := c.enqueue(c.uniqueJob("b", "key", untilDone, 0))[0]
				c.is("Enqueue with the key of a job that is "+when, r.Err, broker.ErrDuplicate)
				c.same("holder", r.Holder, "a")
			}
			w, r := c.worker("w"), c.worker("r")
			held("scheduled")
			c.pass(time.Minute)
			held("due")
			a := w.one("a")
			held("active")
			w.settle(broker.Retry(time.Second, failure("x")), a)
			held("in retry")
			c.pass(time.Second)
			w.settle(broker.Snooze(time.Second, failure("")), w.one("a"))
			held("snoozed")
			c.pass(time.Second)
			w.settle(broker.Release(), w.one("a"))
			held("released")
			w.settle(broker.Crash(0, failure("x")), w.one("a"))
			held("crashed")
			c.decide(broker.OpReschedule, "a")
			held("rescheduled")
			w.one("a")
			w.retire()
			held("retired")
			c.worker("v").one("a")
			r.renew()
			c.runOut(r)
			taken := r.reclaim(1)
			held("reclaimed")
			r.settle(broker.Complete(nil), &taken[0])
			c.accept(c.uniqueJob("b", "key", untilDone, 0))
		}},
	{"Unique/FreedByEveryEnd", "§19", "The step that ends a job frees its key, however it ends, even if its record is kept.", unique,
		func(c *check) {
			c.keep(time.Hour)
			w := c.worker("w")
			ends := []struct {
				name string
				end  func(id string)
			}{
				{"completed", func(id string) { w.settle(broker.Complete(nil), w.one(id)) }},
				{"dead", func(id string) { w.settle(broker.Die(broker.ReasonSkipRetry, failure("x")), w.one(id)) }},
				{"cancelled by its outcome", func(id string) { w.settle(broker.Cancel(failure("x")), w.one(id)) }},
				{"cancelled while pending", func(id string) { c.decide(broker.OpCancel, id) }},
				{"deleted", func(id string) { c.decide(broker.OpDelete, id) }},
				{"cancelled while active", func(id string) {
					j := w.one(id)
					c.decide(broker.OpCancel, id)
					w.settle(broker.Retry(time.Hour, failure("x")), j)
				}},
			}
			for _, mode := range []broker.UniqueMode{untilDone, untilStarted} {
				for _, e := range ends {
					id := e.name + []string{"", " again"}[mode]
					c.accept(c.uniqueJob(id, "key", mode, 0))
					e.end(id)
				}
			}
			c.accept(c.uniqueJob("last", "key", untilDone, 0))
		}},
	{"Unique/FreedWhenRetired", "§19", "A job that a retiring worker cancels frees its key, and one that it releases keeps it.", unique,
		func(c *check) {
			c.accept(c.uniqueJob("a", "key a", untilDone, 0), c.uniqueJob("b", "key b", untilDone, 0))
			w := c.worker("w")
			w.take("a", "b")
			c.decide(broker.OpCancel, "a")
			w.retire()
			c.accept(c.uniqueJob("c", "key a", untilDone, 0))
			c.same("holder", c.refuse(c.uniqueJob("d", "key b", untilDone, 0), broker.ErrDuplicate).Holder, "b")
		}},
	{"Unique/FreedWhenStarted", "§19", "A key until started is freed by the first claim of its job, and not held again by a retry.",
		unique, func(c *check) {
			c.accept(c.uniqueJob("a", "key", untilStarted, 0))
			c.refuse(c.uniqueJob("b", "key", untilStarted, 0), broker.ErrDuplicate)
			w := c.worker("w")
			a := w.one("a")
			c.accept(c.uniqueJob("b", "key", untilStarted, 0))
			w.settle(broker.Retry(0, failure("x")), a)
			c.same("holder", c.refuse(c.uniqueJob("c", "key", untilStarted, 0), broker.ErrDuplicate).Holder, "b")
			b := w.one("b")
			a = w.one("a")
			c.accept(c.uniqueJob("c", "key", untilStarted, 0))
			w.settle(broker.Complete(nil), a, b)
			c.same("holder", c.refuse(c.uniqueJob("d", "key", untilStarted, 0), broker.ErrDuplicate).Holder, "c")
			due := c.uniqueJob("due", "key of a due job", untilStarted, 0)
			due.Delay = time.Second
			c.accept(due)
			c.pass(time.Second)
			w.take("c", "due")
			c.accept(c.uniqueJob("e", "key of a due job", untilStarted, 0))
		}},
	{"Unique/WindowOutlivesItsJob", "§19", "A window holds its key for its length from the enqueue, whatever happens to the job.",
		unique, func(c *check) {
			c.accept(c.uniqueJob("a", "key a", window, time.Hour), c.uniqueJob("b", "key b", window, time.Hour))
			w := c.worker("w")
			w.settle(broker.Complete(nil), w.one("a"))
			c.decide(broker.OpDelete, "b")
			c.prune()
			c.pass(time.Hour - c.tick)
			c.prune()
			c.same("holder", c.refuse(c.uniqueJob("c", "key a", window, time.Hour), broker.ErrDuplicate).Holder, "a")
			c.same("holder", c.refuse(c.uniqueJob("c", "key b", window, time.Hour), broker.ErrDuplicate).Holder, "b")
			c.pass(c.tick)
			c.accept(c.uniqueJob("c", "key a", window, time.Hour), c.uniqueJob("d", "key b", window, time.Hour))
		}},
	{"Unique/TTLBoundsTheHold", "§19", "A key is free when its TTL has passed since the enqueue, even if its job has not ended.", unique,
		func(c *check) {
			c.accept(c.uniqueJob("a", "key a", untilDone, time.Minute), c.uniqueJob("b", "key b", untilStarted, time.Minute))
			c.pass(time.Minute - c.tick)
			c.refuse(c.uniqueJob("c", "key a", untilDone, time.Minute), broker.ErrDuplicate)
			c.refuse(c.uniqueJob("d", "key b", untilStarted, time.Minute), broker.ErrDuplicate)
			c.pass(c.tick)
			c.accept(c.uniqueJob("c", "key a", untilDone, time.Minute), c.uniqueJob("d", "key b", untilStarted, time.Minute))
			c.worker("w").take("a", "b", "c", "d")
		}},
	{"Unique/OnlyTheHolderFrees", "§19", "A job whose key lapsed does not free it from the job that holds it now.", unique, func(c *check) {
		c.accept(c.uniqueJob("a", "key", untilDone, time.Minute), c.uniqueJob("b", "key 2", untilStarted, time.Minute))
		c.pass(time.Minute)
		c.accept(c.uniqueJob("holder", "key", untilDone, 0), c.uniqueJob("holder 2", "key 2", untilStarted, 0))
		w := c.worker("w")
		held := w.take("a", "b")
		c.same("holder", c.refuse(c.uniqueJob("c", "key 2", untilStarted, 0), broker.ErrDuplicate).Holder, "holder 2")
		w.settle(broker.Complete(nil), refs(held)...)
		c.same("holder", c.refuse(c.uniqueJob("c", "key", untilDone, 0), broker.ErrDuplicate).Holder, "holder")
		c.same("holder", c.refuse(c.uniqueJob("c", "key 2", untilStarted, 0), broker.ErrDuplicate).Holder, "holder 2")
	}},
	{"Unique/RedriveTakesTheKeyAgain", "§19", "Redrive takes a key until done again, for its TTL from the redrive.", unique, func(c *check) {
		c.accept(c.uniqueJob("a", "key", untilDone, time.Minute))
		w := c.worker("w")
		w.settle(broker.Die(broker.ReasonSkipRetry, failure("x")), w.one("a"))
		c.pass(time.Hour)
		c.decide(broker.OpRedrive, "a")
		c.pass(time.Minute - c.tick)
		c.same("holder", c.refuse(c.uniqueJob("b", "key", untilDone, 0), broker.ErrDuplicate).Holder, "a")
		c.pass(c.tick)
		c.accept(c.uniqueJob("b", "key", untilDone, 0))
	}},
	{"Unique/RedriveIsRefusedByAHolder", "§19",
		"Redrive of a job whose key is held answers ErrDuplicate and the holder's ID, and changes nothing.", unique, func(c *check) {
			c.accept(c.uniqueJob("a", "key", untilDone, 0))
			w := c.worker("w")
			w.settle(broker.Die(broker.ReasonSkipRetry, failure("x")), w.one("a"))
			c.accept(c.uniqueJob("b", "key", untilDone, 0))
			before := *c.must("a", broker.StateDead)
			r := c.operate(broker.Operation{Kind: broker.OpRedrive}, "a")[0]
			c.is("redrive", r.Err, broker.ErrDuplicate)
			c.same("holder", r.Holder, "b")
			c.same("the dead job", *c.must("a", broker.StateDead), before)
			w.settle(broker.Complete(nil), w.one("b"))
			c.decide(broker.OpRedrive, "a")
			c.same("holder", c.refuse(c.uniqueJob("c", "key", untilDone, 0), broker.ErrDuplicate).Holder, "a")
		}},
	{"Unique/RedriveTakesNoOtherKey", "§19", "Redrive does not take a key that the job held until started, and does not extend a window.",
		unique, func(c *check) {
			c.accept(c.uniqueJob("a", "key a", untilStarted, 0), c.uniqueJob("b", "key b", window, time.Minute))
			w := c.worker("w")
			held := w.take("a", "b")
			w.settle(broker.Die(broker.ReasonSkipRetry, failure("x")), refs(held)...)
			c.pass(time.Minute)
			c.decide(broker.OpRedrive, "a", "b")
			c.accept(c.uniqueJob("c", "key a", untilStarted, 0), c.uniqueJob("d", "key b", window, time.Minute))
		}},
	{"Unique/RefusedLeavesNoKey", "§19", "An enqueue that is refused, for whatever reason, leaves no key behind.", unique, func(c *check) {
		c.add("known")
		c.refuse(c.uniqueJob("known", "key", untilDone, 0), broker.ErrDuplicate)
		depth, none := int64(1), int64(broker.NoLimit)
		c.policy(broker.PolicyRequest{MaxDepth: &depth})
		c.refuse(c.uniqueJob("full", "key", untilDone, 0), broker.ErrQueueFull)
		c.policy(broker.PolicyRequest{MaxDepth: &none})
		invalid := c.uniqueJob("invalid", "key", untilDone, 0)
		invalid.Body.Type = ""
		c.refuse(invalid, broker.ErrInvalid)
		c.accept(c.uniqueJob("a", "key", untilDone, 0))
	}},
}
