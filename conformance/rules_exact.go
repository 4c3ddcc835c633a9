package conformance

import (
	"fmt"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Rules about values that a store could cut, round, or forget at a renewal or a change of a policy.
var exactRules = []Rule{
	{"Data/LargestValuesComeBack", "§2",
		"Names, headers, errors and results of the largest size that is accepted come back whole.", nil, func(c *check) {
			c.keep(time.Hour)
			name := func(first string) string { return first + strings.Repeat("n", broker.MaxNameLen-1) }
			j := c.job("a")
			b := &j.Body
			b.Type, b.Key, b.CorrelationID, b.IdempotencyKey, b.Source = name("t"), name("k"), name("c"), name("i"), name("s")
			b.PayloadRef = string(random(broker.MaxHeaderBytes))
			b.Headers = map[string]string{}
			for i := range broker.MaxHeaders {
				b.Headers[fmt.Sprintf("%03d", i)] = string(random(broker.MaxHeaderBytes/broker.MaxHeaders - 3))
			}
			c.accept(j)
			w := c.worker("w")
			held, want := w.one("a"), broker.Head{}
			text := strings.Repeat("e", broker.MaxErrorBytes)
			for _, o := range []broker.Outcome{broker.Retry(0, broker.Failure{Message: text, Stack: text}),
				broker.Complete(random(broker.MaxResult))} {
				w.settle(o, held)
				want = o.Apply(want, c.up(c.now), 0)
				got := c.find("a")
				c.bodyIs(got, j.Body)
				c.that(headsEqual(got.Head, want), "head after %v\ngot  %s\nwant %s", o.Kind(), show(got.Head), show(want))
				if got.State == broker.StatePending {
					held = w.one("a")
					c.bodyIs(held, j.Body)
				}
			}
		}},
	{"Schedule/SpansRoundUp", "§15",
		"The delay of an outcome or of a reschedule, and a lease, end at an instant of the store's time, rounded up, never down.", nil,
		func(c *check) {
			ids := []string{"retried", "crashed", "snoozed", "delayed", "timed"}
			c.add(ids...)
			w := c.worker("w")
			held := w.take(ids...)
			const odd = time.Second + time.Nanosecond
			w.settle(broker.Retry(odd, failure("x")), &held[0])
			w.settle(broker.Crash(odd, failure("x")), &held[1])
			w.settle(broker.Snooze(odd, failure("")), &held[2])
			w.settle(broker.Retry(time.Hour, failure("x")), &held[3], &held[4])
			c.reschedule(odd, "delayed")
			c.ok("reschedule", c.operate(broker.Operation{Kind: broker.OpReschedule, RunAt: c.now.Add(odd)}, "timed")[0].Err)
			for _, id := range ids {
				c.same("due time of "+id, c.must(id, broker.StateRetry).RunAt, c.now.Add(time.Second+c.tick))
			}
			w.renewAs(lease+time.Nanosecond, false)
			c.same("end of the lease", c.workers()["w"].Until, c.now.Add(lease+c.tick))
			c.pass(time.Second)
			w.nothing()
			c.pass(c.tick)
			c.same("claimed", len(w.claim(10)), len(ids))
		}},
	{"Settle/NumbersOutliveRenewals", "§10",
		"A worker's last number is remembered when the worker renews, registers again or describes itself anew.", nil, func(c *check) {
			c.add("a", "b")
			w := c.worker("w")
			held := w.take("a", "b")
			a, b := broker.Settlement{Job: &held[0], Outcome: broker.Complete(nil)}, broker.Settlement{Job: &held[1], Outcome: broker.Release()}
			c.ok("settle", w.sendAs(7, a)[0].Err)
			for _, renew := range []broker.RenewRequest{{}, {Register: true}, {Describe: true, Info: broker.WorkerInfo{Host: "host"}}} {
				renew.Now, renew.Worker, renew.Queues, renew.Lease = c.now, "w", w.queues, lease
				got := ask(c, "Renew", c.b.Renew, renew)
				c.that(!got.Lost, "renewal %+v\ngot  Lost\nwant renewed", renew)
				c.ok("the repeated settle", w.sendAs(7, a)[0].Err)
				c.is("a settle with a lower number", w.sendAs(6, b)[0].Err, broker.ErrLeaseLost)
				c.must("b", broker.StateActive)
			}
			c.ok("settle", w.sendAs(8, b)[0].Err)
		}},
	{"Watch/EveryWatcherSeesEachEvent", "§25", "All watchers of a queue see each of its events, on one handle and on several.", watch,
		func(c *check) {
			var all []<-chan broker.Event
			for _, b := range []broker.Broker{c.b, c.b, c.open()} {
				events, err := b.Watch(c.ctx, broker.WatchRequest{Queues: []string{c.q}})
				c.ok("Watch", err)
				all = append(all, events)
			}
			c.add("a", "b")
			w := c.worker("w")
			held := w.take("a", "b")
			w.settle(broker.Complete(nil), &held[0])
			c.decide(broker.OpCancel, "b")
			for _, events := range all {
				c.sees(events, c.settledAs("a", broker.StateCompleted), broker.Event{Kind: broker.EventCancel, Queue: c.q, ID: "b"})
			}
		}},
	{"Limit/RetryRateIsOfRetriesAlone", "§38",
		"Only jobs in retry that become pending because they are due use the rate of retries: not scheduled ones, those retried at once, " +
			"or those rescheduled at once.", flow, func(c *check) {
			c.policy(broker.PolicyRequest{RetryRate: &broker.Rate{Jobs: 1, Per: time.Hour}})
			w := c.worker("w")
			c.add("at once", "rescheduled", "in time")
			held := w.take("at once", "rescheduled", "in time")
			w.settle(broker.Retry(time.Hour, failure("x")), &held[1])
			w.settle(broker.Retry(3*time.Second, failure("x")), &held[2])
			for i := range 3 {
				c.accept(c.later(fmt.Sprint("scheduled ", i), time.Second))
			}
			c.pass(2 * time.Second)
			c.same("claimed scheduled jobs", len(w.claim(10)), 3)
			w.settle(broker.Retry(0, failure("x")), &held[0])
			w.take("at once")
			c.decide(broker.OpReschedule, "rescheduled")
			w.take("rescheduled")
			c.pass(time.Second)
			w.take("in time")
		}},
	{"Limit/SettingARateAgainGivesNoStarts", "§32",
		"A rate that is set again, unchanged, and a change of another rule, leave the starts that were counted.", flow, func(c *check) {
			rate := &broker.Rate{Jobs: 2, Per: time.Minute, Burst: 1}
			for i, set := range []broker.PolicyRequest{{Rate: rate}, {KeyRate: rate}, {Key: "k", Rate: rate}, {RetryRate: rate}} {
				name := []string{"rate", "key rate", "rate of a key", "retry rate"}[i]
				c.q = name
				w := c.worker("w of " + name)
				c.addTo("k", numbered("j", 5)...)
				if set.RetryRate != nil {
					w.settle(broker.Retry(time.Second, failure("x")), refs(w.claim(5))...)
					c.pass(time.Second)
				}
				c.policy(set)
				c.same("claimed at once at the "+name, len(w.claim(5)), 2)
				other := broker.PolicyRequest{Key: set.Key, MaxDepth: new(int64(100))}
				for _, again := range []broker.PolicyRequest{set, other} {
					c.policy(again)
					w.nothing()
				}
				c.pass(29 * time.Second)
				w.nothing()
				c.pass(time.Second)
				w.renew()
				c.same("claimed later at the "+name, len(w.claim(5)), 1)
			}
		}},
	{"Limit/BytesFollowEachStep", "§32",
		"Bytes are those of the jobs that are pending, scheduled, waiting or in retry, whatever steps led there, and none in the end.", flow,
		func(c *check) {
			bytes := func() int64 { return c.counted(c.q).Bytes }
			after := func(step string, want int64) {
				c.tb.Helper()
				c.same("bytes after "+step, bytes(), want)
			}
			c.add("a", "b")
			both, w, r := bytes(), c.worker("w"), c.worker("r")
			w.settleEach(w.takeAll("a", "b"), broker.Release(), broker.Retry(time.Hour, failure("x")))
			after("a release and a retry", both)
			c.decide(broker.OpReschedule, "b")
			after("a reschedule", both)
			w.takeAll("a", "b")
			w.retire()
			after("a retire", both)
			c.worker("v").takeAll("a", "b")
			c.runOut(r)
			held := r.reclaim(2)
			after("a reclaim", 0)
			r.settle(broker.Die(broker.ReasonCrashes, failure("x")), refs(held)...)
			after("two deaths", 0)
			c.decide(broker.OpRedrive, "a", "b")
			after("a redrive", both)
			if !c.limits.NoMove {
				c.hold("a", "b")
				after("a hold", both)
				c.decide(broker.OpUnhold, "a", "b")
				after("an unhold", both)
			}
			if !meets.declared(c.limits) {
				of := func(id string, size int) broker.NewJob {
					n := c.meeting(id, broker.ConflictKeepLast)
					n.Body.Payload = make([]byte, size)
					return n
				}
				replaces := func(id, into string) {
					c.tb.Helper()
					before := bytes()
					c.replaced(of(id, 5000), into)
					c.that(bytes() > before+4000, "bytes after a replacement by 5000 bytes\ngot  %d\nwant more than %d", bytes(), before+4000)
					c.replaced(of(id+"'", 10), into)
					after("replacements by a large job and by one of the first size", before)
				}
				c.accept(of("c'", 10)) // later headers are as long as its own
				replaces("d", "c'")
				u := c.worker("u")
				held = u.claim(3)
				c.accept(of("e'", 10))
				one := bytes()
				replaces("f", "e'")
				u.settle(broker.Complete(nil), refs(held)...)
				after("the end of the job before it", one)
			}
			c.decide(broker.OpCancel, idsOf(c.list(broker.Query{State: broker.StatePending}))...)
			after("the end of all jobs", 0)
		}},
	{"Limit/OldestOfWhatIsKeptBack", "§23",
		"OldestPending and Oldest tell of pending jobs of which none may start now, since their key or queue keeps them back.", flow,
		func(c *check) {
			c.policy(broker.PolicyRequest{Key: "paused", Paused: new(true)})
			c.policy(broker.PolicyRequest{KeyMaxActive: new(int64(1))})
			first := c.up(c.now)
			c.addTo("paused", "a")
			c.pass(time.Minute)
			c.addTo("busy", "b1", "b2")
			w := c.worker("w")
			w.take("b1")
			c.decide(broker.OpDelete, "b2")
			for _, paused := range []bool{false, true} {
				c.pause(c.q, paused)
				info := c.counted(c.q)
				c.same("creation of the next job of its priority", info.OldestPending[broker.PriorityNormal].UTC(), first.UTC())
				c.same("creation of the oldest pending job", info.Oldest[broker.StatePending].UTC(), first.UTC())
			}
		}},
}
