package conformance

import (
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Rules about details of answers that the author of a backend might have to guess.
var answerRules = []Rule{
	{"Watch/SettledIsOfEndedLeasesAndCancels", "§25",
		"EventSettled reports the state that a job got by a settle, a retire or an operator's cancel, whether its record is kept or not; no " +
			"other step sends it.",
		watch, func(c *check) {
			c.add("first")
			events := c.watch(broker.WatchRequest{Queues: []string{c.q}, Kinds: []broker.EventKind{broker.EventSettled}})
			w, v := c.worker("w"), c.worker("v")
			late := c.later("late", time.Hour)
			c.add("completed", "retried", "dead", "asked")
			c.accept(late)
			held := w.take("first", "completed", "retried", "dead", "asked")
			c.decide(broker.OpCancel, "asked")
			w.settle(broker.Release(), &held[0])
			w.settle(broker.Complete(nil), &held[1])
			w.settle(broker.Retry(time.Hour, failure("x")), &held[2])
			w.settle(broker.Die(broker.ReasonRetries, failure("x")), &held[3])
			w.retire()
			c.decide(broker.OpRedrive, "dead")
			c.decide(broker.OpReschedule, "retried")
			if !c.limits.NoMove {
				c.hold("dead")
				c.decide(broker.OpUnhold, "dead")
			}
			c.decide(broker.OpCancel, "late")
			c.decide(broker.OpDelete, "retried")
			v.settle(broker.Cancel(failure("x")), v.one("dead"))
			v.one("first")
			r := c.worker("r")
			c.runOut(r)
			taken := r.reclaim(1)
			c.same("reclaimed", idsOf(taken), []string{"first"})
			r.settle(broker.Snooze(0, failure("")), &taken[0])
			r.settle(broker.Complete(nil), r.one("first"))

			want := map[broker.Event]int{}
			for _, e := range []struct {
				id    string
				state broker.State
			}{{"first", broker.StatePending}, {"completed", broker.StateCompleted}, {"retried", broker.StateRetry}, {"dead", broker.StateDead},
				{"asked", broker.StateCancelled}, {"late", broker.StateCancelled}, {"dead", broker.StateCancelled}, {"first",
					broker.StatePending}, {"first", broker.StateCompleted}} {
				want[c.settledAs(e.id, e.state)]++
			}
			last := c.settledAs("first", broker.StateCompleted)
			got := map[broker.Event]int{}
			c.event("the last event", events, func(e broker.Event) bool {
				got[e]++
				return e == last
			})
			c.same("events", got, want)
		}},
	{"Restore/TakesItsKeyForItsWholeTTL", "§29",
		"A restored job holds its unique key for its TTL, which counts from the restore and " +
			"not from its creation.", unique.and(moves), func(c *check) {
			for i, mode := range []broker.UniqueMode{untilDone, untilStarted, window} {
				key := []string{"until done", "until started", "window"}[i]
				j := c.uniqueJob(key, key, mode, time.Minute)
				j.Restore = &broker.Restored{State: broker.StatePending, CreatedAt: c.now.Add(-time.Hour)}
				c.accept(j)
				c.pass(time.Minute - c.tick)
				c.same("holder", c.refuse(c.uniqueJob("b", key, untilDone, 0), broker.ErrDuplicate).Holder, key)
				c.pass(c.tick)
				c.accept(c.uniqueJob("after "+key, key, untilDone, 0))
				c.same("jobs", len(c.list(broker.Query{State: broker.StatePending})), 2*i+2)
			}
		}},
	{"Restore/TimeDecides", "§29", "The time of a restored job alone decides whether it is pending or scheduled.", moves, func(c *check) {
		for _, state := range []broker.State{broker.StatePending, broker.StateScheduled} {
			now, later, past := c.job("now "+state.String()), c.job("later "+state.String()), c.job("past "+state.String())
			later.Delay, past.RunAt = time.Minute, c.now.Add(-time.Minute)
			for _, j := range []*broker.NewJob{&now, &later, &past} {
				j.Restore = &broker.Restored{State: state}
				c.accept(*j)
			}
			c.must(now.ID, broker.StatePending)
			c.must(past.ID, broker.StatePending)
			c.same("RunAt", c.must(later.ID, broker.StateScheduled).RunAt, c.up(c.now.Add(time.Minute)))
		}
	}},
	{"Policy/PausedQueueIsNotAwaited", "§17",
		"A claim of a paused queue never answers More or a NextDue that has passed: its caller would ask again at once, without result.",
		nil, func(c *check) {
			w := c.worker("w")
			c.add("pending")
			c.accept(c.later("late", time.Minute))
			c.pause(c.q, true)
			for _, d := range []time.Duration{0, time.Minute, time.Hour} {
				c.pass(d)
				w.renew()
				w.nothing()
				got, err := c.claimSome(w.request(5))
				c.ok("Claim", err)
				c.that(!got.More && (got.NextDue.IsZero() || got.NextDue.After(c.now)),
					"claim of a paused queue\ngot  More %t, NextDue %v\nwant no More, and none or a later time than %v",
					got.More, got.NextDue, c.now)
			}
			c.pause(c.q, false)
			c.same("claimed", sorted(idsOf(w.claim(2))), []string{"late", "pending"})
		}},
	{"Operate/RemovedQueueIsForgotten", "§1",
		"A queue that was removed forgets its remembered IDs, its unique windows, its policy and its ended workers " +
			"with their numbers.", nil, func(c *check) {
			given := c.job("given")
			given.Body.GivenID = true
			c.accept(given)
			if !c.limits.NoUnique {
				c.accept(c.uniqueJob("u", "key", window, time.Hour))
				c.decide(broker.OpDelete, "u")
			}
			c.decide(broker.OpDelete, "given")
			c.keep(time.Hour)
			w := c.worker("w")
			c.add("settled")
			w.settle(broker.Cancel(failure("x")), w.one("settled"))
			c.decide(broker.OpDelete, "settled")
			w.retire()
			c.ok("removal", c.removeQueue(c.q))
			c.accept(given)
			if !c.limits.NoUnique {
				c.accept(c.uniqueJob("u", "key", window, time.Hour))
				c.decide(broker.OpDelete, "u")
			}
			c.same("policy", c.policy(broker.PolicyRequest{}), broker.Policy{})
			again := c.worker("w")
			again.settle(broker.Complete(nil), again.one("given")) // with the number of the earlier settle
			c.gone("given")
		}},
	{"Find/SelectsByAllThatIsSet", "§21", "A query with a worker, a key or a state, and other fields, lists the jobs that match them all.",
		nil,
		func(c *check) {
			for i, id := range []string{"a", "b", "c", "d"} {
				j := c.job(id)
				j.Body.Key = []string{"tenant", "another"}[i%2]
				c.accept(j)
			}
			w, v := c.worker("w"), c.worker("v")
			w.take("a", "b")
			v.take("c")
			for _, at := range []struct {
				q    broker.Query
				want []string
			}{
				{broker.Query{Worker: "w", Key: "tenant"}, []string{"a"}},
				{broker.Query{State: broker.StateActive, Key: "tenant"}, []string{"a", "c"}},
				{broker.Query{State: broker.StatePending, Key: "another"}, []string{"d"}},
				{broker.Query{State: broker.StateActive, Worker: "w"}, []string{"a", "b"}},
				{broker.Query{State: broker.StatePending, Worker: "w"}, []string{}},
				{broker.Query{State: broker.StateActive, Worker: "v", Key: "tenant"}, []string{"c"}},
				{broker.Query{State: broker.StateActive, Worker: "v", Key: "another"}, []string{}},
			} {
				c.same(show(at.q).String(), sorted(idsOf(c.list(at.q))), at.want)
			}
			c.pass(time.Second)
			for i, id := range []string{"e", "f", "g"} {
				j := c.job(id)
				j.Body.Key, j.Body.Type = "third", []string{"mail", "mail", "work"}[i]
				c.accept(j)
			}
			x := c.worker("x")
			x.settle(broker.Die(broker.ReasonExpired, failure("of d")), x.one("d"))
			x.settle(broker.Die(broker.ReasonRetries, failure("of e")), x.one("e"))
			x.take("f", "g")
			c.pass(time.Second)
			for _, with := range []broker.Query{{Key: "third"}, {Worker: "x"}} {
				is := func(change func(*broker.Query), want ...string) {
					c.tb.Helper()
					q := with
					change(&q)
					c.same(show(q).String(), sorted(idsOf(c.list(q))), want)
				}
				is(func(q *broker.Query) { q.Type, q.State = "mail", broker.StateActive }, "f")
				is(func(q *broker.Query) { q.State, q.After = broker.StateActive, c.now }, []string{}...)
				is(func(q *broker.Query) { q.State, q.Before = broker.StateActive, c.now.Add(-time.Second) }, []string{}...)
			}
			is := func(q broker.Query, want ...string) {
				c.tb.Helper()
				q.Key = "third"
				c.same(show(q).String(), idsOf(c.list(q)), want)
			}
			is(broker.Query{Reason: broker.ReasonRetries}, "e")
			is(broker.Query{Reason: broker.ReasonExpired}, []string{}...)
			is(broker.Query{ErrorText: "of e"}, "e")
			is(broker.Query{ErrorText: "of d"}, []string{}...)
			c.decide(broker.OpSuppress, "e")
			is(broker.Query{State: broker.StateDead}, []string{}...)
			is(broker.Query{State: broker.StateDead, Suppressed: true}, "e")
		}},
	{"Mark/NobodysIsEmpty", "§24", "A mark that nobody holds, since it was dropped or has lapsed, has no owner, fence, value or end.",
		marks, func(c *check) {
			take := broker.MarkRequest{Action: broker.MarkTake, Name: "m", Owner: "a", TTL: time.Minute, Value: []byte("v")}
			m := c.mark(take)
			c.same("the dropped mark", c.mark(broker.MarkRequest{Action: broker.MarkDrop, Name: "m", Owner: "a", Fence: m.Fence}),
				broker.Marked{Held: true})
			c.same("the mark after it", c.readMark("m"), broker.Marked{})
			c.mark(take)
			c.pass(time.Minute)
			c.same("the lapsed mark", c.readMark("m"), broker.Marked{})
			c.same("a mark that never was", c.readMark("n"), broker.Marked{})
		}},
}
