package membroker

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/seed81422ce9/jobs/broker"
)

// Find returns a page of jobs. The index it pages through is that of the
// worker, the key or the state, in this order of preference; the other fields
// filter what it examines. A queue that does not exist has no jobs. §23.
func (b *Broker) Find(ctx context.Context, query broker.Query) (broker.Page, error) {
	now, err := b.begin(ctx, "find", query.Now, query.Check())
	if err != nil {
		return broker.Page{}, err
	}
	page := broker.Page{Now: now.answer()}
	if q := b.store.queues[query.Queue]; q != nil {
		page.Jobs, page.Cursor, err = q.find(&query)
	}
	b.end()
	if query.NoPayload {
		for i := range page.Jobs {
			j := &page.Jobs[i]
			j.Payload, j.Result = j.Payload[len(j.Payload):], nil // the headers lie behind it
		}
	}
	detach(page.Jobs)
	return page, broker.About(err, "find", query.Queue, "")
}

func (q *queue) find(query *broker.Query) (jobs []broker.Job, cursor string, err error) {
	if len(query.IDs) > 0 {
		for _, id := range slices.Compact(slices.Sorted(slices.Values(query.IDs))) {
			if j := q.jobs.get(id); j != nil {
				jobs = q.show(jobs, j)
			}
		}
		return jobs, "", nil
	}
	visit := func(j *job) {
		if j.matches(query) {
			jobs = q.show(jobs, j)
		}
	}
	var index *bag
	switch {
	case query.Worker != "":
		if w := q.holderOf(query.Worker); w != nil {
			index = &w.held
		}
	case query.Key != "":
		index = q.keys[query.Key]
	case timed(query.State):
		before := int64(math.MaxInt64)
		if !query.Before.IsZero() {
			before = broker.Micros(query.Before)
		}
		cursor, err = q.times[query.State].page(query.Cursor, broker.Micros(query.After), before, query.Limit, visit)
	case query.State < states:
		index = &q.bags[query.State]
	}
	if index != nil {
		cursor, err = index.page(query.Cursor, query.Limit, visit)
	}
	return jobs, cursor, err
}

func (j *job) matches(query *broker.Query) bool {
	at, head := j.at, j.read()
	if !timed(j.state) {
		at = j.created
	}
	return (query.State == broker.StateNone || j.state == query.State) &&
		(query.Worker == "" || j.holder != nil && j.holder.id == query.Worker) &&
		(query.Key == "" || j.Key == query.Key) &&
		(query.Type == "" || j.Type == query.Type) &&
		(query.Reason == broker.ReasonNone || head.Reason == query.Reason) &&
		(query.ErrorText == "" || strings.Contains(head.Errors.Last().Message, query.ErrorText)) &&
		(query.After.IsZero() || at >= broker.Micros(query.After)) &&
		(query.Before.IsZero() || at < broker.Micros(query.Before)) &&
		(query.Suppressed || !head.Suppressed)
}
