package inspect

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/seed81422ce9/jobs/broker"
)

// MaxLookup is how many matches Lookup returns at most: as many as a person can choose
// from.
const MaxLookup = 10

// LeastPrefix is the shortest beginning of an ID that Lookup accepts. ULIDs made within
// about 17 minutes share six characters; those of nine hours share five.
const LeastPrefix = 6

// Lookup returns the jobs that an operator may mean by id, without payloads, at most
// MaxLookup, in the named queues or in all. It tries these in order, and stops at the
// first that finds a job: the job with this ID in each queue; the same for a ULID that
// differs only in case; and, if id has at least six characters, jobs whose IDs are ULIDs
// that begin with id, in upper or lower case. Other IDs must be exact: order-98 does not
// find order-981.
//
// A search by the beginning of an ID reads the queues' jobs page by page, which takes
// seconds for a million jobs. A job that moves meanwhile can be missed.
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

// firstULID returns the first ULID that begins with text, if there is one.
func firstULID(text string) (ulid.ULID, bool) {
	if len(text) < LeastPrefix || len(text) > ulid.EncodedSize {
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

// byPrefix searches the jobs that may have been enqueued after begin. It goes back a day
// further, because the clocks of producers and of the store may differ.
func (i *Inspector) byPrefix(ctx context.Context, infos []QueueInfo, prefix string, begin time.Time) (found []broker.Job, err error) {
	whose := func(q *Query) func(*broker.Job) bool {
		q.NoPayload = true
		if q.State.Final() { // jobs that ended earlier cannot match
			q.After = begin.Add(-24 * time.Hour)
		}
		return func(j *broker.Job) bool { return strings.HasPrefix(j.ID, prefix) }
	}
	for job, err := range i.everywhere(ctx, infos, whose) {
		if err != nil {
			return nil, err
		}
		if _, err := ulid.ParseStrict(job.ID); err != nil || slices.ContainsFunc(found, func(known broker.Job) bool {
			return known.ID == job.ID && known.Queue == job.Queue // the job moved, and was found twice
		}) {
			continue
		}
		if found = append(found, *job); len(found) == MaxLookup {
			return found, nil
		}
	}
	return found, nil
}

// OfType lists all jobs of a type, in the named queues or in all, queue by queue and
// state by state, including those that ended and suppressed ones. It reads the queues' jobs
// page by page, which takes seconds for a million jobs. A job that moves meanwhile can
// be shown twice, or be missed. An error comes with a nil job and ends the listing. For
// one queue and state, use Select with Query.Type.
func (i *Inspector) OfType(ctx context.Context, typ string, queues ...string) iter.Seq2[*broker.Job, error] {
	return func(yield func(*broker.Job, error) bool) {
		infos, err := i.Queues(ctx, queues...)
		if err != nil {
			yield(nil, err)
			return
		}
		i.everywhere(ctx, infos, func(q *Query) func(*broker.Job) bool { q.Type = typ; return nil })(yield)
	}
}

// everywhere lists the jobs of queues, state by state. narrow changes each query, and
// may return a filter for its jobs.
func (i *Inspector) everywhere(ctx context.Context, infos []QueueInfo, narrow func(*Query) (keep func(*broker.Job) bool),
) iter.Seq2[*broker.Job, error] {
	return func(yield func(*broker.Job, error) bool) {
		for _, info := range infos {
			for _, state := range slices.Sorted(maps.Keys(info.Counts)) {
				if info.Counts[state] == 0 {
					continue
				}
				query := Query{Queue: info.Name, State: state, Suppressed: true}
				keep := narrow(&query)
				for job, err := range i.Select(query).Where(keep).Jobs(ctx) {
					if !yield(job, err) || err != nil {
						return
					}
				}
			}
		}
	}
}
