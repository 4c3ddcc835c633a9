package inspect

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/seed81422ce9/jobs/broker"
)

// MaxLookup is how many matches Lookup returns at most: enough to choose one by
// eye.
const MaxLookup = 10

// leastPrefix is the length from which a text is looked up as the beginning of
// an ID. Shorter ones are shared by all jobs of many days.
const leastPrefix = 6

// Lookup returns the jobs that somebody means who typed id, without payloads and
// at most MaxLookup of them, in the named queues or in all. It is the job with
// this ID; if there is none, the one whose ID is a ULID that differs in case
// only; if there is none, the jobs whose IDs are ULIDs that begin with id, in
// any case, from six characters on. IDs that are not ULIDs have to be exact:
// order-98 is not order-981.
//
// Looking for the beginning of an ID reads the queues' jobs page by page, which
// takes seconds for a million of them. A job that moves meanwhile can be missed.
func (i *Inspector) Lookup(ctx context.Context, id string, queues ...string) ([]broker.Job, error) {
	infos, err := i.Queues(ctx, queues...)
	if err != nil {
		return nil, err
	}
	found, err := i.byID(ctx, infos, id)
	if len(found) > 0 || err != nil {
		return found, err
	}
	begin, ok := firstULID(id)
	if !ok {
		return nil, nil
	}
	if len(id) == ulid.EncodedSize {
		return i.byID(ctx, infos, strings.ToUpper(id))
	}
	return i.byPrefix(ctx, infos, strings.ToUpper(id), begin.Timestamp())
}

// firstULID is the first ULID that begins with text, if any does.
func firstULID(text string) (ulid.ULID, bool) {
	if len(text) < leastPrefix || len(text) > ulid.EncodedSize {
		return ulid.ULID{}, false
	}
	id, err := ulid.ParseStrict(text + strings.Repeat("0", ulid.EncodedSize-len(text)))
	return id, err == nil
}

func (i *Inspector) byID(ctx context.Context, infos []QueueInfo, id string) (found []broker.Job, err error) {
	if broker.CheckName("id", id) != nil {
		return nil, nil // no job has such an ID
	}
	for _, q := range infos {
		page, err := i.List(ctx, Query{Queue: q.Name, IDs: []string{id}, NoPayload: true})
		if err != nil {
			return nil, err
		}
		found = append(found, page.Jobs...)
	}
	return found, nil
}

// byPrefix looks through the jobs that can have been enqueued since begin. The
// clocks of producers and store differ, so that begin is a day earlier.
func (i *Inspector) byPrefix(ctx context.Context, infos []QueueInfo, prefix string, begin time.Time) (found []broker.Job, err error) {
	for _, q := range infos {
		for state, n := range q.Counts {
			if n == 0 {
				continue
			}
			query := Query{Queue: q.Name, State: state, Suppressed: true, NoPayload: true}
			if state.Final() { // what ended before cannot be meant
				query.After = begin.Add(-24 * time.Hour)
			}
			for job, err := range i.Select(query).Where(func(j *broker.Job) bool { return strings.HasPrefix(j.ID, prefix) }).Jobs(ctx) {
				if err != nil {
					return nil, err
				}
				if _, err := ulid.ParseStrict(job.ID); err != nil || slices.ContainsFunc(found, func(known broker.Job) bool {
					return known.ID == job.ID && known.Queue == job.Queue // it moved, and was seen twice
				}) {
					continue
				}
				if found = append(found, *job); len(found) == MaxLookup {
					return found, nil
				}
			}
		}
	}
	return found, nil
}
