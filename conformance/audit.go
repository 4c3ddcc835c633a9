package conformance

import (
	"fmt"
	"slices"

	"github.com/seed81422ce9/jobs/broker"
)

// audit checks the whole store through the public interface at the end of a rule:
// every job is in one state, counts agree with listings, and every active job
// belongs to its worker. Then the store examines itself, if it can.
func (c *check) audit() {
	c.tb.Helper()
	if !c.audited {
		return
	}
	queues := ask(c, "Queues", c.b.Queues, broker.QueuesRequest{Now: c.now})
	for _, info := range queues.Queues {
		c.auditQueue(info.Name)
	}
	c.examine()
}

// examined are the groups after whose rules the store examines itself: those that
// leave most behind. An examination after every rule would take as long as the rules.
var examined = []string{"Model", "Race", "Bounce", "Bound", "Operate", "Reclaim", "Retention", "Unique", "Key", "Sequence"}

// examine requires that a store that can examine itself finds no contradiction.
// Warnings and findings about the server as a whole do not count.
func (c *check) examine() {
	c.tb.Helper()
	if c.limits.NoExamine || !slices.Contains(examined, c.rule.Group()) {
		return
	}
	req := broker.ExamineRequest{Now: c.now, Limit: broker.MaxExamine}
	for {
		got := ask(c, "Examine", c.b.Examine, req)
		for _, f := range got.Findings {
			c.that(f.Queue == "" || f.Warning, "audit: an examination of the store\ngot  %+v, which means: %s\nwant no finding",
				f, f.Means)
		}
		if req.Cursor = got.Cursor; req.Cursor == "" {
			return
		}
	}
}

func (c *check) auditQueue(name string) {
	c.tb.Helper()
	c.counted(name) // first, since it may prune
	where := make(map[string]broker.State)
	counts := make(map[broker.State]int64)
	held := make(map[string]int)
	suppressed := int64(0)
	due, now := false, c.now
	if now.IsZero() {
		now = broker.MaxTime // with the store's clock, a job may fall due at any moment
	}
	for _, state := range broker.States() {
		for _, j := range c.list(broker.Query{Queue: name, State: state, Suppressed: true, NoPayload: true, Limit: 1000}) {
			if j.State != state {
				c.failf("audit: listing of %v jobs of %s\ngot  %s, which is %v\nwant only jobs of that state", state, name, j.ID, j.State)
			}
			if other, twice := where[j.ID]; twice {
				c.failf("audit: job %s of %s\ngot  listed as %v and as %v\nwant one state", j.ID, name, other, state)
			}
			if (state == broker.StateActive) != (j.Worker != "") {
				c.failf("audit: job %s of %s\ngot  state %v of worker %q\nwant a worker when active, and only then", j.ID, name, state,
					j.Worker)
			}
			if (state == broker.StateScheduled || state == broker.StateRetry) && !j.RunAt.After(now) {
				due = true // it may count as pending by the next call
			}
			if j.Suppressed {
				suppressed++
			}
			where[j.ID] = state
			counts[state]++
			if state == broker.StateActive {
				held[j.Worker]++
			}
		}
	}
	info := c.counted(name)
	if info.Suppressed != suppressed {
		c.failf("audit: count of suppressed dead jobs of %s\ngot  %d\nwant %d, as many as are listed", name, info.Suppressed, suppressed)
	}
	if !due {
		for _, state := range broker.States() {
			if info.Counts[state] != counts[state] {
				c.failf("audit: count of %v jobs of %s\ngot  %d\nwant %d, as many as are listed", state, name, info.Counts[state],
					counts[state])
			}
		}
	}
	for _, w := range info.Workers {
		if w.Held != held[w.ID] {
			c.failf("audit: leases of worker %s in %s\ngot  %d\nwant %d, as many as are listed", w.ID, name, w.Held, held[w.ID])
		}
	}
}

// counted returns the description of a queue once its counts are up to date. A
// backend that folds its counts from deltas does so in Prune.
func (c *check) counted(name string) broker.QueueInfo {
	c.tb.Helper()
	for range 10 {
		info := c.queue(name)
		if c.now.IsZero() || !info.AsOf.Before(c.now) {
			return info
		}
		ask(c, "Prune", c.b.Prune, broker.PruneRequest{Now: c.now, Queues: []string{name}, Max: broker.MaxBatch})
	}
	c.failf("counts of %s\ngot  counts of an earlier time after 10 calls of Prune\nwant counts that catch up", name)
	return broker.QueueInfo{}
}

// summary formats counts in the order of a job's life.
func summary(counts map[broker.State]int64) string {
	var parts list
	for _, s := range broker.States() {
		if n := counts[s]; n != 0 {
			parts.add(fmt.Sprintf("%d %v", n, s))
		}
	}
	return parts.String()
}
