package conformance

import (
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// meeting returns a job with the unique key "key", whose content names its ID.
func (c *check) meeting(id string, conflict broker.UniqueConflict) broker.NewJob {
	j := c.uniqueJob(id, "key", untilDone, 0)
	j.Body.Unique.Conflict = conflict
	j.Body.Headers = map[string]string{"of": id}
	return j
}

// debounced returns a meeting that runs after a delay, and is postponed for at most an hour.
func (c *check) debounced(id string, delay time.Duration) broker.NewJob {
	j := c.meeting(id, broker.ConflictDebounce)
	j.Delay, j.Body.Unique.Latest = delay, time.Hour
	return j
}

// replaced enqueues a job that must replace the content of another one.
func (c *check) replaced(n broker.NewJob, into string) broker.Receipt {
	c.tb.Helper()
	r := c.enqueue(n)[0]
	c.ok("Enqueue of "+n.ID, r.Err)
	c.that(r.Replaced && r.ID == into && r.Holder == into, "receipt of %s\ngot  %+v\nwant Replaced, ID and Holder %q", n.ID, r, into)
	c.gone(n.ID)
	return r
}

// does requires that a job has the content of another one.
func (c *check) does(id, content string) {
	c.tb.Helper()
	j := c.find(id)
	c.that(j != nil, "job %s\ngot  none\nwant it", id)
	c.that(string(j.Payload) == "payload of "+content && j.Headers["of"] == content, "content of %s\ngot  %q, headers %v\nwant that of %s", id,
		j.Payload, j.Headers, content)
}

var meetRules = []Rule{
	{"Meet/ReplacesWhatHasNotStarted", "§39",
		"If the holder is pending, scheduled or in retry, the new job replaces all that the holder's handler reads, and nothing else.", meets,
		func(c *check) {
			w := c.worker("w")
			for _, state := range []broker.State{broker.StateRetry, broker.StateScheduled, broker.StatePending} {
				for i, conflict := range []broker.UniqueConflict{broker.ConflictReplace, broker.ConflictKeepLast} {
					id := state.String() + []string{"", " again"}[i]
					first := c.meeting(id, conflict)
					first.Body.Unique.Key, first.Body.Unique.TTL = id, 2*time.Hour
					first.Body.Deadline, first.Body.Source, first.Body.Key = c.up(c.now.Add(48*time.Hour)), "first", "tenant"
					if state == broker.StateScheduled {
						first.Delay = time.Hour
					}
					c.accept(first)
					if state == broker.StateRetry {
						w.settle(broker.Retry(time.Hour, failure("x")), w.one(id))
					}
					want := *c.must(id, state)
					n := c.meeting("new "+id, conflict)
					n.Body.Unique.Key, n.Body.Payload, n.Body.Headers = id, []byte("\x00\xffnew\xc3"), map[string]string{"a": "", "b": "\xff"}
					n.Body.TypeVersion, n.Body.PayloadRef, n.Body.CorrelationID, n.Body.IdempotencyKey = 7, "ref", "correlation", "effect"
					n.Body.MaxRetries, n.Body.Source, n.Body.Key = 1, "second", "other"
					r := c.replaced(n, id)
					want.CopyContent(&n.Body)
					c.same("the holder", *c.must(id, state), want)
					c.same("state of the receipt", r.State, state)
					c.that(r.RunAt.Equal(want.RunAt), "RunAt of the receipt\ngot  %v\nwant %v", r.RunAt, want.RunAt)
					n.ID, n.Body.Payload, n.Body.Headers, n.Body.TypeVersion, n.Body.PayloadRef = "empty "+id, nil, nil, 0, ""
					n.Body.CorrelationID, n.Body.IdempotencyKey = "", ""
					c.replaced(n, id)
					want.CopyContent(&n.Body)
					got := c.must(id, state)
					if len(got.Payload) == 0 {
						got.Payload = nil
					}
					c.same("the holder after another one", *got, want)
				}
			}
		}},
	{"Meet/KeepsThePlace", "§39", "A pending job that was replaced keeps its position and its key.", meets, func(c *check) {
		c.add("a")
		c.accept(c.meeting("b", broker.ConflictReplace))
		c.add("c")
		c.replaced(c.meeting("n", broker.ConflictReplace), "b")
		c.same("holder", c.refuse(c.uniqueJob("d", "key", untilDone, 0), broker.ErrDuplicate).Holder, "b")
		got := c.worker("w").take("a", "b", "c")
		c.same("payload claimed", string(got[1].Payload), "payload of n")
	}},
	{"Meet/RefusedOnceStarted", "§39", "A job that would replace is refused, and told the holder, if the holder is active, held, of " +
		"another type, or gone before its window lapsed.", meets, func(c *check) {
		w := c.worker("w")
		c.accept(c.meeting("a", broker.ConflictRefuse))
		other := c.meeting("n", broker.ConflictReplace)
		other.Body.Type = "other"
		before := *c.must("a", broker.StatePending)
		refused := func(when string, n broker.NewJob, state broker.State) {
			c.tb.Helper()
			r := c.enqueue(n)[0]
			c.is("Enqueue with the key of a job that is "+when, r.Err, broker.ErrDuplicate)
			c.that(r.Holder == "a" && !r.Replaced && r.ID == "n", "receipt\ngot  %+v\nwant the holder a, and nothing replaced", r)
			c.same("payload of the holder", string(c.must("a", state).Payload), "payload of a")
			c.gone("n")
		}
		refused("of another type", other, broker.StatePending)
		c.same("the holder", *c.must("a", broker.StatePending), before)
		c.hold("a")
		for _, conflict := range []broker.UniqueConflict{broker.ConflictReplace, broker.ConflictKeepLast} {
			refused("held", c.meeting("n", conflict), broker.StateWaiting)
		}
		c.decide(broker.OpUnhold, "a")
		a := w.one("a")
		refused("active", c.meeting("n", broker.ConflictReplace), broker.StateActive)
		w.settle(broker.Complete(nil), a)
		windowed := c.uniqueJob("windowed", "window", window, time.Hour)
		c.accept(windowed)
		n := c.meeting("n", broker.ConflictReplace)
		n.Body.Unique.Key = "window"
		c.replaced(n, "windowed")
		w.settle(broker.Complete(nil), w.one("windowed"))
		n.ID = "m"
		c.same("holder", c.refuse(n, broker.ErrDuplicate).Holder, "windowed")
		c.pass(time.Hour)
		c.accept(n)
	}},
	{"Meet/ALaterJobWithTheHoldersID", "§39", "A job replaces no job that only has the ID of the key's holder, which is gone.", meets,
		func(c *check) {
			c.accept(c.uniqueJob("a", "key", window, time.Hour))
			w := c.worker("w")
			w.settle(broker.Complete(nil), w.one("a"))
			c.gone("a")
			c.accept(c.uniqueJob("a", "other", untilDone, 0))
			before := *c.must("a", broker.StatePending)
			r := c.refuse(c.meeting("n", broker.ConflictReplace), broker.ErrDuplicate)
			c.that(r.Holder == "a" && !r.Replaced && r.ID == "n", "receipt\ngot  %+v\nwant the holder a, and nothing replaced", r)
			c.same("the later job", *c.must("a", broker.StatePending), before)
		}},
	{"Meet/RestoredJobsReplaceNothing", "§39", "A held key refuses a restored job, whatever its Conflict.", meets,
		func(c *check) {
			c.accept(c.meeting("a", broker.ConflictReplace))
			for _, conflict := range []broker.UniqueConflict{broker.ConflictReplace, broker.ConflictKeepLast} {
				n := c.meeting("n", conflict)
				n.Restore = &broker.Restored{State: broker.StatePending}
				c.same("holder", c.refuse(n, broker.ErrDuplicate).Holder, "a")
			}
			c.does("a", "a")
		}},
	{"Meet/ARepeatChangesNothing", "§39",
		"If a job that replaced is sent again, it gets the same answer and changes nothing, even after others replaced " +
			"and the holder ended.", meets,
		func(c *check) {
			c.accept(c.meeting("a", broker.ConflictReplace))
			first := c.meeting("first", broker.ConflictReplace)
			c.replaced(first, "a")
			c.replaced(c.meeting("second", broker.ConflictReplace), "a")
			c.replaced(first, "a")
			c.does("a", "second")
			c.refuse(c.job("first"), broker.ErrDuplicate)
			w := c.worker("w")
			w.settle(broker.Complete(nil), w.one("a"))
			c.pass(broker.DefaultDuplicateSpan - c.tick)
			c.prune()
			c.replaced(first, "a")
			w.renew()
			w.nothing()
			c.pass(c.tick)
			c.prune()
			c.accept(first)
		}},
	{"Meet/ARepeatBesideAnother", "§39", "In one request, another job with the ID of a job that replaced is refused, and a repeat " +
		"answers as before.",
		meets, func(c *check) {
			c.accept(c.meeting("a", broker.ConflictReplace))
			first := c.meeting("first", broker.ConflictReplace)
			c.replaced(first, "a")
			r := c.enqueue(c.job("x"), c.job("first"), first, c.job("first"))
			c.ok("one before them", r[0].Err)
			c.is("another job with the ID", r[1].Err, broker.ErrDuplicate)
			c.that(r[2].Err == nil && r[2].Replaced && r[2].ID == "a", "the repeat\ngot  %+v\nwant it replaced into a", r[2])
			c.is("another job behind the repeat", r[3].Err, broker.ErrDuplicate)
			c.worker("w").take("a", "x")
		}},
	{"Meet/WithinARequest", "§18", "The jobs of a request see each other: the content of the last one runs.", meets, func(c *check) {
		r := c.enqueue(c.meeting("a", broker.ConflictReplace), c.job("x"), c.meeting("b", broker.ConflictReplace),
			c.meeting("c", broker.ConflictKeepLast), c.meeting("b", broker.ConflictReplace), c.meeting("d", broker.ConflictRefuse), c.job("y"))
		for i, n := range []int{0, 1, 2, 3, 4, 6} {
			c.ok("receipt of "+string(rune('0'+n)), r[n].Err)
			c.same("replaced", r[n].Replaced, i == 2 || i == 3 || i == 4)
		}
		c.is("the one that does not replace", r[5].Err, broker.ErrDuplicate)
		c.same("its holder", r[5].Holder, "a")
		c.does("a", "c")
		c.worker("w").take("a", "x", "y")
	}},
	{"Meet/NeedsNoRoom", "§18",
		"A full queue accepts a job that replaces another, and refuses one that would be stored.", meets, func(c *check) {
			c.accept(c.meeting("a", broker.ConflictKeepLast))
			w := c.worker("w")
			a := w.one("a")
			c.add("b")
			depth := int64(1)
			c.policy(broker.PolicyRequest{MaxDepth: &depth})
			c.refuse(c.meeting("n", broker.ConflictKeepLast), broker.ErrQueueFull)
			w.settle(broker.Release(), a)
			c.replaced(c.meeting("n", broker.ConflictKeepLast), "a")
			free := c.meeting("f", broker.ConflictReplace)
			free.Body.Unique.Key = "free"
			c.refuse(free, broker.ErrQueueFull)
		}},
	{"Meet/DebouncePushesTheTime", "§40",
		"A debounced job runs when no other job has come for its delay, or when its latest time has come.",
		meets,
		func(c *check) {
			w := c.worker("w")
			c.accept(c.debounced("a", 20*time.Minute))
			born := c.now
			due := func(id string, at time.Time) {
				c.tb.Helper()
				r := c.replaced(c.debounced(id, 20*time.Minute), "a")
				j := c.must("a", broker.StateScheduled)
				c.that(j.RunAt.Equal(at) && r.RunAt.Equal(at) && r.State == j.State, "due, and as the receipt says\ngot  %v, %v\nwant %v", j.RunAt,
					r.RunAt, at)
				c.does("a", id)
			}
			before := c.must("a", broker.StateScheduled)
			c.pass(15 * time.Minute)
			due("b", c.now.Add(20*time.Minute))
			c.same("epoch", c.must("a", broker.StateScheduled).Epoch, before.Epoch+1)
			c.pass(15 * time.Minute)
			w.renew()
			w.nothing()
			due("c", c.now.Add(20*time.Minute))
			c.pass(15 * time.Minute)
			due("d", born.Add(time.Hour))
			c.pass(15*time.Minute - c.tick)
			due("e", born.Add(time.Hour))
			w.renew()
			w.nothing()
			c.pass(c.tick)
			got := w.one("a")
			c.same("payload claimed", string(got.Payload), "payload of e")
			w.settle(broker.Complete(nil), got)
			c.accept(c.debounced("next", time.Minute))
		}},
	{"Meet/DebounceOfAPendingJob", "§40", "A pending job waits again, unless its latest time has come; one in retry keeps its time.", meets,
		func(c *check) {
			w := c.worker("w")
			c.accept(c.meeting("a", broker.ConflictReplace))
			r := c.replaced(c.debounced("b", time.Minute), "a")
			c.that(r.State == broker.StateScheduled && r.RunAt.Equal(c.now.Add(time.Minute)), "receipt\ngot  %v, %v\nwant scheduled in a minute",
				r.State, r.RunAt)
			w.nothing()
			c.pass(time.Minute)
			got := w.one("a")
			w.settle(broker.Release(), got)
			c.pass(time.Hour)
			w.renew()
			pending := c.must("a", broker.StatePending)
			c.same("state", c.replaced(c.debounced("c", time.Minute), "a").State, broker.StatePending)
			c.same("epoch", c.must("a", broker.StatePending).Epoch, pending.Epoch)
			got = w.one("a")
			c.same("payload claimed", string(got.Payload), "payload of c")
			w.settle(broker.Complete(nil), got)

			c.accept(c.meeting("d", broker.ConflictReplace)) // new, so that its latest time is ahead
			w.settle(broker.Retry(time.Second, failure("x")), w.one("d"))
			retry := *c.must("d", broker.StateRetry)
			c.replaced(c.debounced("e", time.Minute), "d")
			want := retry
			want.CopyContent(&c.must("d", broker.StateRetry).Body)
			c.does("d", "e")
			c.same("the job in retry", *c.must("d", broker.StateRetry), want)
		}},
	{"Meet/DebounceOfADueJob", "§40", "A job that is due, although no call has seen it, waits again if the debounce gives it a later time. " +
		"Otherwise it keeps its position and its epoch.", meets,
		func(c *check) {
			w := c.worker("w")
			of := func(key, id string, delay time.Duration) broker.NewJob {
				n := c.debounced(id, delay)
				n.Body.Unique.Key = key
				return n
			}
			c.accept(of("r", "r", 0))
			w.settle(broker.Retry(20*time.Second, failure("x")), w.one("r"))
			c.accept(of("a", "a", 10*time.Second), c.later("x", 20*time.Second), of("b", "b", 30*time.Second))
			c.pass(time.Minute)
			c.replaced(of("a", "new a", 0), "a")
			c.replaced(of("r", "new r", time.Minute), "r")
			r := c.replaced(of("b", "new b", time.Minute), "b")
			due := c.up(c.now.Add(time.Minute))
			c.that(r.State == broker.StateScheduled && r.RunAt.Equal(due), "receipt\ngot  %v, %v\nwant scheduled at %v", r.State, r.RunAt, due)
			got := make(map[string]broker.Job)
			at := make(map[string]int)
			for i, j := range w.claim(5) {
				got[j.ID], at[j.ID] = j, i
			}
			c.that(len(got) == 3 && at["a"] < at["x"], "claimed, and at which position\ngot  %v\nwant a, x and r, and a before x", at)
			for id, epoch := range map[string]int64{"a": 0, "r": 1} {
				c.same("epoch of "+id, got[id].Epoch, epoch)
				c.same("payload of "+id, string(got[id].Payload), "payload of new "+id)
			}
			c.pass(time.Minute - c.tick)
			w.nothing()
			c.pass(c.tick)
			b := w.one("b")
			c.same("epoch of b", b.Epoch, int64(1))
			c.same("payload of b", string(b.Payload), "payload of new b")
			c.accept(of("d", "d", 50*time.Minute))
			c.pass(2 * time.Hour)
			c.replaced(of("d", "new d", 20*time.Minute), "d")
			c.same("epoch of a job whose latest time has come", w.one("d").Epoch, int64(0))
		}},
	{"Meet/DebounceEarlier", "§40", "A debounce with a shorter delay makes its job due sooner, and one without a delay at once.", meets,
		func(c *check) {
			w := c.worker("w")
			c.accept(c.debounced("a", 20*time.Minute))
			c.replaced(c.debounced("b", time.Minute), "a")
			c.pass(time.Minute - c.tick)
			w.nothing()
			c.pass(c.tick)
			w.settle(broker.Complete(nil), w.one("a"))
			c.accept(c.debounced("c", 20*time.Minute))
			c.same("state", c.replaced(c.debounced("d", 0), "c").State, broker.StatePending)
			w.one("c")
		}},
}
