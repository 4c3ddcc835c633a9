package conformance

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// oddNames are names that a store may confuse, split, fold or trim.
var oddNames = []string{"a", "A", "a ", " a", "\u00e9", "e\u0301", "ß", "日本語", "🙂", "it's", `"quoted"`, `back\slash`, "colon:s",
	"per%cent", "under_score",
	"sta*r", "[a]", "$1", "a/b", "a,b", "a;b", "-1", "0", "01", "NULL", "nil", strings.Repeat("n", broker.MaxNameLen),
	strings.Repeat("n", broker.MaxNameLen-1) + "m"}

// oddBytes are values that a store's text types would alter.
var oddBytes = func() []string {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return []string{"", "\x00", "a\x00b", "\xff\xfe", string(all), "\xed\xa0\x80", "null", "{}", `"`, "\\x00", `\u0000`, "\r\n",
		"\u00e9", "e\u0301", "1", "1.0", "-0", " padded "}
}()

var dataRules = []Rule{
	{"Data/PayloadsComeBackUnchanged", "§2",
		"Payloads come back byte for byte, empty or not valid UTF-8 ones too, from Claim and from Find.", nil, func(c *check) {
			jobs := make([]broker.NewJob, len(oddBytes))
			for i, p := range oddBytes {
				jobs[i] = c.job(fmt.Sprint("j", i))
				jobs[i].Body.Payload = []byte(p)
			}
			c.accept(jobs...)
			for i, j := range c.worker("w").claim(len(jobs)) {
				c.bodyIs(&j, jobs[i].Body)
				c.bodyIs(c.must(j.ID, broker.StateActive), jobs[i].Body)
			}
		}},
	{"Data/HeadersComeBackUnchanged", "§2", "Header keys and values come back byte for byte.", nil, func(c *check) {
		j := c.job("a")
		j.Body.Headers = map[string]string{}
		for i, v := range oddBytes {
			j.Body.Headers[fmt.Sprint("value ", i)] = v
			if v != "" {
				j.Body.Headers[v] = "key"
			}
		}
		c.accept(j)
		c.bodyIs(c.worker("w").one("a"), j.Body)
		c.bodyIs(c.must("a", broker.StateActive), j.Body)
	}},
	{"Data/BodiesComeBackWhole", "§2", "Every field of a body comes back, through every state of the job.", nil, func(c *check) {
		j := c.job("a")
		j.Body = c.fullBody()
		c.accept(j)
		w := c.worker("w")
		c.bodyIs(c.must("a", broker.StatePending), j.Body)
		held := w.one("a")
		c.bodyIs(held, j.Body)
		w.settle(broker.Retry(time.Second, failure("x")), held)
		c.bodyIs(c.must("a", broker.StateRetry), j.Body)
		c.pass(time.Second)
		w.settle(broker.Die(broker.ReasonSkipRetry, failure("x")), w.one("a"))
		c.bodyIs(c.must("a", broker.StateDead), j.Body)
		c.decide(broker.OpRedrive, "a")
		held = w.one("a")
		c.bodyIs(held, j.Body)
		w.settle(broker.Complete(nil), held)
		c.bodyIs(c.must("a", broker.StateCompleted), j.Body)
	}},
	{"Data/ResultsComeBackUnchanged", "§2", "Results come back byte for byte.", nil, func(c *check) {
		c.keep(time.Hour)
		w := c.worker("w")
		ids := c.addMany("j", len(oddBytes))
		held := w.take(ids...)
		var outcomes []broker.Outcome
		for _, r := range oddBytes {
			outcomes = append(outcomes, broker.Complete([]byte(r)))
		}
		w.settleEach(held, outcomes...)
		for i, r := range oddBytes {
			got := c.must(ids[i], broker.StateCompleted).Result
			c.that(string(got) == r, "result %d\ngot  %q\nwant %q", i, got, r)
		}
	}},
	{"Data/ErrorsComeBackUnchanged", "§4", "Every field of an error history comes back byte for byte, through retries and death.", nil,
		func(c *check) {
			c.add("a")
			w := c.worker("w")
			head := broker.Head{}
			for i, s := range oddBytes {
				f := broker.Failure{At: c.up(c.now), Attempt: i, Code: s, Class: s, Message: s, Stack: s, Worker: s, Version: s}
				o := broker.Retry(0, f)
				if i == len(oddBytes)-1 {
					o = broker.Die(broker.ReasonSkipRetry, f)
				}
				w.settle(o, w.one("a"))
				want := o.Apply(head, c.up(c.now), 0)
				head = c.find("a").Head
				c.that(headsEqual(head, want), "head after error %d\ngot  %s\nwant %s", i, show(head), show(want))
				c.pass(c.tick)
			}
		}},
	{"Data/NamesAreBytes", "§1", "Queues, IDs and workers are told apart byte by byte and come back unchanged.", nil, func(c *check) {
		c.audited = false // too many queues
		var jobs []broker.NewJob
		for _, name := range oddNames {
			j := c.jobIn(name, name)
			jobs = append(jobs, j)
			jobs = append(jobs, c.job(name))
		}
		c.accept(jobs...)
		c.same("IDs", sorted(idsOf(c.list(broker.Query{State: broker.StatePending}))), sorted(oddNames))
		for _, name := range oddNames {
			j := c.findIn(name, name)
			c.that(j != nil && j.State == broker.StatePending, "job %q of queue %q\ngot  none\nwant it", name, name)
		}
		var names []string
		reply := ask(c, "Queues", c.b.Queues, broker.QueuesRequest{Now: c.now})
		for _, q := range reply.Queues {
			names = append(names, q.Name)
		}
		c.same("queues, sorted", names, sorted(append([]string{c.q}, oddNames...)))
		for _, name := range oddNames[:8] {
			w := c.worker(name, name)
			c.same("claimed", idsOf(w.claim(5)), []string{name})
		}
	}},
	{"Data/TimesRoundUpToMicroseconds", "§2", "Durations and times of a body come back to the microsecond, rounded up.", nil,
		func(c *check) {
			j := c.job("a")
			j.Body.Timeout, j.Body.Retention = time.Second+time.Nanosecond, time.Hour+999*time.Nanosecond
			j.Body.Deadline, j.Body.DueAfter = c.now.Add(time.Hour+time.Nanosecond), time.Second+time.Nanosecond
			j.Body.Backoff = broker.Backoff{Kind: broker.BackoffLinear, Base: time.Nanosecond, Max: time.Minute + time.Nanosecond}
			c.accept(j)
			for _, got := range []*broker.Job{c.must("a", broker.StatePending), c.worker("w").one("a")} {
				c.same("Timeout", got.Timeout, time.Second+time.Microsecond)
				c.same("Retention", got.Retention, time.Hour+time.Microsecond)
				c.same("DueAfter", got.DueAfter, time.Second+time.Microsecond)
				c.same("Deadline", got.Deadline, broker.FromMicros(broker.Micros(j.Body.Deadline)))
				c.same("Backoff", got.Backoff, broker.Backoff{Kind: broker.BackoffLinear, Base: time.Microsecond,
					Max: time.Minute + time.Microsecond})
			}
		}},
	{"Data/LargestPayload", "§2", "A payload of the limit is accepted and comes back; a byte more is refused with ErrTooLarge.", nil,
		func(c *check) {
			j := c.job("a")
			j.Body.Payload = random(c.limits.PayloadLimit() + 1)
			c.refuse(j, broker.ErrTooLarge)
			c.gone("a")
			j.Body.Payload = j.Body.Payload[1:]
			c.accept(j)
			c.bodyIs(c.worker("w").one("a"), j.Body)
		}},
	{"Data/ManyLargeJobs", "§4", "A batch of large jobs goes in and comes out whole, in as many calls as it takes.", nil, func(c *check) {
		const n = 24
		size := min(200<<10, c.limits.PayloadLimit())
		jobs := make([]broker.NewJob, n)
		for i := range jobs {
			jobs[i] = c.job(fmt.Sprint("j", i))
			jobs[i].Body.Payload = random(size)
		}
		c.accept(jobs...)
		w := c.worker("w")
		got := w.claim(n)
		c.same("claimed", len(got), n)
		for i := range got {
			c.bodyIs(&got[i], jobs[i].Body)
		}
		w.settle(broker.Complete(random(min(64<<10, size))), refs(got)...)
	}},
	{"Data/RequestsAreNotKept", "§2", "What the caller does with a request or an answer afterwards changes nothing that is stored.",
		nil, func(c *check) {
			c.keep(time.Hour)
			jobs := []broker.NewJob{c.job("a")}
			jobs[0].Body.Headers = map[string]string{"k": "v"}
			want := jobs[0].Body
			want.Payload, want.Headers = bytes.Clone(want.Payload), maps.Clone(want.Headers)
			spoil := func(b *broker.Body) {
				clear(b.Payload)
				b.Headers["k"], b.Type = "spoiled", "spoiled"
			}
			c.accept(jobs...)
			spoil(&jobs[0].Body)
			jobs[0].ID = "spoiled"
			w := c.worker("w")
			w.settle(broker.Retry(0, failure("error")), w.one("a"))
			for range 2 {
				errors := c.must("a", broker.StatePending).Errors.Entries
				c.same("errors", errors, []broker.Failure{failure("error")})
				errors[0].Message = "spoiled"
			}
			found := c.must("a", broker.StatePending)
			c.bodyIs(found, want)
			spoil(&found.Body)
			held := w.one("a")
			c.bodyIs(held, want)
			ref := *held
			ref.Body = broker.Body{}
			spoil(&held.Body)
			result := []byte("result")
			w.settle(broker.Complete(result), &ref)
			clear(result)
			for range 2 {
				j := c.must("a", broker.StateCompleted)
				c.bodyIs(j, want)
				c.that(string(j.Result) == "result", "result\ngot  %q\nwant %q", j.Result, "result")
				spoil(&j.Body)
				clear(j.Result)
			}
		}},
}

