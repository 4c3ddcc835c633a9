package conformance

import (
	"bytes"
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

var outcomeRules = []Rule{
	{"Outcome/CompleteLeavesNothing", "§11", "A completed or cancelled job without a retention leaves no record.", nil, func(c *check) {
		c.add("a", "b", "c")
		w := c.worker("w")
		held := w.take("a", "b")
		w.settle(broker.Complete([]byte("result")), &held[0])
		w.settle(broker.Cancel(failure("no")), &held[1])
		c.decide(broker.OpCancel, "c")
		for _, id := range []string{"a", "b", "c"} {
			c.gone(id)
		}
	}},
	{"Outcome/StoresWhatApplySays", "§9",
		"Every outcome stores exactly the head that Outcome.Apply gives, in the state that Outcome.State gives.", nil, func(c *check) {
			c.keep(time.Hour)
			outcomes := everyOutcome()
			ids := c.addMany("j", len(outcomes))
			w := c.worker("w")
			held := w.take(ids...)
			c.pass(1234567 * time.Microsecond)
			verdicts := w.settleEach(held, outcomes...)
			for i, o := range outcomes {
				c.ok("settle", verdicts[i].Err)
				c.same("verdict of "+o.Kind().String(), verdicts[i].State, o.State())
				c.outcomeOf(ids[i], o, held[i].Head)
			}
		}},
	{"Outcome/AddsToWhatWasCharged", "§9", "Counts and history add up over the lives of a job.", nil, func(c *check) {
		c.add("a")
		w := c.worker("w")
		head := broker.Head{}
		for i, o := range []broker.Outcome{
			broker.Retry(time.Second, failure("first")), broker.Snooze(time.Second, failure("second")), broker.Crash(0, failure("third")),
			broker.Release(), broker.Retry(0, failure("fourth")), broker.Snooze(0, failure("")), broker.Die(broker.ReasonRetries,
				failure("fifth")),
		} {
			c.pass(time.Second)
			held := w.one("a")
			c.that(headsEqual(held.Head, head), "head at claim %d\ngot  %s\nwant %s", i, show(held.Head), show(head))
			w.settle(o, held)
			head = c.outcomeOf("a", o, head)
		}
		c.same("messages", len(head.Errors.Entries), 5)
	}},
	{"Outcome/RetryIsDueAfterItsDelay", "§9", "A retried, snoozed or crashed job is due when its delay has passed, and not before.",
		nil, func(c *check) {
			c.add("a", "b", "c")
			w := c.worker("w")
			held := w.take("a", "b", "c")
			w.settleEach(held, broker.Retry(10*time.Second, failure("x")), broker.Snooze(20*time.Second, failure("")),
				broker.Crash(30*time.Second, failure("x")))
			for _, id := range []string{"a", "b", "c"} {
				c.pass(10*time.Second - c.tick)
				w.nothing()
				c.same("RunAt of "+id, c.must(id, broker.StateRetry).RunAt, c.up(c.now.Add(c.tick)))
				c.pass(c.tick)
				w.take(id)
			}
		}},
	{"Outcome/ResultIsKept", "§11", "The result of a completed job is kept with its record.", nil, func(c *check) {
		c.keep(time.Hour)
		c.add("a", "b")
		w := c.worker("w")
		held := w.take("a", "b")
		w.settle(broker.Complete([]byte("the result")), &held[0])
		w.settle(broker.Complete(nil), &held[1])
		j := c.must("a", broker.StateCompleted)
		c.that(bytes.Equal(j.Result, []byte("the result")), "result\ngot  %q\nwant the result", j.Result)
		c.same("FinishedAt", j.FinishedAt, c.up(c.now))
		c.same("result of b", len(c.must("b", broker.StateCompleted).Result), 0)
	}},
	{"Outcome/DeadSaysWhy", "§11", "A dead job is kept with the reason of its death.", nil, func(c *check) {
		reasons := []broker.DeadReason{broker.ReasonRetries, broker.ReasonSkipRetry, broker.ReasonCrashes, broker.ReasonExpired,
			broker.ReasonUnknownType, broker.ReasonUndecodable}
		w := c.worker("w")
		for _, reason := range reasons {
			c.add(reason.String())
			w.settle(broker.Die(reason, failure("because")), w.one(reason.String()))
		}
		c.pass(10 * 365 * 24 * time.Hour)
		for _, reason := range reasons {
			j := c.must(reason.String(), broker.StateDead)
			c.same("reason", j.Reason, reason)
			c.same("message", j.Errors.Last().Message, "because")
		}
	}},
	{"Outcome/HistoryIsCapped", "§9",
		"The error history keeps the newest entries up to the request's cap, and counts the dropped ones.", nil, func(c *check) {
			c.add("a", "b")
			w := c.worker("w")
			for i := range 5 {
				held := w.claim(2)
				var items []broker.Settlement
				for k := range held {
					items = append(items, broker.Settlement{Job: &held[k], Outcome: broker.Retry(0, failure(fmt.Sprint("error ", i)))})
				}
				w.number++
				_, err := c.b.Settle(c.ctx, broker.SettleRequest{Now: c.now, Worker: "w", Number: w.number, Items: items, History: 3})
				c.ok("Settle", err)
			}
			for _, id := range []string{"a", "b"} {
				log := c.must(id, broker.StatePending).Errors
				var messages []string
				for _, f := range log.Entries {
					messages = append(messages, f.Message)
				}
				c.same("history of "+id, messages, []string{"error 2", "error 3", "error 4"})
				c.same("dropped of "+id, log.Dropped, 2)
			}
		}},
	{"Outcome/HistoryHasADefault", "§9", "Without a cap in the request the history keeps DefaultErrorHistory entries.", nil,
		func(c *check) {
			c.add("a")
			w := c.worker("w")
			for range broker.DefaultErrorHistory + 2 {
				w.settle(broker.Retry(0, failure("x")), w.one("a"))
			}
			log := c.must("a", broker.StatePending).Errors
			c.same("entries", len(log.Entries), broker.DefaultErrorHistory)
			c.same("dropped", log.Dropped, 2)
		}},
}

// everyOutcome returns outcomes of each kind, with and without optional parts.
func everyOutcome() []broker.Outcome {
	f := broker.Failure{Attempt: 3, Code: "E42", Class: "retryable", Message: "it broke", Stack: "main.go:1", Worker: "w", Version: "v1"}
	return []broker.Outcome{
		broker.Complete([]byte("r")), broker.Complete(nil),
		broker.Retry(time.Minute, f), broker.Retry(0, f),
		broker.Crash(time.Minute, f), broker.Crash(0, f),
		broker.Die(broker.ReasonRetries, f), broker.Die(broker.ReasonCrashes, f), broker.Die(broker.ReasonExpired, f),
		broker.Snooze(time.Minute, f), broker.Snooze(0, broker.Failure{}), broker.Snooze(time.Minute, f).Because("busy", time.Unix(1e9, 0)),
		broker.Release(),
		broker.Cancel(f), broker.Cancel(broker.Failure{}),
	}
}

// outcomeOf requires that a job is in the state in which o leaves a job with the head
// before, and returns its new head.
func (c *check) outcomeOf(id string, o broker.Outcome, before broker.Head) broker.Head {
	c.tb.Helper()
	want := o.Apply(before, c.up(c.now), 0)
	j := c.must(id, o.State())
	c.that(headsEqual(j.Head, want), "head of %s after %v\ngot  %s\nwant %s", id, o.Kind(), show(j.Head), show(want))
	due := j.RunAt
	if o.State() == broker.StateRetry {
		c.same("RunAt of "+id, due, c.up(c.now.Add(o.Delay())))
	} else if !due.IsZero() {
		c.failf("RunAt of %s, which is %v\ngot  %v\nwant none", id, j.State, due)
	}
	return j.Head
}

// headsEqual compares the stored forms of heads, in which an empty history or result
// is the same as nil.
func headsEqual(a, b broker.Head) bool {
	return bytes.Equal(broker.AppendHead(nil, 0, &a), broker.AppendHead(nil, 0, &b))
}
