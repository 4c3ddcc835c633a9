package conformance

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance/faulty"
)

var faultRules = []Rule{
	{"Fault/RepeatedEnqueueMakesOneJob", "§2",
		"An enqueue repeated after a lost reply makes no second job, and each receipt names the job itself as holder.", nil,
		func(c *check) {
			f := c.faulty("Enqueue")
			jobs := []broker.NewJob{c.job("a"), c.job("b")}
			if !c.limits.NoUnique {
				jobs = append(jobs, c.uniqueJob("c", "key", untilDone, 0))
			}
			_, err := f.Enqueue(c.ctx, broker.EnqueueRequest{Now: c.now, Jobs: jobs})
			c.is("the first call", err, faulty.ErrReplyLost)
			for i, r := range c.enqueue(jobs...) {
				c.is("repeated enqueue", r.Err, broker.ErrDuplicate)
				c.same("holder", r.Holder, jobs[i].ID)
			}
			c.same("claimed", len(c.worker("w").claim(9)), len(jobs))
		}},
	{"Fault/LateEnqueueChangesNothing", "§2",
		"The first send of a job that comes to the store after its own repeat is refused in every state that the job has reached, " +
			"and changes nothing.", nil, func(c *check) {
			for _, way := range []struct {
				name   string
				atOnce bool
				key    string
				keeps  bool // the queue keeps records of completed jobs
			}{
				{"alone", false, "", true},
				{"together", true, "", true},
				{"with-a-key", true, "tenant", true},
				{"alone-and-forgotten", false, "", false},
				{"together-and-forgotten", true, "", false},
			} {
				c.q = way.name
				w := c.everyStateOf("worker-" + way.name)
				ids := []string{"new", "pending", "scheduled", "active", "retry", "dead"}
				if way.keeps {
					ids = append(ids, "completed", "cancelled")
				} else {
					c.decide(broker.OpDelete, "completed", "cancelled")
					c.keep(0)
					c.b = c.open() // a handle that has not seen that the queue kept records
				}
				c.add("new")
				w.settle(broker.Release(), w.one("pending"))
				late := func(ids ...string) (receipts []broker.Receipt) {
					var jobs []broker.NewJob
					for _, id := range ids {
						j := c.job(id)
						j.Body.Payload = []byte("late")
						j.Body.Key = way.key
						jobs = append(jobs, j)
					}
					if way.atOnce {
						return c.late(jobs...)
					}
					for _, j := range jobs {
						receipts = append(receipts, c.late(j)...)
					}
					return receipts
				}
				before := make(map[string]*broker.Job)
				for _, id := range ids {
					before[id] = c.find(id)
				}
				receipts := late(append(slices.Clone(ids), "other")...)
				for i, id := range ids {
					c.is("late enqueue of "+id, receipts[i].Err, broker.ErrDuplicate)
					c.same("holder of "+id, receipts[i].Holder, id)
					c.same("the record of "+id, c.find(id), before[id])
				}
				c.ok("enqueue of another job among them", receipts[len(ids)].Err)
				held := w.claim(4) // jobs with a key take turns with the others
				c.same("claimed", sorted(idsOf(held)), []string{"new", "other", "pending"})
				w.settle(broker.Complete(nil), before["active"], &held[0], &held[1], &held[2])

				// Generated IDs are not remembered: such a job runs once more.
				c.decide(broker.OpDelete, "dead")
				gone := []string{"dead"}
				if way.keeps {
					c.decide(broker.OpDelete, "completed")
					gone = append(gone, "completed")
				} else {
					gone = append(gone, "pending", "active")
				}
				for _, r := range late(gone...) {
					c.ok("late enqueue of "+r.ID+", of which no record is left", r.Err)
				}
				for _, r := range late(gone...) {
					c.is("the same once more", r.Err, broker.ErrDuplicate)
				}
				again := w.take(gone...)
				w.nothing()
				w.settle(broker.Complete(nil), refs(again)...)
			}
		}},
	{"Fault/RepeatedSettleChargesOnce", "§10",
		"A settle repeated after a lost reply gets the answer that was lost, and charges nothing again.", nil, func(c *check) {
			c.add("a", "b")
			w := c.worker("w")
			held := w.take("a", "b")
			f := c.faulty("Settle")
			items := []broker.Settlement{{Job: &held[0], Outcome: broker.Retry(0, failure("x"))},
				{Job: &held[1], Outcome: broker.Complete(nil)}}
			_, err := f.Settle(c.ctx, broker.SettleRequest{Now: c.now, Worker: "w", Number: 1, Items: items})
			c.is("the first call", err, faulty.ErrReplyLost)
			w.number = 1
			want := []broker.Verdict{{Queue: c.q, ID: "a", State: broker.StatePending}, {Queue: c.q, ID: "b", State: broker.StateCompleted}}
			c.same("the repeated call", w.sendAs(1, items...), want)
			again := w.one("a")
			c.same("failures", again.Failures, 1)
			c.same("repeated once more, after the job was claimed again", w.sendAs(1, items...), want)
			w.settle(broker.Complete(nil), again)
		}},
	{"Fault/RepeatedTurnSettlesOnce", "§10",
		"A claim repeated after a lost reply settles nothing again; the worker still holds the jobs that " +
			"the first call leased.", nil, func(c *check) {
			c.add("a", "b", "c")
			w := c.worker("w")
			a := w.one("a")
			f := c.faulty("Claim")
			req := w.request(1)
			req.Settle = settleOf("w", a)
			req.Settle.Now = c.now
			w.number = req.Settle.Number
			_, err := f.Claim(c.ctx, req)
			c.is("the first call", err, faulty.ErrReplyLost)
			got, err := c.claimSome(req)
			c.ok("the repeated call", err)
			c.same("verdicts", got.Verdicts, []broker.Verdict{{Queue: c.q, ID: "a", State: broker.StateCompleted}})
			held := c.list(broker.Query{Worker: "w"})
			c.that(len(held) >= len(got.Jobs) && w.renew().Held[c.q] == len(held),
				"held after both\ngot  %d listed\nwant what both claims leased", len(held))
			w.settle(broker.Complete(nil), refs(held)...)
		}},
	{"Fault/LostClaimIsFoundByItsWorker", "§7",
		"A worker whose claim's reply was lost sees it in its count, finds the jobs by its ID and releases them.", nil, func(c *check) {
			c.add("a", "b")
			w := c.worker("w")
			c.same("held before", w.renew().Held[c.q], 0)
			_, err := c.faulty("Claim").Claim(c.ctx, w.request(5))
			c.is("Claim", err, faulty.ErrReplyLost)
			n := w.renew().Held[c.q]
			c.that(n > 0, "held after the lost claim\ngot  0\nwant the jobs it leased")
			lost := c.list(broker.Query{Worker: "w"})
			c.same("found", len(lost), n)
			w.settle(broker.Release(), refs(lost)...)
			c.same("claimed", len(c.worker("v").claim(5)), 2)
		}},
	{"Fault/LostClaimOfADeadWorkerIsReclaimed", "§8", "Jobs of a claim whose reply was lost are reclaimed when its worker dies too.",
		nil, func(c *check) {
			c.add("a", "b", "c")
			w := c.workerOn(c.open(), "w")
			r := c.worker("r")
			_, err := c.faulty("Claim").Claim(c.ctx, w.request(5))
			c.is("Claim", err, faulty.ErrReplyLost)
			n := len(c.list(broker.Query{Worker: "w"}))
			c.runOut(r)
			taken := r.reclaim(5)
			c.same("reclaimed", len(taken), n)
			r.settle(broker.Crash(0, failure("x")), refs(taken)...)
			c.same("claimed", len(r.claim(5)), 3)
		}},
	{"Fault/LostReclaimHeals", "§8",
		"If the reply of a reclaim was lost, the caller holds the jobs and can find them; they are reclaimed " +
			"when the caller dies.", nil, func(c *check) {
			c.add("a", "b")
			w, r, s := c.worker("w"), c.worker("r"), c.worker("s")
			w.take("a", "b")
			c.runOut(r, s)
			_, err := c.faulty("Reclaim").Reclaim(c.ctx, broker.ReclaimRequest{Now: c.now, Worker: "r", Queues: []string{c.q}, Max: 5})
			c.is("Reclaim", err, faulty.ErrReplyLost)
			c.same("the caller's", r.renew().Held[c.q]+len(r.reclaim(5)), 2)
			r.settle(broker.Release(), c.must("a", broker.StateActive))
			c.runOut(s)
			c.same("reclaimed from the caller", idsOf(s.reclaim(5)), []string{"b"})
		}},
	{"Fault/RepeatedRegistrationIsHarmless", "§6", "A registration repeated after a lost reply finds the worker alive.", nil,
		func(c *check) {
			req := broker.RenewRequest{Now: c.now, Worker: "w", Queues: []string{c.q}, Lease: lease, Register: true}
			_, err := c.faulty("Renew").Renew(c.ctx, req)
			c.is("Renew", err, faulty.ErrReplyLost)
			c.add("a")
			c.worker("w").take("a")
		}},
	{"Fault/RepeatedRetireIsHarmless", "§12", "A retire repeated after a lost reply changes nothing, even once the jobs were claimed.", nil,
		func(c *check) {
			c.add("a")
			w, v := c.worker("w"), c.worker("v")
			w.take("a")
			_, err := c.faulty("Retire").Retire(c.ctx, broker.RetireRequest{Now: c.now, Worker: "w", Queues: []string{c.q}})
			c.is("Retire", err, faulty.ErrReplyLost)
			a := v.one("a")
			c.same("released the second time", len(w.retire().Released), 0)
			v.settle(broker.Complete(nil), a)
		}},
	{"Fault/RepeatedOperationsAreHarmless", "§22", "An operation repeated after a lost reply is refused or harmless, and applied once.",
		nil, func(c *check) {
			c.everyState()
			for kind, want := range map[broker.OperationKind]error{broker.OpRedrive: broker.ErrWrongState,
				broker.OpDelete: broker.ErrNotFound} {
				id := map[broker.OperationKind]string{broker.OpRedrive: "dead", broker.OpDelete: "completed"}[kind]
				_, err := c.faulty("Operate").Operate(c.ctx, broker.Operation{Now: c.now, Kind: kind, Refs: []broker.Ref{c.ref(id)}})
				c.is("Operate", err, faulty.ErrReplyLost)
				c.is("repeated "+kind.String(), c.operate(broker.Operation{Kind: kind}, id)[0].Err, want)
			}
			c.same("epoch of the redriven job", c.must("dead", broker.StatePending).Epoch, int64(2))
		}},
	{"Fault/RepeatedTakeHoldsTheMark", "§24", "A mark taken again after a lost reply is held, with its value.", marks, func(c *check) {
		req := broker.MarkRequest{Now: c.now, Action: broker.MarkTake, Name: "m", Owner: "a", TTL: time.Minute, Value: []byte("value")}
		_, err := c.faulty("Mark").Mark(c.ctx, req)
		c.is("Mark", err, faulty.ErrReplyLost)
		first := c.readMark("m")
		c.that(first.Held && first.Owner == "a", "the mark\ngot  %+v\nwant it held by a", first)
		req.Value = []byte("of the repeat")
		again := c.mark(req)
		first.Fence = max(first.Fence+1, again.Fence)
		c.same("taken again", again, first)
	}},
	{"Fault/DeadProcessStrandsNothing", "§26",
		"Other workers take over the jobs that a dead process held, in every queue, and complete them.", nil, func(c *check) {
			dead := c.workerOn(c.open(), "dead", c.q, "other")
			r := c.worker("r", c.q, "other")
			c.accept(c.job("a"), c.jobIn("other", "b"), c.job("c"))
			if !c.limits.NoUnique {
				c.accept(c.uniqueJob("u", "key", untilDone, 0))
			}
			n := len(dead.claim(9))
			c.runOut(r)
			taken := r.reclaim(9)
			c.same("reclaimed", len(taken), n)
			r.settle(broker.Complete(nil), refs(taken)...)
			if !c.limits.NoUnique {
				c.accept(c.uniqueJob("v", "key", untilDone, 0))
			}
		}},
	{"Fault/ClosedBrokerSaysSo", "§26",
		"After Close every method answers ErrClosed, closing again does nothing, and other handles still work.", nil, func(c *check) {
			c.add("a")
			b := c.open()
			c.ok("Close", b.Close())
			c.ok("Close again", b.Close())
			for method, err := range c.everyMethod(c.ctx, b) {
				c.is(method+" of a closed broker", err, broker.ErrClosed)
			}
			c.worker("w").take("a")
		}},
	{"Fault/EndedContextEndsTheCall", "§26", "A call whose context has ended returns its error, and may be repeated.", nil, func(c *check) {
		c.add("a")
		ctx, cancel := context.WithCancel(c.ctx)
		cancel()
		for method, err := range c.everyMethod(ctx, c.b) {
			c.is(method+" with an ended context", err, context.Canceled)
		}
		w := c.worker("v")
		w.take("a")
		w.retire()
		c.audited = false // the calls above may have taken effect, or may do so later
	}},
}

