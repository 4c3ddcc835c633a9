package conformance

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Rules of these groups need Store.PlantLayout and Store.PlantBody.
var layoutRules = []Rule{
	{"Layout/NewerIsRefused", "§5", "Every call that concerns a queue of a newer layout answers ErrNewerForm.", nil, func(c *check) {
		c.audited = false // nothing can be listed
		c.add("a", "b")
		w := c.worker("w")
		w.take("a")
		c.store.PlantLayout(c.tb, c.q)
		errs := c.everyMethod(c.ctx, c.b)
		_, errs["Renew"] = c.b.Renew(c.ctx, broker.RenewRequest{Now: c.now, Worker: "v", Queues: []string{c.q}, Lease: lease,
			Register: true})
		_, errs["Claim"] = c.b.Claim(c.ctx, w.request(1))
		operated, err := c.b.Operate(c.ctx, broker.Operation{Now: c.now, Kind: broker.OpDelete, Refs: []broker.Ref{c.ref("b")}})
		if err == nil {
			err = operated[0].Err
		}
		errs["Operate"] = err
		settle := settleOf("w", &broker.Job{Queue: c.q, ID: "a", Worker: "w"})
		settle.Now = c.now
		verdicts, err := c.b.Settle(c.ctx, settle)
		if err == nil {
			err = verdicts[0].Err
		}
		errs["Settle"] = err
		if !c.limits.NoFlow {
			_, errs["Policy of a key"] = c.b.Policy(c.ctx, broker.PolicyRequest{Queue: c.q, Key: "k", Paused: new(true)})
			_, errs["Policy with a limit"] = c.b.Policy(c.ctx, broker.PolicyRequest{Queue: c.q, MaxActive: new(int64(1))})
		}
		for _, method := range []string{"Enqueue", "Claim", "Renew", "Retire", "Settle", "Reclaim", "Prune", "Find", "Operate", "Policy",
			"Keys", "Policy of a key", "Policy with a limit"} {
			if _, called := errs[method]; !called && c.limits.NoFlow {
				continue
			}
			c.is(method+" of a queue of a newer layout", errs[method], broker.ErrNewerForm)
		}
	}},
	{"Layout/OtherQueuesGoOn", "§5", "A queue of a newer layout does not affect other queues.", nil, func(c *check) {
		c.audited = false // nothing of one queue can be listed
		c.accept(c.job("a"), c.jobIn("other", "b"))
		w := c.worker("w", c.q, "other")
		c.store.PlantLayout(c.tb, c.q)
		r := c.enqueue(c.job("d"), c.jobIn("other", "c"))
		c.is("Enqueue into the newer queue", r[0].Err, broker.ErrNewerForm)
		c.ok("Enqueue into the other", r[1].Err)
		got, err := c.claimSome(w.request(5))
		c.is("Claim over both", err, broker.ErrNewerForm)
		c.that(len(got.Jobs) > 0 && got.Jobs[0].Queue == "other", "jobs claimed\ngot  %s\nwant those of the other queue", jobList(got.Jobs))
	}},
	{"Layout/SettlesApart", "§5",
		"A settle over a queue of a newer layout and another applies to the other, and each verdict has the error of its own queue.",
		nil, func(c *check) {
			c.audited = false // nothing of one queue can be listed
			ids := []string{"a", "b", "c", "d"}
			for i, id := range ids {
				c.accept(c.jobIn([]string{"other", c.q}[i%2], id))
			}
			w := c.worker("w", "other", c.q)
			held := w.claim(4)
			c.same("claimed", idsOf(held), []string{"a", "c", "b", "d"})
			c.store.PlantLayout(c.tb, c.q)
			for range 2 { // a repeat gets the same answer
				for i, v := range w.sendAs(1, broker.Settlement{Job: &held[0], Outcome: broker.Complete(nil)},
					broker.Settlement{Job: &held[2], Outcome: broker.Release()},
					broker.Settlement{Job: &held[1], Outcome: broker.Retry(time.Hour, failure("x"))}, broker.Settlement{Job: &held[3],
						Outcome: broker.Complete(nil)}) {
					if i%2 == 1 {
						c.is("verdict of "+v.ID+", in the newer queue", v.Err, broker.ErrNewerForm)
						continue
					}
					c.ok("verdict of "+v.ID+", in the other queue", v.Err)
				}
			}
			c.that(c.findIn("other", "a") == nil, "completed job of the other queue\ngot  a record\nwant none")
			c.same("state of the retried job", c.findIn("other", "c").State, broker.StateRetry)
		}},
	{"Broken/HarmsNoOther", "§4",
		"A job whose body cannot be read is claimed and found like any other, with Broken set, and the batch around it is whole.", nil,
		func(c *check) {
			w := c.brokenJobs()
			got := w.claim(5)
			c.same("claimed", idsOf(got), []string{"a", "newer", "malformed", "empty", "b"})
			for i, want := range []error{nil, broker.ErrNewerForm, broker.ErrMalformed, broker.ErrMalformed, nil} {
				c.that(errors.Is(got[i].Broken, want), "Broken of the claimed %s\ngot  %v\nwant %v", got[i].ID, got[i].Broken, want)
				found := c.must(got[i].ID, broker.StateActive)
				c.that(errors.Is(found.Broken, want), "Broken of the found %s\ngot  %v\nwant %v", got[i].ID, found.Broken, want)
			}
			c.same("listed", len(c.list(broker.Query{State: broker.StateActive})), 5)
			c.same("payload of the job behind", string(got[4].Payload), "payload of b")
		}},
	{"Broken/CanBeSettled", "§4", "A job whose body cannot be read is settled, redriven, reclaimed and deleted like any other.", nil,
		func(c *check) {
			w := c.brokenJobs()
			got := w.take("a", "newer", "malformed", "empty", "b")
			w.settle(broker.Die(broker.ReasonUndecodable, failure("cannot be read")), &got[1], &got[2], &got[3])
			w.settle(broker.Complete(nil), &got[0], &got[4])
			for _, id := range []string{"newer", "malformed", "empty"} {
				j := c.must(id, broker.StateDead)
				c.same("reason", j.Reason, broker.ReasonUndecodable)
				c.same("last error", j.Errors.Last().Message, "cannot be read")
			}
			c.decide(broker.OpRedrive, "newer", "malformed", "empty")
			w.take("newer", "malformed", "empty")
			r := c.worker("r")
			c.runOut(r)
			taken := r.reclaim(5)
			c.same("reclaimed", len(taken), 3)
			r.settle(broker.Snooze(0, failure("")), refs(taken)...)
			c.decide(broker.OpDelete, "newer", "malformed", "empty")
			r.nothing()
		}},
	{"Broken/FreesItsKey", "§4",
		"A job whose body has a newer version frees its unique key at its end: the index of every version can be read.", unique,
		func(c *check) {
			j := c.uniqueJob("a", "key", untilDone, 0)
			c.accept(j)
			c.plantNewer(j)
			w := c.worker("w")
			held := w.one("a")
			c.refuse(c.uniqueJob("b", "key", untilDone, 0), broker.ErrDuplicate)
			w.settle(broker.Die(broker.ReasonUndecodable, failure("x")), held)
			c.accept(c.uniqueJob("b", "key", untilDone, 0))
			r := c.operate(broker.Operation{Kind: broker.OpRedrive}, "a")[0]
			c.is("redrive", r.Err, broker.ErrDuplicate)
			c.same("holder", r.Holder, "b")
		}},
	{"Broken/IsNotReplaced", "§39",
		"A job whose body cannot be read is not replaced: the new job is refused, with the reason. Fields of a newer version stay.", meets,
		func(c *check) {
			for id, want := range map[string]error{"newer": broker.ErrNewerForm, "malformed": broker.ErrMalformed, "empty": broker.ErrMalformed,
				"more": nil} {
				j := c.meeting(id, broker.ConflictReplace)
				j.Body.Unique.Key = id
				c.accept(j)
				switch id {
				case "newer":
					c.plantNewer(j)
				case "malformed":
					c.store.PlantBody(c.tb, c.q, id, []byte("\x01\xff\xff"))
				case "empty":
					c.store.PlantBody(c.tb, c.q, id, nil)
				case "more":
					c.store.PlantBody(c.tb, c.q, id, append(broker.AppendBody(nil, &j.Body), "\xff\x7f\x03new"...)) // field 8191
				}
				n := c.meeting("n "+id, broker.ConflictReplace)
				n.Body.Unique.Key = id
				if want == nil {
					c.replaced(n, id)
					c.does(id, n.ID)
					c.that(c.must(id, broker.StatePending).Newer(), "fields of a newer version, of a job that was replaced\ngot  none\nwant them still")
					continue
				}
				r := c.enqueue(n)[0]
				c.is("Enqueue with the key of "+id, r.Err, want)
				c.that(r.Holder == id && !r.Replaced, "receipt\ngot  %+v\nwant the holder %q", r, id)
				c.is("Broken of "+id, c.must(id, broker.StatePending).Broken, want)
			}
		}},
}

// brokenJobs enqueues five jobs and breaks the bodies of newer, malformed and empty.
func (c *check) brokenJobs() *worker {
	c.tb.Helper()
	c.add("a", "newer", "malformed", "empty", "b")
	c.plantNewer(c.job("newer"))
	c.store.PlantBody(c.tb, c.q, "malformed", []byte("\x01\xff\xff"))
	c.store.PlantBody(c.tb, c.q, "empty", nil)
	return c.worker("w")
}

// plantNewer makes a stored body look as if a newer release had written it.
func (c *check) plantNewer(j broker.NewJob) {
	body := broker.AppendBody(nil, &j.Body)
	if _, err := broker.ParseBody(body); err != nil {
		panic(fmt.Sprint("the body to be planted: ", err))
	}
	body[0] = 250 // the version comes first
	c.store.PlantBody(c.tb, j.Queue, j.ID, body)
}
