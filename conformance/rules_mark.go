package conformance

import (
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

var markRules = []Rule{
	{"Mark/OneOwnerAtATime", "§24", "An owner that takes a free mark holds it; any other owner is refused, and told the holder.", marks,
		func(c *check) {
			a := c.takeMark("m", "a", "value")
			c.that(a.Held && a.Owner == "a" && a.Fence > 0 && string(a.Value) == "value", "the first take\ngot  %+v\nwant it held by a", a)
			c.same("Until", a.Until, c.up(c.now.Add(time.Minute)))
			c.b = c.open()
			b := c.takeMark("m", "b", "other")
			want := a
			want.Held = false
			c.same("the second take", b, want)
			read := c.readMark("m")
			c.same("reading", read, a)
		}},
	{"Mark/NamesAreApart", "§24", "Marks of different names are independent.", marks, func(c *check) {
		for _, name := range oddNames {
			m := c.takeMark(name, name, name)
			c.that(m.Held, "mark %q\ngot  %+v\nwant it held", name, m)
		}
		for _, name := range oddNames {
			m := c.readMark(name)
			c.same("value", string(m.Value), name)
		}
	}},
	{"Mark/TakingAgainRenews", "§24", "Take by the owner renews the mark, and keeps its value.", marks, func(c *check) {
		first := c.takeMark("m", "a", "value")
		c.pass(40 * time.Second)
		again := c.takeMark("m", "a", "another")
		want := first
		want.Until, want.Fence = c.up(c.now.Add(time.Minute)), again.Fence
		c.same("taken again", again, want)
		c.pass(40 * time.Second)
		c.same("read after its first time", c.readMark("m"), want)
	}},
	{"Mark/TakingAgainEndsTheEarlierTake", "§24",
		"Take by the owner gets a higher fence; a caller with an earlier fence can no longer keep, set or drop the mark.", marks, func(c *check) {
			first := c.takeMark("m", "a", "value")
			c.b = c.open()
			again := c.takeMark("m", "a", "")
			c.that(again.Held && again.Fence > first.Fence, "taken again\ngot  %+v\nwant it held under a fence above %d", again, first.Fence)
			for _, action := range []broker.MarkAction{broker.MarkKeep, broker.MarkSet, broker.MarkDrop} {
				want := again
				want.Held = false
				c.same("answer to the earlier take", c.mark(broker.MarkRequest{Action: action, Name: "m", Owner: "a", Fence: first.Fence,
					TTL: time.Hour, Value: []byte("late")}), want)
			}
			c.same("reading", c.readMark("m"), again)
			c.that(c.mark(broker.MarkRequest{Action: broker.MarkDrop, Name: "m", Owner: "a", Fence: again.Fence}).Held,
				"drop by the latest take\ngot  refused\nwant done")
		}},
	{"Mark/LapsesAtItsTime", "§24", "A mark lapses at Until, and is free from then on.", marks, func(c *check) {
		first := c.takeMark("m", "a", "value")
		c.pass(time.Minute - c.tick)
		c.that(!c.takeMark("m", "b", "").Held, "take before the time\ngot  held\nwant refused")
		c.pass(c.tick)
		read := c.readMark("m")
		c.that(!read.Held && read.Owner == "", "reading a lapsed mark\ngot  %+v\nwant it free", read)
		keep := c.mark(broker.MarkRequest{Action: broker.MarkKeep, Name: "m", Owner: "a", Fence: first.Fence, TTL: time.Minute})
		c.that(!keep.Held, "keeping a lapsed mark\ngot  held\nwant refused")
		c.that(c.takeMark("m", "b", "").Held, "take at the time\ngot  refused\nwant held")
		odd := c.mark(broker.MarkRequest{Action: broker.MarkTake, Name: "odd", Owner: "a", TTL: time.Second + time.Nanosecond})
		c.same("Until, which rounds up", odd.Until, c.now.Add(time.Second+c.tick))
	}},
	{"Mark/FencesRise", "§24", "Every new holder gets a higher fence than any before, after a drop, after a lapse, and after a prune.",
		marks, func(c *check) {
			c.add("first of the queue")
			last := int64(0)
			rises := func(owner string) broker.Marked {
				c.tb.Helper()
				m := c.takeMark("m", owner, "")
				c.that(m.Held && m.Fence > last, "fence of %s\ngot  %d, held %t\nwant more than %d", owner, m.Fence, m.Held, last)
				last = m.Fence
				return m
			}
			a := rises("a")
			c.that(c.mark(broker.MarkRequest{Action: broker.MarkDrop, Name: "m", Owner: "a", Fence: a.Fence}).Held,
				"drop\ngot  refused\nwant done")
			rises("b")
			c.pass(time.Hour)
			rises("a")
			c.pass(365 * 24 * time.Hour)
			c.prune()
			rises("c")
			c.pass(time.Hour)
			rises("c")
		}},
	{"Mark/KeepNeedsOwnerAndFence", "§24",
		"Keep, Set and Drop need owner and fence; otherwise they change nothing and tell the holder.", marks, func(c *check) {
			m := c.takeMark("m", "a", "value")
			for _, action := range []broker.MarkAction{broker.MarkKeep, broker.MarkSet, broker.MarkDrop} {
				for _, req := range []broker.MarkRequest{{Owner: "b", Fence: m.Fence}, {Owner: "a", Fence: m.Fence + 1},
					{Owner: "a", Fence: m.Fence - 1}, {Owner: "a"}} {
					req.Action, req.Name, req.TTL, req.Value = action, "m", time.Hour, []byte("stolen")
					got := c.mark(req)
					want := m
					want.Held = false
					c.same("answer", got, want)
				}
			}
			c.same("reading", c.readMark("m"), m)
		}},
	{"Mark/KeepExtends", "§24", "Keep extends the mark, Set changes its value too, Drop frees it.", marks, func(c *check) {
		m := c.takeMark("m", "a", "value")
		c.pass(30 * time.Second)
		m.Until = c.up(c.now.Add(time.Minute))
		c.same("kept", c.mark(broker.MarkRequest{Action: broker.MarkKeep, Name: "m", Owner: "a", Fence: m.Fence, TTL: time.Minute}), m)
		c.pass(50 * time.Second)
		m.Until, m.Value = c.up(c.now.Add(time.Hour)), []byte("new\x00\xff")
		c.same("set", c.mark(broker.MarkRequest{Action: broker.MarkSet, Name: "m", Owner: "a", Fence: m.Fence, TTL: time.Hour,
			Value: m.Value}), m)
		c.pass(time.Hour - c.tick)
		c.same("read", c.readMark("m"), m)
		c.that(c.mark(broker.MarkRequest{Action: broker.MarkDrop, Name: "m", Owner: "a", Fence: m.Fence}).Held,
			"drop\ngot  refused\nwant done")
		c.that(!c.readMark("m").Held, "reading a dropped mark\ngot  held\nwant free")
		drop := c.mark(broker.MarkRequest{Action: broker.MarkDrop, Name: "m", Owner: "a", Fence: m.Fence})
		c.that(!drop.Held, "dropping again\ngot  held\nwant refused")
	}},
	{"Mark/ValuesAreBytes", "§24", "Values come back byte for byte.", marks, func(c *check) {
		for _, v := range append([]string{string(random(broker.MaxResult))}, oddBytes...) {
			m := c.takeMark("m", "a", v)
			got := c.readMark("m").Value
			c.that(string(got) == v, "value\ngot  %.80q\nwant %.80q", got, v)
			c.mark(broker.MarkRequest{Action: broker.MarkDrop, Name: "m", Owner: "a", Fence: m.Fence})
		}
	}},
	{"Mark/RefusesWhatIsInvalid", "§24", "A request outside the limits is refused with ErrInvalid and changes nothing.", marks,
		func(c *check) {
			for _, req := range []broker.MarkRequest{{Action: broker.MarkTake, Name: "m", Owner: "a"},
				{Action: broker.MarkTake, Name: "m", TTL: time.Minute},
				{Action: broker.MarkTake, Owner: "a", TTL: time.Minute}, {Action: broker.MarkDrop + 1, Name: "m", Owner: "a",
					TTL: time.Minute}} {
				req.Now = c.now
				_, err := c.b.Mark(c.ctx, req)
				c.is("Mark", err, broker.ErrInvalid)
			}
			c.that(!c.readMark("m").Held, "reading\ngot  held\nwant free")
		}},
}

// takeMark takes a mark for a minute.
func (c *check) takeMark(name, owner, value string) broker.Marked {
	c.tb.Helper()
	return c.mark(broker.MarkRequest{Action: broker.MarkTake, Name: name, Owner: owner, TTL: time.Minute, Value: []byte(value)})
}
