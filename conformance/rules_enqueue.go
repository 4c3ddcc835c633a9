package conformance

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

var enqueueRules = []Rule{
	{"Enqueue/ReceiptsStandInOrder", "§18", "Receipts are in the order of the request, whatever queues it names.", nil, func(c *check) {
		var jobs []broker.NewJob
		for i := range 9 {
			j := c.jobIn([]string{"q", "other", "third"}[i%3], fmt.Sprint("j", i))
			if i%4 == 3 {
				j.Delay = time.Minute
			}
			jobs = append(jobs, j)
		}
		for i, r := range c.enqueue(jobs...) {
			want := broker.Receipt{Queue: jobs[i].Queue, ID: jobs[i].ID, State: broker.StatePending}
			if jobs[i].Delay > 0 {
				want.State, want.RunAt = broker.StateScheduled, c.up(c.now.Add(time.Minute))
			}
			c.same(fmt.Sprint("receipt ", i), r, want)
		}
	}},
	{"Enqueue/PendingAtOnce", "§18", "A job without a time, or with one that has passed, is pending and claimable at once.", nil,
		func(c *check) {
			past := c.job("past")
			past.RunAt = c.now.Add(-time.Hour)
			present := c.job("present")
			present.RunAt = c.now
			for _, r := range c.enqueue(c.job("plain"), past, present) {
				c.ok("Enqueue of "+r.ID, r.Err)
				c.same("receipt of "+r.ID, r, broker.Receipt{Queue: c.q, ID: r.ID, State: broker.StatePending})
			}
			c.worker("w").take("plain", "past", "present")
		}},
	{"Enqueue/ScheduledSaysWhen", "§15", "A job with a time ahead is scheduled, and its receipt and its record say when it is due.",
		nil, func(c *check) {
			delayed, timed := c.job("delayed"), c.job("timed")
			delayed.Delay = 90 * time.Second
			timed.RunAt = c.now.Add(36 * time.Hour)
			for i, r := range c.enqueue(delayed, timed) {
				due := []time.Time{c.up(c.now.Add(90 * time.Second)), c.up(timed.RunAt)}[i]
				c.same("receipt of "+r.ID, r, broker.Receipt{Queue: c.q, ID: r.ID, State: broker.StateScheduled, RunAt: due})
				c.same("RunAt of "+r.ID, c.must(r.ID, broker.StateScheduled).RunAt, due)
			}
		}},
	{"Enqueue/BadItemFailsAlone", "§18", "An item that is invalid is refused with its own error, and the others are accepted.", nil,
		func(c *check) {
			brace, noType, noID, odd, both := c.job("brace"), c.job("no-type"), c.job(""), c.job("odd"), c.job("both")
			brace.Queue = "a{b}"
			noType.Body.Type = ""
			odd.Body.Priority = 9
			both.Delay, both.RunAt = time.Second, c.now.Add(time.Hour)
			headers := c.job("headers")
			headers.Body.Headers = map[string]string{"h": strings.Repeat("x", broker.MaxHeaderBytes)}
			jobs := []broker.NewJob{c.job("first"), brace, noType, c.job("middle"), noID, odd, both, headers, c.job("last")}
			c.errs(c.enqueue(jobs...), nil, broker.ErrInvalid, broker.ErrInvalid, nil, broker.ErrInvalid, broker.ErrInvalid,
				broker.ErrInvalid, broker.ErrTooLarge, nil)
			c.worker("w").take("first", "middle", "last")
			for _, id := range []string{"no-type", "odd", "both", "headers"} {
				c.gone(id)
			}
		}},
	{"Enqueue/DuplicateIDIsRefused", "§2",
		"The ID of a stored job is refused with ErrDuplicate and that ID as holder, in every state, and changes nothing.", nil,
		func(c *check) {
			w := c.worker("w")
			scheduled := c.later("scheduled", time.Hour)
			c.add("active", "dead", "retry")
			held := w.take("active", "dead", "retry")
			w.settle(broker.Die(broker.ReasonSkipRetry, failure("no")), &held[1])
			w.settle(broker.Retry(time.Hour, failure("later")), &held[2])
			c.accept(c.job("pending"), scheduled)
			ids := []string{"pending", "scheduled", "active", "retry", "dead"}
			states := []broker.State{broker.StatePending, broker.StateScheduled, broker.StateActive, broker.StateRetry, broker.StateDead}
			for i, id := range ids {
				again := c.job(id)
				again.Body.Payload = []byte("another")
				r := c.refuse(again, broker.ErrDuplicate)
				c.same("holder of "+id, r.Holder, id)
				j := c.must(id, states[i])
				c.that(bytes.Equal(j.Payload, []byte("payload of "+id)), "payload of %s\ngot  %q\nwant it unchanged", id, j.Payload)
			}
			w.settle(broker.Complete(nil), &held[0])
		}},
	{"Enqueue/DuplicateInOneRequest", "§18", "An item sees the effects of the items before it in the same request.", nil, func(c *check) {
		for _, id := range []string{"new", "known"} { // a store may take another path for a queue that it knows
			second := c.job(id)
			second.Body.Payload = []byte("second")
			r := c.enqueue(c.job(id), second, c.job(id+" too"))
			c.ok("the first", r[0].Err)
			c.is("the second with the same ID", r[1].Err, broker.ErrDuplicate)
			c.same("holder", r[1].Holder, id)
			c.ok("the third", r[2].Err)
			c.same("payload", string(c.must(id, broker.StatePending).Payload), "payload of "+id)
		}
		c.worker("w").take("new", "new too", "known", "known too")
	}},
	{"Enqueue/IDsAreOfAQueue", "§1", "An ID is free in one queue although another queue has it.", nil, func(c *check) {
		other := c.job("a")
		other.Queue, other.Body.Payload = "other", []byte("of the other")
		c.accept(c.job("a"), other)
		w := c.worker("w", c.q, "other")
		jobs := w.claim(2)
		c.same("claimed", []string{jobs[0].Queue + string(jobs[0].Payload), jobs[1].Queue + string(jobs[1].Payload)},
			[]string{"qpayload of a", "otherof the other"})
		w.settle(broker.Complete(nil), &jobs[0])
		c.gone("a")
		c.that(c.findIn("other", "a") != nil, "settling q/a\ngot  other/a gone\nwant it untouched")
	}},
	{"Enqueue/GivenIDIsRemembered", "§1",
		"A caller's own ID stays refused for the queue's duplicate span after its record is gone, whatever " +
			"removed the record.", nil, func(c *check) {
			w := c.worker("w")
			given := func(id string) broker.NewJob {
				j := c.job(id)
				j.Body.GivenID = true
				return j
			}
			ends := []string{"completed", "cancelled", "deleted"}
			c.accept(given("completed"), given("cancelled"), given("deleted"))
			w.settle(broker.Complete(nil), w.one("completed"))
			c.decide(broker.OpCancel, "cancelled")
			c.decide(broker.OpDelete, "deleted")
			c.pass(broker.DefaultDuplicateSpan - c.tick)
			for _, id := range ends {
				c.gone(id)
				c.same("holder", c.refuse(given(id), broker.ErrDuplicate).Holder, id)
				c.refuse(c.job(id), broker.ErrDuplicate)
			}
			c.pass(c.tick)
			for _, id := range ends {
				c.accept(given(id))
			}
		}},
	{"Enqueue/GivenIDsFollowThePolicy", "§1", "Policy.DuplicateSpan sets how long a caller's own ID is remembered.", nil, func(c *check) {
		span := 5 * time.Minute
		j := c.job("a")
		j.Body.GivenID = true
		c.add("first of the queue")
		c.decide(broker.OpDelete, "first of the queue")
		c.accept(j)
		c.policy(broker.PolicyRequest{DuplicateSpan: &span}) // it counts from when the job is gone
		c.decide(broker.OpDelete, "a")
		c.pass(span - c.tick)
		c.prune()
		c.refuse(j, broker.ErrDuplicate)
		c.pass(c.tick)
		c.accept(j)
	}},
	{"Enqueue/GeneratedIDIsForgotten", "§1", "An ID that the client generated is free as soon as its record is gone.", nil, func(c *check) {
		w := c.worker("w")
		c.add("completed", "deleted")
		w.settle(broker.Complete(nil), w.one("completed"))
		c.decide(broker.OpDelete, "deleted")
		c.add("completed", "deleted")
		w.take("completed", "deleted")
	}},
	{"Enqueue/ChecksInOrder", "§18", "An item is checked for validity, a known ID, a full queue and a held unique key, in this order.",
		unique, func(c *check) {
			depth := int64(1)
			c.accept(c.uniqueJob("holder", "key", broker.UniqueUntilDone, 0))
			c.policy(broker.PolicyRequest{MaxDepth: &depth})
			bad := c.uniqueJob("holder", "key", broker.UniqueUntilDone, 0)
			bad.Body.Type = ""
			c.refuse(bad, broker.ErrInvalid)
			known := c.uniqueJob("holder", "key", broker.UniqueUntilDone, 0)
			c.same("holder", c.refuse(known, broker.ErrDuplicate).Holder, "holder")
			c.refuse(c.uniqueJob("new", "key", broker.UniqueUntilDone, 0), broker.ErrQueueFull)
		}},
	{"Enqueue/RegistersItsQueue", "§1", "A queue is listed from its first job on, even when it has no job left.", nil, func(c *check) {
		reply := ask(c, "Queues", c.b.Queues, broker.QueuesRequest{Now: c.now})
		c.same("queues of an empty store", len(reply.Queues), 0)
		c.add("a")
		c.decide(broker.OpDelete, "a")
		reply = ask(c, "Queues", c.open().Queues, broker.QueuesRequest{Now: c.now})
		c.that(len(reply.Queues) == 1 && reply.Queues[0].Name == c.q, "queues\ngot  %d\nwant %q alone", len(reply.Queues), c.q)
	}},
	{"Enqueue/CreatedAtIsNow", "§15", "CreatedAt is the time at which the store accepted the job.", nil, func(c *check) {
		c.add("a")
		c.pass(time.Minute)
		c.add("b")
		at := c.now
		c.pass(time.Minute)
		c.same("CreatedAt of a", c.must("a", broker.StatePending).CreatedAt, c.up(at.Add(-time.Minute)))
		c.same("CreatedAt of b", c.must("b", broker.StatePending).CreatedAt, c.up(at))
	}},
	{"Enqueue/NothingIsNothing", "§18", "A request without jobs does nothing.", nil, func(c *check) {
		c.same("receipts", len(c.enqueue()), 0)
	}},
	{"Enqueue/TooManyAreRefused", "§18", "A request over the batch limit is refused as a whole, with nothing stored.", nil, func(c *check) {
		jobs := make([]broker.NewJob, broker.MaxBatch+1)
		for i := range jobs {
			jobs[i] = c.job(fmt.Sprint("j", i))
		}
		_, err := c.b.Enqueue(c.ctx, broker.EnqueueRequest{Now: c.now, Jobs: jobs})
		c.is("Enqueue of too many", err, broker.ErrInvalid)
		c.gone("j0")
	}},
}
