package conformance

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// parks enqueues a job that must be stored behind the holder of its key.
func (c *check) parks(n broker.NewJob, holder string) {
	c.tb.Helper()
	r := c.enqueue(n)[0]
	c.ok("Enqueue of "+n.ID, r.Err)
	c.that(r.State == broker.StateWaiting && r.ID == n.ID && r.Holder == holder && !r.Replaced,
		"receipt of %s\ngot  %+v\nwant it waiting behind %q", n.ID, r, holder)
	j := c.must(n.ID, broker.StateWaiting)
	from := broker.StatePending
	if n.Delay > 0 {
		from = broker.StateScheduled
	}
	c.that(j.Holder == broker.Behind(holder) && j.HeldFrom == from && j.RunAt.Equal(r.RunAt),
		"the job behind\ngot  holder %q, %v, due %v\nwant %q, %v, %v",
		j.Holder, j.HeldFrom, j.RunAt, broker.Behind(holder), from, r.RunAt)
}

// behind leaves job a active, with job b behind it.
func (c *check) behind() (*worker, *broker.Job) {
	c.tb.Helper()
	w := c.worker("w")
	c.accept(c.meeting("a", broker.ConflictKeepLast))
	a := w.one("a")
	c.parks(c.meeting("b", broker.ConflictKeepLast), "a")
	return w, a
}

