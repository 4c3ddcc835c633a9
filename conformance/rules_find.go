package conformance

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

var findRules = []Rule{
	{"Find/ByID", "§21", "Find by IDs shows exactly the jobs that exist, in whatever state, once each, even if an ID is given twice.",
		nil, func(c *check) {
			c.everyState()
			for state, id := range stateIDs {
				c.must(id, state)
			}
			page := ask(c, "Find", c.b.Find, broker.Query{Now: c.now, Queue: c.q,
				IDs: []string{"dead", "unknown", "pending", "dead", "active", "unknown"}})
			c.same("found", sorted(idsOf(page.Jobs)), []string{"active", "dead", "pending"})
			c.same("cursor", page.Cursor, "")
		}},
	{"Find/ByState", "§21", "Each state lists its jobs, and no others, each as Find by ID shows it.", nil, func(c *check) {
		c.everyState()
		for state, id := range stateIDs {
			c.same("jobs in state "+state.String(), c.list(broker.Query{State: state}), []broker.Job{*c.must(id, state)})
		}
	}},
	{"Find/PagesShowEveryJob", "§21", "A listing in pages examines at most Limit records a page, ends, and shows every job.", nil,
		func(c *check) {
			w := c.worker("w")
			want := c.manyInEachState(w, 23)
			others := [2]broker.Broker{c.b, c.open()}
			for state, ids := range want {
				for _, limit := range []int{1, 5, 23} {
					got := idsOf(c.list(broker.Query{State: state, Limit: limit}))
					c.same(fmt.Sprintf("jobs in state %v in pages of %d", state, limit), sorted(got), sorted(ids))
				}
				q := broker.Query{Queue: c.q, Now: c.now, State: state, Limit: 3}
				page := ask(c, "Find", c.b.Find, q)
				q.Cursor, q.Limit = page.Cursor, 10
				c.b = others[1] // a cursor is good on every handle
				got := append(idsOf(page.Jobs), idsOf(c.list(q))...)
				c.same(fmt.Sprintf("jobs in state %v in a page of 3 and, of another handle, pages of 10", state), sorted(got), sorted(ids))
				c.b = others[0]
			}
		}},
	{"Find/ScheduledByDueTime", "§21", "Scheduled and retry jobs are listed by due time.", nil, func(c *check) {
		w := c.worker("w")
		delays := []int{5, 3, 9, 1, 7, 2, 8}
		for _, d := range delays {
			c.accept(c.later(fmt.Sprint("s", d), time.Duration(d)*time.Minute))
		}
		for _, d := range delays {
			id := fmt.Sprint("r", d)
			c.add(id)
			w.settle(broker.Retry(time.Duration(d)*time.Minute, failure("x")), w.one(id))
		}
		for _, limit := range []int{2, 100} {
			c.same("scheduled", idsOf(c.list(broker.Query{State: broker.StateScheduled, Limit: limit})),
				[]string{"s1", "s2", "s3", "s5", "s7", "s8", "s9"})
			c.same("retry", idsOf(c.list(broker.Query{State: broker.StateRetry, Limit: limit})),
				[]string{"r1", "r2", "r3", "r5", "r7", "r8", "r9"})
		}
	}},
	{"Find/FinalByEnd", "§21", "Completed, cancelled and dead jobs are listed by their end, earliest first.", nil, func(c *check) {
		c.keep(time.Hour)
		w := c.worker("w")
		want := map[broker.State][]string{}
		for _, i := range []int{4, 1, 3, 5, 2} {
			for _, o := range []broker.Outcome{broker.Complete(nil), broker.Cancel(failure("x")),
				broker.Die(broker.ReasonSkipRetry, failure("x"))} {
				id := fmt.Sprint(o.State(), i)
				c.add(id)
				w.settle(o, w.one(id))
				want[o.State()] = append(want[o.State()], id)
			}
			c.pass(time.Second)
		}
		for state, ids := range want {
			for _, limit := range []int{2, 100} {
				c.same("listing", idsOf(c.list(broker.Query{State: state, Limit: limit})), ids)
			}
		}
	}},
	{"Find/NewestFirst", "§21", "With Newest the job that ended last comes first, within the times of the query; jobs that end or leave " +
		"meanwhile hide no other.",
		nil, func(c *check) {
			c.keep(time.Hour)
			w := c.worker("w")
			ends := map[broker.State]func() broker.Outcome{broker.StateCompleted: func() broker.Outcome { return broker.Complete(nil) },
				broker.StateCancelled: func() broker.Outcome { return broker.Cancel(failure("x")) },
				broker.StateDead:      func() broker.Outcome { return broker.Die(broker.ReasonSkipRetry, failure("x")) }}
			for state, outcome := range ends {
				var want, at []string
				start := c.up(c.now)
				end := func(id string) {
					c.add(id)
					w.settle(outcome(), w.one(id))
				}
				for i := range 6 {
					end(fmt.Sprint(state, i))
					want = append([]string{fmt.Sprint(state, i)}, want...)
					c.pass(time.Second)
				}
				for _, id := range []string{"x", "y", "z"} { // these end at the same instant
					end(fmt.Sprint(state, id))
					at = append(at, fmt.Sprint(state, id))
				}
				for _, limit := range []int{1, 2, 100} {
					got := idsOf(c.list(broker.Query{State: state, Limit: limit, Newest: true}))
					c.that(len(got) == 9, "the listing of %v in pages of %d\ngot  %v\nwant all nine jobs", state, limit, got)
					c.same("those of one instant", sorted(got[:3]), at)
					c.same("the others", got[3:], want)
				}
				c.same("within times", idsOf(c.list(broker.Query{State: state, Limit: 2, Newest: true, After: start.Add(time.Second),
					Before: start.Add(4 * time.Second)})), want[2:5])

				q := broker.Query{Now: c.now, Queue: c.q, State: state, Newest: true, Limit: 5}
				var seen []string
				for len(seen) < 4 { // a page may have fewer jobs than it examined
					page := ask(c, "Find", c.b.Find, q)
					seen, q.Cursor = append(seen, idsOf(page.Jobs)...), page.Cursor
				}
				c.pass(time.Second)
				end(fmt.Sprint(state, "late"))
				c.decide(broker.OpDelete, seen[len(seen)-1])
				seen = append(seen, idsOf(c.list(q))...)
				for _, id := range want {
					c.that(slices.Contains(seen, id), "the pages, of which one came after a change\ngot  %v\nwant %s among them", seen, id)
				}
				for _, j := range c.list(broker.Query{State: state}) {
					c.decide(broker.OpDelete, j.ID)
				}
			}
			for _, q := range []broker.Query{{State: broker.StatePending}, {Key: "k"}, {Worker: "w"}, {IDs: []string{"a"}}} {
				q.Now, q.Queue, q.Newest = c.now, c.q, true
				_, err := c.b.Find(c.ctx, q)
				c.is("Find", err, broker.ErrInvalid)
			}
		}},
	{"Find/ByWorker", "§7", "A worker's listing shows exactly what it holds, so that a lost reply can be found.", nil, func(c *check) {
		c.add("a", "b", "c", "d")
		w, v := c.worker("w"), c.worker("v")
		held := w.take("a", "b")
		v.take("c")
		c.same("held by w", sorted(idsOf(c.list(broker.Query{Worker: "w", Limit: 1}))), []string{"a", "b"})
		c.same("held by v", idsOf(c.list(broker.Query{Worker: "v"})), []string{"c"})
		w.settle(broker.Complete(nil), &held[0])
		got := c.list(broker.Query{Worker: "w"})
		c.same("held by w", idsOf(got), []string{"b"})
		w.settle(broker.Release(), &got[0])
		c.same("held by nobody", len(c.list(broker.Query{Worker: "w"})), 0)
	}},
	{"Find/ByKey", "§21", "A key's listing shows its jobs in every state.", nil, func(c *check) {
		c.keep(time.Hour)
		w := c.worker("w")
		keyed := func(id, key string) broker.NewJob {
			j := c.job(id)
			j.Body.Key = key
			return j
		}
		late := keyed("scheduled", "tenant")
		late.Delay = time.Hour
		c.accept(keyed("completed", "tenant"), keyed("dead", "tenant"), keyed("retry", "tenant"), keyed("active", "tenant"))
		held := w.take("completed", "dead", "retry", "active")
		w.settle(broker.Complete(nil), &held[0])
		w.settle(broker.Die(broker.ReasonSkipRetry, failure("x")), &held[1])
		w.settle(broker.Retry(time.Hour, failure("x")), &held[2])
		c.accept(keyed("pending", "tenant"), keyed("other", "tenant 2"), c.job("none"), late)
		want := []string{"active", "completed", "dead", "pending", "retry", "scheduled"}
		c.same("jobs of the key", sorted(idsOf(c.list(broker.Query{Key: "tenant", Limit: 2}))), want)
		c.same("jobs of the other key", idsOf(c.list(broker.Query{Key: "tenant 2"})), []string{"other"})
		c.same("dead jobs of the key", idsOf(c.list(broker.Query{Key: "tenant", State: broker.StateDead})), []string{"dead"})
	}},
	{"Find/Filters", "§21", "Type, reason, error text and time narrow a listing.", nil, func(c *check) {
		w := c.worker("w")
		start := c.now
		reasons := []broker.DeadReason{broker.ReasonRetries, broker.ReasonExpired}
		for i := range 6 {
			j := c.job(fmt.Sprint("j", i))
			j.Body.Type = fmt.Sprint("type", i%3)
			c.accept(j)
			w.settle(broker.Die(reasons[i%2], failure(fmt.Sprintf("error 100%% of number_%d", i))), w.one(j.ID))
			c.pass(time.Second)
		}
		is := func(q broker.Query, want ...string) {
			c.tb.Helper()
			q.State = broker.StateDead
			for _, q.Limit = range []int{0, 2} {
				c.same(fmt.Sprintf("dead jobs for %+v", q), idsOf(c.list(q)), want)
			}
		}
		is(broker.Query{Type: "type1"}, "j1", "j4")
		is(broker.Query{Reason: broker.ReasonExpired}, "j1", "j3", "j5")
		is(broker.Query{ErrorText: "number_3"}, "j3")
		is(broker.Query{ErrorText: "100% of"}, "j0", "j1", "j2", "j3", "j4", "j5")
		is(broker.Query{ErrorText: "100%4"}, []string{}...)
		is(broker.Query{ErrorText: "number__"}, []string{}...)
		is(broker.Query{After: start.Add(2 * time.Second)}, "j2", "j3", "j4", "j5")
		is(broker.Query{Before: start.Add(2 * time.Second)}, "j0", "j1")
		is(broker.Query{After: start.Add(time.Second), Before: start.Add(3 * time.Second), Type: "type2"}, "j2")
	}},
	{"Find/FiltersByDueAndCreation", "§21",
		"After and Before mean the due time of scheduled and retry jobs, and the creation of pending ones.", nil, func(c *check) {
			start := c.now
			for i := range 4 {
				j := c.job(fmt.Sprint("s", i))
				j.RunAt = start.Add(time.Hour * time.Duration(i+1))
				c.accept(j, c.job(fmt.Sprint("p", i)))
				c.pass(time.Second)
			}
			c.same("scheduled", idsOf(c.list(broker.Query{State: broker.StateScheduled, After: start.Add(2 * time.Hour),
				Before: start.Add(4 * time.Hour)})), []string{"s1", "s2"})
			c.same("pending", sorted(idsOf(c.list(broker.Query{State: broker.StatePending, After: start.Add(time.Second),
				Before: start.Add(3 * time.Second)}))), []string{"p1", "p2"})
			w := c.worker("w")
			held, from := w.take("p0", "p1", "p2"), c.now
			for i := range held {
				w.settle(broker.Retry(time.Hour*time.Duration(i+1), failure(fmt.Sprint("error ", i))), &held[i])
			}
			c.same("in retry", idsOf(c.list(broker.Query{State: broker.StateRetry, After: from.Add(2 * time.Hour),
				Before: from.Add(3 * time.Hour)})), []string{"p1"})
			c.same("in retry with an error", idsOf(c.list(broker.Query{State: broker.StateRetry, ErrorText: "error 2"})), []string{"p2"})
		}},
	{"Find/MayLeaveThePayloadOut", "§21", "NoPayload leaves payload and result out, and nothing else.", nil, func(c *check) {
		c.everyState()
		headed := c.job("with-headers")
		headed.Body.Headers = map[string]string{"a": "1", "b": "2"}
		headed.Delay = 2 * time.Hour
		c.accept(headed)
		compare := func(id string, state broker.State, q broker.Query) {
			want := *c.must(id, state)
			want.Payload, want.Result = nil, nil
			q.NoPayload = true
			got := c.list(q)
			c.same("jobs", len(got), 1)
			c.same("payload and result", len(got[0].Payload)+len(got[0].Result), 0)
			got[0].Payload, got[0].Result = nil, nil
			c.same("the rest of "+id, got[0], want)
		}
		compare("with-headers", broker.StateScheduled, broker.Query{IDs: []string{"with-headers"}})
		c.decide(broker.OpDelete, "with-headers")
		for state, id := range stateIDs {
			compare(id, state, broker.Query{State: state})
		}
	}},
	{"Find/SurvivesChange", "§21", "What matches throughout a listing is shown, although other jobs come and go between its pages.",
		nil, func(c *check) {
			w := c.worker("w")
			want := c.manyInEachState(w, 20)
			for _, state := range []broker.State{broker.StatePending, broker.StateScheduled, broker.StateRetry, broker.StateDead} {
				ids, page := want[state], 0
				seen, gone := make(map[string]bool), make(map[string]bool)
				c.pages(broker.Query{State: state, Limit: 4}, func(jobs []broker.Job) {
					for _, j := range jobs {
						seen[j.ID] = true
					}
					if page < 5 {
						i := (page * 7) % 20
						c.decide(broker.OpDelete, ids[i])
						gone[ids[i]] = true
						c.add(fmt.Sprint("new", state, page))
					}
					page++
				})
				for _, id := range ids {
					c.that(seen[id] || gone[id], "%v job %s\ngot  not shown\nwant shown: it was there throughout", state, id)
				}
			}
		}},
	{"Find/ForeignCursorsHarmNothing", "§21",
		"A cursor of another query, or of none, is refused with ErrInvalid, or gives some page.", nil, func(c *check) {
			c.manyInEachState(c.worker("w"), 3)
			queries := []broker.Query{{Worker: "w"}, {State: broker.StateDead, Newest: true}}
			for _, state := range broker.States() {
				queries = append(queries, broker.Query{State: state})
			}
			cursors := []string{"0", "-1", "1:", "x:y:z", "\x00", "'", "99999999999999999999", strings.Repeat("1", 1000)}
			ask := func(q broker.Query, cursor string) broker.Page {
				q.Now, q.Queue, q.Limit, q.Cursor = c.now, c.q, 1, cursor
				page, err := c.b.Find(c.ctx, q)
				if err != nil {
					c.is(fmt.Sprintf("Find(%+v)", q), err, broker.ErrInvalid)
				}
				return page
			}
			for _, q := range queries {
				cursors = append(cursors, ask(q, "").Cursor)
			}
			for _, q := range queries {
				for _, cursor := range cursors {
					ask(q, cursor)
				}
			}
		}},
	{"Find/UnknownIsEmpty", "§21", "A listing of an unknown queue, worker or key is empty.", nil, func(c *check) {
		c.add("a")
		for _, q := range []broker.Query{{Queue: "unknown", State: broker.StatePending}, {Queue: "unknown", IDs: []string{"a"}},
			{Worker: "unknown"}, {Key: "unknown"}, {IDs: []string{"unknown"}}} {
			c.same(fmt.Sprintf("%+v", q), len(c.list(q)), 0)
		}
	}},
	{"Find/RefusesWhatIsInvalid", "§21", "A query without a selection, or outside the limits, is refused with ErrInvalid.", nil,
		func(c *check) {
			c.add("a")
			for _, q := range []broker.Query{{Queue: c.q}, {Queue: c.q, State: broker.StatePending, Limit: 5001},
				{Queue: c.q, State: broker.StatePending, Limit: -1}, {Queue: "{}", State: broker.StatePending}} {
				_, err := c.b.Find(c.ctx, q)
				c.is(fmt.Sprintf("Find(%+v)", q), err, broker.ErrInvalid)
			}
		}},
}

