package conformance

import (
	"fmt"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance/faulty"
)

// The steps of the rules about limits, keys and order.

// keyedJob returns a job with a partition key.
func (c *check) keyedJob(id, key string) broker.NewJob {
	j := c.job(id)
	j.Body.Key = key
	return j
}

// addTo enqueues jobs with a partition key.
func (c *check) addTo(key string, ids ...string) {
	c.tb.Helper()
	jobs := make([]broker.NewJob, len(ids))
	for i, id := range ids {
		jobs[i] = c.keyedJob(id, key)
	}
	c.accept(jobs...)
}

// numbered returns n IDs that begin with a prefix.
func numbered(prefix string, n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s%03d", prefix, i)
	}
	return ids
}

// rest requires that there is nothing to claim and that no claim says More. It
// returns the last answer.
func (w *worker) rest() (got broker.Claimed) {
	w.c.tb.Helper()
	w.nothing()
	for range 3 {
		var err error
		got, err = w.b.Claim(w.c.ctx, w.request(10))
		w.c.ok("Claim by "+w.id, err)
		w.c.same("jobs claimed by "+w.id, idsOf(got.Jobs), []string{})
		w.c.that(!got.More, "a claim that found nothing\ngot  More\nwant none: what is kept back is no reason to ask again")
	}
	return got
}

// until claims at each NextDue, as a server does, until it gets these jobs. It must get them exactly at
// the time at.
func (w *worker) until(at time.Time, ids ...string) {
	w.c.tb.Helper()
	c := w.c
	for asked := 0; c.now.Before(at); asked++ {
		got := w.rest()
		c.that(asked < 20, "NextDue\ngot  a time 20 times at which nothing came, until %v\nwant few before %v", c.now, at)
		c.that(got.NextDue.After(c.now) && !got.NextDue.After(at), "NextDue of a claim at %v\ngot  %v\nwant a later time, not after %v",
			c.now, got.NextDue, at)
		c.now = got.NextDue
	}
	w.take(ids...)
}

// key returns the description of one key.
func (c *check) key(name string) broker.KeyInfo {
	c.tb.Helper()
	reply := ask(c, "Keys", c.b.Keys, broker.KeysRequest{Now: c.now, Queue: c.q, Names: []string{name}})
	c.that(len(reply.Keys) == 1 && reply.Keys[0].Key == name, "Keys of %q\ngot  %+v\nwant that one", name, reply.Keys)
	return reply.Keys[0]
}

// keyNames lists the keys of the rule's queue, page by page.
func (c *check) keyNames(limit int) (names []string) {
	c.tb.Helper()
	req := broker.KeysRequest{Now: c.now, Queue: c.q, Limit: limit}
	for range 1000 {
		reply := ask(c, "Keys", c.b.Keys, req)
		c.that(len(reply.Keys) <= max(limit, 1), "keys on one page\ngot  %d\nwant at most %d", len(reply.Keys), limit)
		for _, k := range reply.Keys {
			names = append(names, k.Key)
		}
		if req.Cursor = reply.Cursor; req.Cursor == "" {
			return names
		}
	}
	c.failf("listing of keys\ngot  a cursor after 1000 pages\nwant an end")
	return nil
}

// blocked requires the reason why no job of a key may start.
func (c *check) blocked(key string, want broker.Block) broker.KeyInfo {
	c.tb.Helper()
	info := c.key(key)
	c.same(fmt.Sprintf("why the key %q may start nothing", key), info.Block, want)
	return info
}

// active requires the number of active jobs of the queue.
func (c *check) active(want int64) {
	c.tb.Helper()
	c.same("active jobs", c.counted(c.q).Counts[broker.StateActive], want)
}

// oneByOne claims n jobs, each in a claim of its own.
func (w *worker) oneByOne(n int) (jobs []broker.Job) {
	w.c.tb.Helper()
	for range n {
		got := w.claim(1)
		w.c.same("number of jobs claimed", len(got), 1)
		jobs = append(jobs, got...)
	}
	return jobs
}

// countsLeases adds six jobs of which two may be active, and requires that what becomes of
// their leases neither leaks room nor makes any. In the end no job is active.
func (c *check) countsLeases(add func(ids ...string)) {
	c.tb.Helper()
	ids := numbered("j", 6)
	add(ids...)
	lossy := faulty.Wrap(c.open(), faulty.Plan{{Method: "Claim", Fault: faulty.ReplyLost}})
	v := c.workerOn(lossy, "v")
	_, err := lossy.Claim(c.ctx, v.request(1))
	c.is("Claim", err, faulty.ErrReplyLost)
	w, r := c.worker("w"), c.worker("r")
	c.same("claimed beside a lost answer", idsOf(w.claim(5)), ids[1:2])
	w.rest()
	c.decide(broker.OpCancel, ids[1]) // it stays active until its worker settles it
	w.rest()
	c.runOut(r)
	r.rest()
	taken := r.reclaim(5)
	c.same("reclaimed", sorted(idsOf(taken)), ids[:2])
	r.rest()
	c.active(2)
	w.lost(refs(taken)...)
	r.rest()
	r.settle(broker.Release(), refs(taken)...) // the job with the cancel request is cancelled
	c.same("claimed after all that", idsOf(r.claim(5)), []string{ids[0], ids[2]})
	r.rest()
	c.same("released", len(r.retire().Released), 2)
}