var keepLastRules = []Rule{
	{"Follow/RunsOnceAfterTheHolder", "§41",
		"A job that keeps the last waits behind an active holder, takes the content of later jobs with the key, and runs " +
			"once after the holder.", meets,
		func(c *check) {
			w, a := c.behind()
			w.nothing()
			c.replaced(c.meeting("c", broker.ConflictKeepLast), "b")
			c.replaced(c.meeting("d", broker.ConflictReplace), "b")
			c.same("holder", c.refuse(c.uniqueJob("x", "key", untilDone, 0), broker.ErrDuplicate).Holder, "a")
			c.does("b", "d")
			counts := c.counted(c.q).Counts
			c.that(counts[broker.StateWaiting] == 1 && counts[broker.StateActive] == 1, "counts\ngot  %s\nwant one waiting, one active",
				summary(counts))
			w.settle(broker.Complete(nil), a)
			b := c.must("b", broker.StatePending)
			c.that(b.Epoch == 1 && b.Holder == "" && b.RunAt.IsZero(), "the job that followed\ngot  epoch %d, holder %q, due %v\nwant epoch 1, none",
				b.Epoch, b.Holder, b.RunAt)
			c.same("holder", c.refuse(c.uniqueJob("x", "key", untilDone, 0), broker.ErrDuplicate).Holder, "b")
			c.replaced(c.meeting("e", broker.ConflictKeepLast), "b")
			b = w.one("b")
			c.same("payload claimed", string(b.Payload), "payload of e")
			c.parks(c.meeting("f", broker.ConflictKeepLast), "b")
			w.settle(broker.Complete(nil), b)
			w.settle(broker.Complete(nil), w.one("f"))
			w.nothing()
			c.accept(c.uniqueJob("x", "key", untilDone, 0))
		}},
	{"Follow/WithinARequest", "§18", "Each job of a request meets the result of the jobs before it, only once: a refused job replaces " +
		"nothing behind the holder.",
		meets, func(c *check) {
			c.accept(c.meeting("a", broker.ConflictReplace))
			w := c.worker("w")
			a := w.one("a")
			r := c.enqueue(c.meeting("n", broker.ConflictReplace), c.meeting("b", broker.ConflictKeepLast), c.meeting("d", broker.ConflictReplace),
				c.meeting("x", broker.ConflictRefuse))
			c.is("one that replaces", r[0].Err, broker.ErrDuplicate)
			c.ok("one that keeps the last", r[1].Err)
			c.same("state", r[1].State, broker.StateWaiting)
			c.that(r[2].Err == nil && r[2].Replaced && r[2].ID == "b", "one that replaces, behind it\ngot  %+v\nwant it replaced into b", r[2])
			c.is("one that is refused", r[3].Err, broker.ErrDuplicate)
			c.does("b", "d")
			r = c.enqueue(c.meeting("m", broker.ConflictReplace), c.meeting("e", broker.ConflictKeepLast))
			c.that(r[0].Replaced && r[1].Replaced, "two that replace\ngot  %+v\nwant both replaced", r)
			c.does("b", "e")
			c.decide(broker.OpDelete, "b")
			r = c.enqueue(c.meeting("f", broker.ConflictReplace), c.meeting("g", broker.ConflictKeepLast))
			c.is("one that replaces again", r[0].Err, broker.ErrDuplicate)
			c.does("g", "g")
			w.settle(broker.Complete(nil), a)
			w.one("g")
		}},
	{"Follow/TakesTurnsOfItsKey", "§41",
		"A job behind another counts for the depth of its key, and is claimed later in its key's turn.", flow,
		func(c *check) {
			if meets.declared(c.limits) {
				return
			}
			c.policy(broker.PolicyRequest{KeyMaxDepth: new(int64(1))})
			ofKey := func(id string) broker.NewJob {
				n := c.meeting(id, broker.ConflictKeepLast)
				n.Body.Key = "k"
				return n
			}
			w := c.worker("w")
			c.accept(ofKey("a"))
			a := w.one("a")
			c.parks(ofKey("b"), "a")
			c.replaced(ofKey("c"), "b")
			c.refuse(c.keyedJob("x", "k"), broker.ErrQueueFull)
			c.same("depth of the key", c.key("k").Depth, int64(1))
			w.rest()
			w.settle(broker.Complete(nil), a)
			c.same("pending jobs of the key", c.key("k").Pending, int64(1))
			b := w.one("b")
			w.settle(broker.Complete(nil), b)
			c.same("depth of the key at the end", c.key("k").Depth, int64(0))
			skip := broker.OrderSkip
			c.policy(broker.PolicyRequest{Ordered: &skip})
			c.accept(ofKey("d"))
			c.is("Enqueue without a key into an ordered queue", c.enqueue(c.meeting("e", broker.ConflictReplace))[0].Err, broker.ErrInvalid)
			c.does("d", "d")
		}},
	{"Follow/GoesToTheBack", "§41", "A job that was behind another one goes to the back of the pending jobs.", meets, func(c *check) {
		w, a := c.behind()
		c.add("x", "y")
		w.settle(broker.Complete(nil), a)
		c.add("z")
		w.take("x", "y", "b", "z")
	}},
	{"Follow/FollowsEveryEnd", "§41", "However a job ends, the step that ends it gives its key to the job behind it and makes " +
		"that job pending or scheduled.",
		meets, func(c *check) {
			c.keep(time.Hour)
			w := c.worker("w")
			retry := broker.Retry(time.Hour, failure("x"))
			ends := []struct {
				name string
				end  func(j *broker.Job)
			}{
				{"completed", func(j *broker.Job) { w.settle(broker.Complete(nil), j) }},
				{"dead", func(j *broker.Job) { w.settle(broker.Die(broker.ReasonSkipRetry, failure("x")), j) }},
				{"cancelled by its outcome", func(j *broker.Job) { w.settle(broker.Cancel(failure("x")), j) }},
				{"cancelled while active", func(j *broker.Job) {
					c.decide(broker.OpCancel, j.ID)
					w.settle(retry, j)
				}},
				{"cancelled in retry", func(j *broker.Job) {
					w.settle(retry, j)
					c.decide(broker.OpCancel, j.ID)
				}},
				{"deleted in retry", func(j *broker.Job) {
					w.settle(retry, j)
					c.decide(broker.OpDelete, j.ID)
				}},
				{"moved elsewhere", func(j *broker.Job) {
					w.settle(retry, j)
					c.hold(j.ID)
					c.leave(c.q, j.ID)
				}},
				{"cancelled by a retiring worker", func(j *broker.Job) {
					w.settle(broker.Release(), j)
					v := c.worker("v")
					v.one(j.ID)
					c.decide(broker.OpCancel, j.ID)
					v.retire()
				}},
				{"reclaimed and dead", func(j *broker.Job) {
					w.settle(broker.Release(), j)
					c.worker("u").one(j.ID)
					c.runOut(w)
					taken := w.reclaim(1)
					w.settle(broker.Die(broker.ReasonCrashes, failure("x")), &taken[0])
				}},
				{"settled with a claim", func(j *broker.Job) {
					w.number++
					req := broker.ClaimRequest{Now: c.now, Worker: w.id, Settle: broker.SettleRequest{Worker: w.id, Number: w.number, Now: c.now,
						Items: []broker.Settlement{{Job: j, Outcome: broker.Complete(nil)}}}}
					ask(c, "Claim", c.b.Claim, req)
				}},
			}
			for _, e := range ends {
				w.renew()
				c.accept(c.meeting(e.name, broker.ConflictKeepLast))
				j := w.one(e.name)
				next := "after " + e.name
				c.parks(c.meeting(next, broker.ConflictKeepLast), j.ID)
				e.end(j)
				c.must(next, broker.StatePending)
				c.same("holder of the key after a job that was "+e.name, c.refuse(c.uniqueJob("x", "key", untilDone, 0), broker.ErrDuplicate).Holder,
					next)
				w.settle(broker.Complete(nil), w.one(next))
			}
			c.accept(c.uniqueJob("x", "key", untilDone, 0))
		}},
	{"Follow/WaitsAsLongAsTheHolderLives", "§41", "While a job is in retry, released, held or reclaimed, the job " +
		"behind it waits, and takes the content of later jobs with the key.", meets, func(c *check) {
		w, a := c.behind()
		waits := func(when string) {
			c.tb.Helper()
			c.replaced(c.meeting("while "+when, broker.ConflictKeepLast), "b")
			c.does("b", "while "+when)
			c.same("what the job before it is to do", string(c.find("a").Payload), "payload of a")
			c.must("b", broker.StateWaiting)
		}
		w.settle(broker.Retry(time.Minute, failure("x")), a)
		waits("in retry")
		c.hold("a")
		waits("held")
		c.decide(broker.OpUnhold, "a")
		c.pass(time.Minute)
		w.renew()
		w.settle(broker.Release(), w.one("a"))
		waits("released")
		v := c.worker("v")
		v.one("a")
		v.retire()
		waits("retired")
		c.worker("u").one("a")
		c.runOut(w)
		taken := w.reclaim(1)
		waits("reclaimed")
		w.settle(broker.Complete(nil), &taken[0])
		w.one("b")
	}},
	{"Follow/NoTTLCounts", "§41", "While a job waits behind another the unique key does not lapse, and then that job holds it until it " +
		"ends.", meets,
		func(c *check) {
			w := c.worker("w")
			first, second := c.meeting("a", broker.ConflictKeepLast), c.meeting("b", broker.ConflictKeepLast)
			first.Body.Unique.TTL, second.Body.Unique.TTL = time.Minute, time.Minute
			c.accept(first)
			a := w.one("a")
			c.parks(second, "a")
			c.pass(time.Hour)
			c.prune()
			c.same("holder", c.refuse(c.uniqueJob("x", "key", untilDone, 0), broker.ErrDuplicate).Holder, "a")
			c.replaced(c.meeting("c", broker.ConflictKeepLast), "b")
			w.settle(broker.Complete(nil), a)
			c.pass(time.Hour)
			c.same("holder", c.refuse(c.uniqueJob("x", "key", untilDone, 0), broker.ErrDuplicate).Holder, "b")
			w.renew()
			w.one("b")
		}},
	{"Follow/OperatorsEndIt", "§41", "A job behind another one can be cancelled and deleted, and then a new job may wait there; it " +
		"cannot be held, unheld or moved.",
		meets, func(c *check) {
			w, a := c.behind()
			before := *c.must("b", broker.StateWaiting)
			for _, op := range []broker.Operation{{Kind: broker.OpUnhold}, {Kind: broker.OpHold, Holder: holder},
				{Kind: broker.OpUnhold, Holder: holder},
				{Kind: broker.OpDelete, Holder: holder}, {Kind: broker.OpEdit}, {Kind: broker.OpReschedule}} {
				r := c.operate(op, "b")[0]
				c.is(op.Kind.String(), r.Err, broker.ErrWrongState)
				c.same("holder of the one behind", r.Holder, broker.Behind("a"))
			}
			c.same("the job behind", *c.must("b", broker.StateWaiting), before)
			c.decide(broker.OpDelete, "b")
			c.gone("b")
			c.parks(c.meeting("c", broker.ConflictKeepLast), "a")
			c.decide(broker.OpCancel, "c")
			c.parks(c.debounced("d", time.Minute), "a")
			c.decide(broker.OpDelete, "d")
			w.settle(broker.Complete(nil), a)
			c.accept(c.uniqueJob("x", "key", untilDone, 0))
			w.take("x")
		}},
	{"Follow/OperationsAreInOrder", "§22", "If an operation ends a job and then names the job behind it, that job is already pending.", meets,
		func(c *check) {
			for _, kind := range []broker.OperationKind{broker.OpCancel, broker.OpDelete} {
				a, b := fmt.Sprint("a", kind), fmt.Sprint("b", kind)
				w := c.worker("w" + a)
				c.accept(c.uniqueJob(a, a, untilDone, 0))
				held := w.one(a)
				behind := c.meeting(b, broker.ConflictKeepLast)
				behind.Body.Unique.Key = a
				c.parks(behind, a)
				w.settle(broker.Retry(time.Hour, failure("x")), held)
				results := c.operate(broker.Operation{Kind: kind, Refs: []broker.Ref{c.ref(a), {Queue: c.q, ID: b}}})
				c.ok(kind.String()+" of the holder", results[0].Err)
				c.is(kind.String()+" of the one behind, at its epoch before", results[1].Err, broker.ErrWrongState)
				c.same("epoch of the one that was behind", c.must(b, broker.StatePending).Epoch, int64(1))
				w.settle(broker.Complete(nil), w.one(b))
			}
		}},
	{"Follow/DebounceWaitsBehind", "§40", "A debounced job that meets an active holder runs after it, and not before its own time.", meets,
		func(c *check) {
			w := c.worker("w")
			c.accept(c.meeting("a", broker.ConflictReplace))
			a := w.one("a")
			c.parks(c.debounced("b", 10*time.Minute), "a")
			born := c.now
			c.pass(5 * time.Minute)
			r := c.replaced(c.debounced("c", 20*time.Minute), "b")
			c.that(r.State == broker.StateWaiting && r.RunAt.Equal(born.Add(25*time.Minute)), "receipt\ngot  %v, %v\nwant waiting, due at %v",
				r.State, r.RunAt,
				born.Add(25*time.Minute))
			w.settle(broker.Complete(nil), a)
			j := c.must("b", broker.StateScheduled)
			c.that(j.RunAt.Equal(r.RunAt), "due\ngot  %v\nwant %v", j.RunAt, r.RunAt)
			w.nothing()
			c.pass(20 * time.Minute)
			w.renew()
			b := w.one("b")
			c.same("payload claimed", string(b.Payload), "payload of c")
			c.parks(c.debounced("d", time.Minute), "b")
			c.pass(2 * time.Minute)
			w.renew()
			w.settle(broker.Complete(nil), b)
			held := w.one("d")
			c.parks(c.debounced("e", time.Minute), "d")
			c.replaced(c.debounced("f", 0), "e")
			w.settle(broker.Complete(nil), held)
			w.one("e")
		}},
	{"Follow/StartedHoldersFollowNobody", "§41", "A job waits behind a holder only if both have the mode until done; otherwise it is " +
		"refused, or finds the key free.",
		meets, func(c *check) {
			w := c.worker("w")
			windowed := c.uniqueJob("a", "key", window, time.Hour)
			c.accept(windowed)
			w.one("a")
			c.same("holder", c.refuse(c.meeting("b", broker.ConflictKeepLast), broker.ErrDuplicate).Holder, "a")
			c.pass(time.Hour)
			w.renew()
			c.accept(c.meeting("c", broker.ConflictKeepLast))
			w.one("c")
			started := c.debounced("d", time.Minute)
			started.Body.Unique.Mode = untilStarted
			c.same("holder", c.refuse(started, broker.ErrDuplicate).Holder, "c")
		}},
	{"Wake/ByTheJobBefore", "§17", "A claim that waits is woken by the end of a job behind which another waits.", wait, func(c *check) {
		if c.limits.NoUnique || c.limits.NoMove {
			return
		}
		c.wakes(func(w *worker, id string) func() {
			first := c.meeting("before "+id, broker.ConflictKeepLast)
			first.Body.Unique.Key = id
			c.accept(first)
			held := w.one(first.ID)
			next := c.meeting(id, broker.ConflictKeepLast)
			next.Body.Unique.Key = id
			c.parks(next, first.ID)
			other := c.open()
			return func() {
				w.number++
				_, err := other.Settle(c.ctx, broker.SettleRequest{Worker: w.id, Number: w.number, Items: []broker.Settlement{{Job: held,
					Outcome: broker.Complete(nil)}}})
				c.ok("Settle", err)
			}
		})
	}},
	{"Race/KeepLastAgainstTheEnd", "§41", "If several jobs that keep the last come while their holder ends, none is lost, one waits " +
		"at most, and all that were stored run.", meets, func(c *check) {
		w := c.worker("w")
		handles := c.handles()
		for round := range 15 {
			first := c.meeting(fmt.Sprint("first", round), broker.ConflictKeepLast)
			c.accept(first)
			held := w.one(first.ID)
			var mu sync.Mutex
			stored, into := map[string]bool{}, map[string]bool{}
			w.number++
			c.together(4, func(i int) error {
				if i == 3 {
					runtime.Gosched()
					_, err := handles[0].Settle(c.ctx, broker.SettleRequest{Now: c.now, Worker: w.id, Number: w.number,
						Items: []broker.Settlement{{Job: held, Outcome: broker.Complete(nil)}}})
					return err
				}
				for k := range 3 {
					n := c.meeting(fmt.Sprintf("j%d-%d-%d", round, i, k), broker.ConflictKeepLast)
					got, err := handles[i].Enqueue(c.ctx, broker.EnqueueRequest{Now: c.now, Jobs: []broker.NewJob{n}})
					if err == nil {
						err = got[0].Err
					}
					if err != nil {
						return err
					}
					mu.Lock()
					if stored[got[0].ID] = true; got[0].Replaced {
						into[got[0].ID] = true
					}
					mu.Unlock()
				}
				return nil
			})
			ran := w.claim(10)
			c.same("jobs that run after the holder", len(ran), 1)
			c.that(len(stored) == 1 && stored[ran[0].ID], "jobs stored by ten calls\ngot  %v, of which %s runs\nwant only that one", stored,
				ran[0].ID)
			c.that(string(ran[0].Payload) != "payload of "+first.ID,
				"content of the job that follows\ngot  that of the first\nwant that of a later one")
			w.settle(broker.Complete(nil), &ran[0])
			w.nothing()
		}
	}},
}
