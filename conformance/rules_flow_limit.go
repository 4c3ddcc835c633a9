package conformance

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance/faulty"
)

// Rules about the limits of a queue and the jobs that they keep back.
var limitRules = []Rule{
	{"Limit/MaxActiveBounds", "§32",
		"Claims of all workers and handles together lease at most as many jobs as may be active.", flow, func(c *check) {
			c.policy(broker.PolicyRequest{MaxActive: new(int64(3))})
			ids := c.addMany("j", 8)
			w, v := c.worker("w"), c.workerOn(c.open(), "v")
			held := w.take(ids[:2]...)
			c.same("claimed by the other", idsOf(v.claim(5)), ids[2:3])
			v.rest()
			w.rest()
			c.active(3)
			w.settle(broker.Complete(nil), refs(held)...)
			c.same("claimed when two had ended", idsOf(v.claim(5)), ids[3:5])
			w.rest()
		}},
	{"Limit/ActiveIsCountedFromLeases", "§32",
		"Active jobs are counted from leases: lost answers, workers that ran out, reclaims, retires and cancels neither leak a slot nor add one.",
		flow, func(c *check) {
			c.policy(broker.PolicyRequest{MaxActive: new(int64(2))})
			c.countsLeases(c.add)
			u := c.worker("u")
			for range 4 {
				held := u.claim(5)
				c.same("jobs claimed", len(held), 2)
				u.rest()
				u.settle(broker.Retry(time.Hour, failure("x")), &held[0])
				u.settle(broker.Release(), &held[1])
			}
		}},
	{"Limit/ChangesCountAtOnce", "§37", "A change of a limit counts for the next claim and takes back no lease.", flow, func(c *check) {
		ids := c.addMany("j", 8)
		w := c.worker("w")
		held := w.take(ids[:4]...)
		c.policy(broker.PolicyRequest{MaxActive: new(int64(2))})
		w.rest()
		c.active(4)
		w.settle(broker.Complete(nil), refs(held[:2])...)
		w.rest()
		w.settle(broker.Complete(nil), &held[2])
		c.same("claimed when fewer ran than may", idsOf(w.claim(5)), ids[4:5])
		c.policy(broker.PolicyRequest{MaxActive: new(int64(4))})
		c.same("claimed after the limit rose", idsOf(w.claim(5)), ids[5:7])
		c.policy(broker.PolicyRequest{MaxActive: new(int64(broker.NoLimit))})
		w.take(ids[7])
	}},
	{"Limit/RateBounds", "§32",
		"Claims lease as many jobs as a Bucket of the rate allows at the time of each, over all handles.", flow, func(c *check) {
			for i, rate := range []broker.Rate{{Jobs: 1, Per: time.Second}, {Jobs: 3, Per: time.Second, Burst: 2}, {Jobs: 30,
				Per: time.Minute, Burst: 4},
				{Jobs: 7, Per: 3 * time.Second}, {Jobs: 1, Per: 333*time.Millisecond + time.Microsecond}} {
				c.q = fmt.Sprint("q", i)
				c.policy(broker.PolicyRequest{Rate: &rate})
				for _, prefix := range []string{"a", "b", "c"} {
					c.add(numbered(prefix, 40)...)
				}
				workers := []*worker{c.workerOn(c.open(), "w"), c.workerOn(c.open(), "v")}
				var bucket broker.Bucket
				var starts []time.Time
				for step, pass := range []time.Duration{0, 0, 100, 400, 600, 1, 10_000, 999, 1, 1, 2500, 2500, 333, 334, 333, 60_000, 5,
					20_000} {
					c.pass(pass * time.Millisecond)
					want, _ := bucket.Free(rate, c.now.UnixMicro())
					bucket.Take(want)
					got := workers[step%2].claim(50)
					c.same(fmt.Sprintf("jobs claimed at the rate %+v", rate), int64(len(got)), want)
					workers[step%2].renew()
					workers[(step+1)%2].renew()
					for range got {
						starts = append(starts, c.now)
					}
				}
				for n := range starts {
					end := starts[n].Add(rate.Per)
					in, _ := slices.BinarySearchFunc(starts, end, time.Time.Compare)
					c.that(int64(in-n) <= rate.Jobs+rate.Burst, "jobs that started in %v from %v\ngot  %d\nwant at most %d", rate.Per,
						starts[n], in-n,
						rate.Jobs+rate.Burst)
				}
			}
		}},
	{"Limit/RatesFollowTheClockBack", "§32",
		"If the clock is set back, a rate keeps jobs back for at most its Per from then on, once Prune has looked.", flow, func(c *check) {
			start, rate := c.now, &broker.Rate{Jobs: 1, Per: 10 * time.Second}
			for i, limit := range []broker.PolicyRequest{{Rate: rate}, {KeyRate: rate}} {
				c.q, c.now = fmt.Sprint("q", i), start.Add(365*24*time.Hour)
				c.policy(limit)
				w := c.worker(fmt.Sprint("ahead", i))
				c.addTo("k", "a", "b")
				w.one("a")
				w.rest()
				c.now = start
				v := c.worker(fmt.Sprint("back", i))
				c.prune()
				c.pass(rate.Per)
				v.one("b")
			}
		}},
	{"Limit/RateCountsEachLease", "§32",
		"A lease counts once, even if its answer was lost; a job that is released and claimed again counts again, and a reclaim counts nothing.",
		flow, func(c *check) {
			c.policy(broker.PolicyRequest{Rate: &broker.Rate{Jobs: 1, Per: time.Minute, Burst: 3}})
			ids := c.addMany("j", 8)
			lossy := faulty.Wrap(c.open(), faulty.Plan{{Method: "Claim", Fault: faulty.ReplyLost}})
			v := c.workerOn(lossy, "v")
			_, err := lossy.Claim(c.ctx, v.request(1))
			c.is("Claim", err, faulty.ErrReplyLost)
			w := c.worker("w")
			w.settle(broker.Release(), w.one(ids[1]))
			w.settle(broker.Release(), w.one(ids[1]))
			w.take(ids[1])
			w.rest() // four have started
			c.runOut(w)
			c.same("reclaimed", idsOf(w.reclaim(5)), ids[:1])
			w.renew()
			c.pass(time.Minute - lease)
			w.take(ids[2]) // a minute and a second after the first
			w.rest()
		}},
	{"Limit/TellsWhenTimeMakesRoom", "§37",
		"If only a rate keeps a job back, NextDue is not later than the time when the rate allows it, and a claim then gets it.", flow,
		func(c *check) {
			c.policy(broker.PolicyRequest{Rate: &broker.Rate{Jobs: 3, Per: 10 * time.Second}})
			c.add("a", "b", "c")
			c.accept(c.later("late", time.Hour))
			w := c.worker("w")
			start := c.now
			w.take("a")
			third := time.Duration(3_333_334) * time.Microsecond
			w.until(c.up(start.Add(third)), "b")
			w.until(c.up(start.Add(2*third)), "c")
			got := w.rest() // nothing is pending: the rate keeps nothing back
			c.that(got.NextDue.Equal(c.find("late").RunAt), "NextDue\ngot  %v\nwant %v, when the next job is due", got.NextDue,
				c.find("late").RunAt)
		}},
	{"Limit/HoldsNoRoomWhileItWaits", "§37", "A job that one limit keeps back uses nothing of another limit.", flow, func(c *check) {
		c.policy(broker.PolicyRequest{MaxActive: new(int64(1)), Rate: &broker.Rate{Jobs: 1, Per: time.Hour},
			KeyRate: &broker.Rate{Jobs: 1, Per: time.Hour}})
		c.addTo("k", "a", "b")
		w := c.worker("w")
		a := w.one("a")
		for range 3 {
			c.pass(lease / 2)
			w.renew()
			w.rest() // blocked by MaxActive and both rates
		}
		c.pass(time.Hour)
		w.rest() // blocked by MaxActive alone
		w = c.worker("w2")
		taken := w.reclaim(1)
		w.settle(broker.Complete(nil), &taken[0])
		c.gone(a.ID)
		w.take("b")
	}},
	{"Limit/KeepsJobsAsTheyAre", "§37",
		"A job that a limit keeps back stays pending: nothing of it is charged or changed.", flow, func(c *check) {
			c.policy(broker.PolicyRequest{MaxActive: new(int64(1)), KeyRate: &broker.Rate{Jobs: 1, Per: time.Hour}})
			c.addTo("k", "a", "b")
			w := c.worker("w")
			before := c.must("b", broker.StatePending)
			a := w.one("a")
			w.rest()
			w.settle(broker.Complete(nil), a)
			w.rest()
			c.same("the job that was kept back", c.must("b", broker.StatePending), before)
			c.pass(time.Hour)
			c.same("what the claim gave of its head", c.worker("v").one("b").Head, before.Head)
		}},
	{"Limit/MaxBytesBounds", "§32",
		"A queue whose waiting jobs have MaxBytes refuses more with ErrQueueFull, of whatever key; ended and active jobs do not count. " +
			"Bytes says how many they have.",
		flow, func(c *check) {
			c.add("x", "y")
			bytes := c.queue(c.q).Bytes
			c.policy(broker.PolicyRequest{MaxBytes: &bytes})
			c.refuse(c.job("z"), broker.ErrQueueFull)
			c.policy(broker.PolicyRequest{MaxBytes: new(bytes + 1)})
			c.add("z")
			c.that(c.queue(c.q).Bytes > bytes, "the bytes of three jobs are %d, those of two %d", c.queue(c.q).Bytes, bytes)
			v := c.worker("v")
			held := v.claim(3)
			c.same("bytes of active jobs", c.queue(c.q).Bytes, int64(0))
			v.settle(broker.Retry(time.Hour, failure("x")), refs(held[:2])...)
			c.same("bytes of two retries", c.queue(c.q).Bytes, bytes)
			c.decide(broker.OpDelete, idsOf(held[:2])...)
			c.policy(broker.PolicyRequest{MaxBytes: new(int64(15_000))})
			big := func(id string) broker.NewJob {
				j := c.keyedJob(id, "key of "+id)
				j.Body.Payload = make([]byte, 10_000)
				return j
			}
			late := big("late")
			late.Delay = time.Hour
			r := c.enqueue(late, big("b"), big("c"))
			c.ok("the first", r[0].Err)
			c.ok("the second, for which there was room", r[1].Err)
			c.is("the third", r[2].Err, broker.ErrQueueFull)
			var full *broker.Error
			c.that(errors.As(r[2].Err, &full) && full.Field == "bytes", "the third\ngot  %v\nwant an Error with the field bytes", r[2].Err)
			c.gone("c")
			w := c.worker("w")
			b := w.one("b")
			c.accept(big("d"))
			c.refuse(c.job("e"), broker.ErrQueueFull)
			w.settle(broker.Retry(time.Hour, failure("x")), b)
			c.decide(broker.OpDelete, "late")
			c.refuse(c.job("e"), broker.ErrQueueFull) // retries count
			c.decide(broker.OpCancel, "b")
			c.add("e")
			c.accept(big("f"))
			c.refuse(c.job("g"), broker.ErrQueueFull)
			c.policy(broker.PolicyRequest{MaxBytes: new(int64(broker.NoLimit))})
			c.add("g")
		}},
	{"Limit/BytesFollowEdits", "§32", "The bytes of a job are those that it has after an edit.", flow.and(moves), func(c *check) {
		c.policy(broker.PolicyRequest{MaxBytes: new(int64(15_000))})
		c.add("a", "b")
		for i, payload := range []int{10_000, 20_000, 10} {
			r := c.operate(broker.Operation{Kind: broker.OpEdit, Payload: make([]byte, payload)}, "a")
			c.ok("edit", r[0].Err)
			n := c.job(fmt.Sprint("n", i))
			if payload < 15_000 {
				c.accept(n)
			} else {
				c.refuse(n, broker.ErrQueueFull)
			}
		}
	}},
	{"Limit/RetryRateBounds", "§38",
		"Of the due jobs in retry, only as many become pending as the rate allows; the others stay in retry, and NextDue says until when.",
		flow,
		func(c *check) {
			ids := c.addMany("j", 5)
			w := c.worker("w")
			for i, j := range w.take(ids...) {
				w.settle(broker.Retry(time.Duration(i+1)*time.Millisecond, failure("x")), &j)
			}
			c.policy(broker.PolicyRequest{RetryRate: &broker.Rate{Jobs: 1, Per: time.Minute, Burst: 1}})
			c.pass(time.Second)
			start := c.now
			w.take(ids[:2]...)
			c.must(ids[2], broker.StateRetry)
			for i, id := range ids[2:] {
				at := start.Add(time.Duration(i+1) * time.Minute)
				w.until(at, id)
			}
		}},
	{"Limit/RetriesLetOthersGoAhead", "§38",
		"Retries over the rate keep back neither other pending jobs nor scheduled ones.", flow, func(c *check) {
			c.policy(broker.PolicyRequest{RetryRate: &broker.Rate{Jobs: 1, Per: time.Hour}})
			ids := c.addMany("j", 50)
			w := c.worker("w")
			w.settle(broker.Retry(time.Millisecond, failure("x")), refs(w.take(ids...))...)
			c.accept(c.later("late", time.Second))
			c.pass(time.Second)
			c.add("fresh")
			got := idsOf(w.claim(10))
			c.same("claimed", len(got), 3)
			c.that(slices.Contains(got, "fresh") && slices.Contains(got, "late"), "claimed\ngot  %v\nwant fresh, late and one retry", got)
			w.rest()
			c.add("fresh 2")
			w.take("fresh 2")
			c.policy(broker.PolicyRequest{RetryRate: &broker.Rate{Jobs: broker.NoLimit}})
			c.same("claimed when the rate was removed", len(w.claim(100)), 49)
		}},
	{"Limit/RefusesWhatIsInvalid", "§33",
		"A limit of 0 or below, a rate without a time, a burst without a rate, a weight out of range, an unknown order, a rule of " +
			"a key for a queue and the other way round are refused, and nothing is stored.", flow, func(c *check) {
			yes, n := true, func(n int64) *int64 { return &n }
			for _, req := range []broker.PolicyRequest{
				{MaxActive: n(0)}, {MaxActive: n(-2)}, {MaxBytes: n(0)}, {KeyMaxDepth: n(0)}, {KeyMaxActive: n(-3)},
				{Rate: &broker.Rate{}}, {Rate: &broker.Rate{Jobs: 1}}, {Rate: &broker.Rate{Burst: 1, Per: time.Second}},
				{Rate: &broker.Rate{Jobs: -2, Per: time.Second}},
				{KeyRate: &broker.Rate{Jobs: 1, Per: -time.Second}}, {RetryRate: &broker.Rate{Jobs: 1, Per: time.Second, Burst: -1}},
				{Rate: &broker.Rate{Jobs: 1 << 40, Per: time.Hour}},
				{Ordered: new(broker.Order(3))}, {Weight: n(1)},
				{Key: "k", Weight: n(0)}, {Key: "k", Weight: n(broker.MaxWeight + 1)}, {Key: "k", MaxBytes: n(1)}, {Key: "k",
					KeyMaxActive: n(1)},
				{Key: "k", Ordered: new(broker.OrderStop)}, {Key: "k", RetainDead: &broker.Retention{}},
				{Key: strings.Repeat("k", broker.MaxNameLen+1)},
			} {
				req.Queue, req.Paused = c.q, &yes
				_, err := c.b.Policy(c.ctx, req)
				c.is(fmt.Sprintf("Policy(%.200s)", fmt.Sprintf("%+v", req)), err, broker.ErrInvalid)
			}
			for _, req := range []broker.KeysRequest{{Limit: -1}, {Limit: 1001}, {Names: make([]string, 1001)}, {Names: []string{""}}} {
				req.Now, req.Queue = c.now, c.q
				_, err := c.b.Keys(c.ctx, req)
				c.is("Keys", err, broker.ErrInvalid)
			}
			c.refuse(c.keyedJob("a", strings.Repeat("k", broker.MaxNameLen+1)), broker.ErrInvalid)
			c.same("policy", c.policy(broker.PolicyRequest{}), broker.Policy{})
			c.same("policy of the key", c.policy(broker.PolicyRequest{Key: "k"}), broker.Policy{})
			c.add("a")
			c.worker("w").take("a")
			c.same("keys", len(c.keyNames(10)), 0)
		}},
}