// fullBody returns a body with every field set.
func (c *check) fullBody() broker.Body {
	b := broker.Body{
		Type: "type:with.all/things", TypeVersion: 7, Payload: []byte("payload\x00\xff"), Headers: map[string]string{"k": "v\x00", "é": ""},
		Priority: broker.PriorityNormal, MaxRetries: broker.MaxRetriesCap, CrashBudget: 99, Timeout: broker.NoTimeout,
		Deadline: c.up(c.now.Add(time.Hour)), Retention: 3 * time.Hour,
		Backoff:  broker.Backoff{Kind: broker.BackoffConstant, Base: time.Second, Max: time.Minute},
		DueAfter: time.Minute + time.Microsecond,
		Key:      "tenant 1", GivenID: true,
		CorrelationID: "correlation", IdempotencyKey: "idempotency", PayloadRef: "s3://bucket/\x00key", Source: "schedule:nightly",
	}
	if !c.limits.NoPriority {
		b.Priority = broker.PriorityBulk
	}
	if !c.limits.NoUnique {
		b.Unique = broker.Unique{Key: "unique key", Mode: window, TTL: time.Hour + time.Microsecond}
	}
	return b
}

// bodyIs requires that j has this body. An empty payload or empty headers may be nil.
func (c *check) bodyIs(j *broker.Job, want broker.Body) {
	c.tb.Helper()
	got := j.Body
	if len(got.Payload) == 0 && len(want.Payload) == 0 {
		got.Payload, want.Payload = nil, nil
	}
	if len(got.Headers) == 0 && len(want.Headers) == 0 {
		got.Headers, want.Headers = nil, nil
	}
	if !reflect.DeepEqual(got, want) || j.Broken != nil {
		c.failf("body of %s\ngot  %s broken %v\nwant %s", j.ID, show(got), j.Broken, show(want))
	}
}

// random returns n bytes that do not compress and are the same in every run.
func random(n int) []byte {
	p := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(n), byte(n >> 8)})
	_, _ = r.Read(p) // never fails
	return p
}