// stateIDs has the ID of the job that everyState leaves in each state.
var stateIDs = map[broker.State]string{
	broker.StatePending: "pending", broker.StateScheduled: "scheduled", broker.StateActive: "active", broker.StateRetry: "retry",
	broker.StateCompleted: "completed", broker.StateDead: "dead", broker.StateCancelled: "cancelled",
}

// everyState leaves one job in each state, and returns worker w, which holds
// the active one.
func (c *check) everyState() *worker {
	c.tb.Helper()
	return c.everyStateOf("w")
}

func (c *check) everyStateOf(worker string) *worker {
	c.tb.Helper()
	c.keep(24 * time.Hour)
	w := c.worker(worker)
	late := c.later("scheduled", time.Hour)
	c.add("active", "retry", "completed", "dead", "cancelled")
	held := w.take("active", "retry", "completed", "dead", "cancelled")
	c.accept(late, c.job("pending"))
	c.pass(time.Second)
	for _, v := range w.settleEach(held[1:], broker.Retry(time.Hour, failure("x")), broker.Complete([]byte("result")),
		broker.Die(broker.ReasonRetries, failure("x")), broker.Cancel(failure("x"))) {
		c.ok("settle of "+v.ID, v.Err)
	}
	return w
}

// manyInEachState leaves n jobs in each of four states, at different times where the
// state has a time, and returns their IDs in that order.
func (c *check) manyInEachState(w *worker, n int) map[broker.State][]string {
	c.tb.Helper()
	c.keep(24 * time.Hour)
	ids := make(map[broker.State][]string)
	states := []broker.State{broker.StateActive, broker.StateRetry, broker.StateCompleted, broker.StateDead}
	var jobs []broker.NewJob
	for _, state := range states {
		for i := range n {
			jobs = append(jobs, c.job(fmt.Sprint(state, i)))
			ids[state] = append(ids[state], jobs[len(jobs)-1].ID)
		}
	}
	c.accept(jobs...)
	held := w.claim(len(jobs))
	c.same("claimed", len(held), len(jobs))
	var items []broker.Settlement
	for i := range held {
		switch states[i/n] {
		case broker.StateRetry:
			items = append(items, broker.Settlement{Job: &held[i], Outcome: broker.Retry(time.Duration(i)*time.Minute, failure("x"))})
		case broker.StateCompleted:
			items = append(items, broker.Settlement{Job: &held[i], Outcome: broker.Complete(nil)})
		case broker.StateDead:
			items = append(items, broker.Settlement{Job: &held[i], Outcome: broker.Die(broker.ReasonRetries, failure("x"))})
		}
	}
	for part := range slices.Chunk(items, n/3) {
		c.pass(time.Millisecond)
		for _, v := range w.send(part...) {
			c.ok("settle of "+v.ID, v.Err)
		}
	}
	jobs = jobs[:0]
	for i := range n {
		p, s := c.job(fmt.Sprint("pending", i)), c.job(fmt.Sprint("scheduled", i))
		s.Delay = time.Duration(i+1) * time.Minute
		jobs = append(jobs, p, s)
		ids[broker.StatePending] = append(ids[broker.StatePending], p.ID)
		ids[broker.StateScheduled] = append(ids[broker.StateScheduled], s.ID)
	}
	c.accept(jobs...)
	return ids
}