// faulty returns another handle on the store, which loses the replies of a method.
func (c *check) faulty(method string) *faulty.Broker {
	c.tb.Helper()
	return faulty.Wrap(c.open(), faulty.Plan{{Method: method, Fault: faulty.ReplyLost}})
}

// everyMethod calls each method with a valid request that does not concern job a of
// the rule's queue. It returns the errors by method.
func (c *check) everyMethod(ctx context.Context, b broker.Broker) map[string]error {
	errs := make(map[string]error)
	queues := []string{c.q}
	receipts, err := b.Enqueue(ctx, broker.EnqueueRequest{Now: c.now, Jobs: []broker.NewJob{c.job("never")}})
	if err == nil && len(receipts) == 1 {
		err = receipts[0].Err
	}
	errs["Enqueue"] = err
	w := &worker{c: c, b: b, id: "never", queues: queues}
	_, errs["Claim"] = b.Claim(ctx, w.request(0))
	_, errs["Renew"] = b.Renew(ctx, broker.RenewRequest{Now: c.now, Worker: "never", Queues: queues, Lease: lease})
	_, errs["Retire"] = b.Retire(ctx, broker.RetireRequest{Now: c.now, Worker: "never", Queues: queues})
	settle := settleOf("never", &broker.Job{Queue: c.q, ID: "never"})
	settle.Now = c.now
	_, errs["Settle"] = b.Settle(ctx, settle)
	_, errs["Reclaim"] = b.Reclaim(ctx, broker.ReclaimRequest{Now: c.now, Worker: "never", Queues: queues, Max: 1})
	_, errs["Prune"] = b.Prune(ctx, broker.PruneRequest{Now: c.now, Queues: queues, Max: 1})
	_, errs["Find"] = b.Find(ctx, broker.Query{Now: c.now, Queue: c.q, IDs: []string{"never"}})
	_, errs["Queues"] = b.Queues(ctx, broker.QueuesRequest{Now: c.now})
	_, errs["Operate"] = b.Operate(ctx, broker.Operation{Now: c.now, Kind: broker.OpDelete, Refs: []broker.Ref{c.ref("never")}})
	_, errs["Policy"] = b.Policy(ctx, broker.PolicyRequest{Queue: c.q})
	if !c.limits.NoFlow {
		_, errs["Keys"] = b.Keys(ctx, broker.KeysRequest{Now: c.now, Queue: c.q})
	}
	_, errs["Ping"] = b.Ping(ctx)
	if !c.limits.NoMark {
		_, errs["Mark"] = b.Mark(ctx, broker.MarkRequest{Now: c.now, Name: "m"})
	}
	if !c.limits.NoWatch {
		_, errs["Watch"] = b.Watch(ctx, broker.WatchRequest{Queues: queues})
	}
	return errs
}

// eventually repeats f until it returns nil, as long as patience lasts.
func (c *check) eventually(what string, f func() error) {
	c.tb.Helper()
	err := f()
	for end := time.Now().Add(patience); err != nil && time.Now().Before(end); err = f() {
		select {
		case <-time.After(5 * time.Millisecond): // do not ask an unavailable store in a tight loop
		case <-c.ctx.Done():
		}
	}
	c.ok(what, err)
}

var errNotYet = errors.New("not yet")
