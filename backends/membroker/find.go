package membroker

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Find returns a page of jobs. It goes through one list, and returns the jobs there that match
// the query. A queue that does not exist has no jobs. §21.
func (b *Broker) Find(ctx context.Context, query broker.Query) (broker.Page, error) {
	now, err := b.begin(ctx, "find", query.Now, query.Check())
	if err != nil {
		return broker.Page{}, err
	}
	page := broker.Page{Now: now}
	if q := b.store.queues[query.Queue]; q != nil {
		page.Jobs, page.Cursor, err = q.find(&query)
	}
	b.end()
	if query.NoPayload {
		for i := range page.Jobs {
			page.Jobs[i].Payload, page.Jobs[i].Result = nil, nil
		}
	}
	detach(page.Jobs)
	return page, broker.About(err, "find", query.Queue, "")
}

func (q *queue) find(query *broker.Query) (jobs []broker.Job, cursor string, err error) {
	if len(query.IDs) > 0 {
		for _, id := range slices.Compact(slices.Sorted(slices.Values(query.IDs))) {
			if j := q.jobs[id]; j != nil {
				jobs = append(jobs, j.Job)
			}
		}
		return jobs, "", nil
	}
	l, from, end := q.indexOf(query)
	if query.Cursor != "" {
		at, err := parseCursor(query.Cursor)
		switch {
		case err != nil:
			return nil, "", err
		case query.Newest && at.before(end):
			end = at
		case !query.Newest && from.before(at):
			from = at
		}
	}
	entries := l.between(from, end)
	if query.Newest {
		entries = l.down(end, from)
	}
	examined := 0
	for e := range entries {
		if examined == query.Limit {
			return jobs, e.cursor(), nil
		}
		examined++
		if query.Matches(&e.of.Job) {
			jobs = append(jobs, e.of.Job)
		}
	}
	return jobs, "", nil
}

// indexOf returns the list to go through: the jobs of a key, or of a state; for the jobs of a
// worker, those in state active. It has no job at from or at end, between which the listing is.
func (q *queue) indexOf(query *broker.Query) (l list[*job], from, end entry) {
	from, end = start, entry{at: math.MaxInt64}
	state := query.State
	if query.Worker != "" {
		state = broker.StateActive
	} else if l := q.lane(query.Key); l != q.keyless && l != nil {
		return q.keyed, entry{at: l.no, seq: math.MinInt64}, entry{at: l.no + 1, seq: math.MinInt64}
	} else if query.Key != "" || int(state) >= len(q.states) {
		state = broker.StateNone // where no job is
	}
	if timed(state) && !query.After.IsZero() {
		from.at = broker.Micros(query.After)
	}
	if timed(state) && !query.Before.IsZero() {
		end = entry{at: broker.Micros(query.Before), seq: math.MinInt64}
	}
	return q.states[state], from, end
}

// timed reports whether the jobs of a state are ordered by a time.
func timed(s broker.State) bool {
	return s.Final() || s == broker.StateScheduled || s == broker.StateRetry
}

// Queues describes queues as of now. §23.
func (b *Broker) Queues(ctx context.Context, req broker.QueuesRequest) (broker.QueuesReply, error) {
	now, err := b.begin(ctx, "queues", req.Now, nil)
	if err != nil {
		return broker.QueuesReply{}, err
	}
	defer b.end()
	names := slices.Clone(req.Names)
	if len(names) == 0 {
		names = slices.Collect(maps.Keys(b.store.queues))
	}
	slices.Sort(names)
	reply := broker.QueuesReply{Now: now}
	for _, name := range slices.Compact(names) {
		if q := b.store.queues[name]; q != nil {
			reply.Queues = append(reply.Queues, q.describe(req.Workers, now))
		}
	}
	return reply, nil
}

func (q *queue) describe(workers bool, now time.Time) broker.QueueInfo {
	info := broker.QueueInfo{Name: q.name, AsOf: now, Policy: q.policy,
		Counts: make(map[broker.State]int64), Oldest: make(map[broker.State]time.Time)}
	for _, state := range broker.States() {
		info.Counts[state] = int64(q.len(state))
		if first, ok := q.states[state].Min(); ok && timed(state) {
			info.Oldest[state] = broker.FromMicros(first.at)
		}
	}
	for p := range broker.Priority(broker.Priorities) {
		if j := q.oldest(p + 1); j != nil {
			info.SetOldestPending(p+1, j.CreatedAt)
		}
	}
	info.Suppressed, info.Bytes, info.Totals = q.suppressed, q.bytes, q.totals
	if workers {
		for _, w := range q.workers {
			if !w.ended {
				info.Workers = append(info.Workers, ownInfo(w.WorkerInfo))
			}
		}
		slices.SortFunc(info.Workers, func(a, b broker.WorkerInfo) int { return cmp.Compare(a.ID, b.ID) })
	}
	return info
}
