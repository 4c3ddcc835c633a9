package shardbroker

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Find asks the shard of a key for the jobs of that key, and the shards of IDs for jobs by
// ID. For other queries it asks all shards and merges their pages. If some shards fail, it
// returns the jobs of the others with an error. §21.
func (b *Broker) Find(ctx context.Context, q broker.Query) (broker.Page, error) {
	if err := q.Check(); err != nil {
		return broker.Page{}, err
	}
	if len(q.IDs) > 0 {
		return b.findIDs(ctx, q)
	}
	shards := b.shards
	if q.Key != "" {
		shards = b.routes.of(label("", &broker.Body{Key: q.Key}))
	}
	if len(shards) == 1 {
		page, err := shards[0].Broker.Find(ctx, q)
		return page, shards[0].note(ctx, err)
	}
	pages := make([]broker.Page, len(b.shards))
	at := listedAt
	if q.Newest {
		at = func(j *broker.Job) int64 { return -listedAt(j) }
	}
	l := listing[broker.Job, int64]{at: at, ordered: q.State.Final() || q.State == broker.StateScheduled || q.State == broker.StateRetry,
		fetch: func(s *shard, cursor string, limit int) ([]broker.Job, string, error) {
			own := q
			own.Cursor, own.Limit = cursor, limit
			page, err := s.Broker.Find(ctx, own)
			pages[slices.Index(b.shards, s)] = page
			return page.Jobs, page.Cursor, err
		}}
	jobs, cursor, err := l.page(ctx, shards, q.Cursor, q.Limit)
	return broker.Page{Now: latest(pages), Jobs: jobs, Cursor: cursor}, broker.About(err, "find", q.Queue, "")
}

func latest(pages []broker.Page) (now time.Time) {
	for _, p := range pages {
		if p.Now.After(now) {
			now = p.Now
		}
	}
	return now
}

// listedAt returns the time by which a list orders the job, if it is ordered by a time.
func listedAt(j *broker.Job) int64 {
	switch {
	case j.State.Final():
		return broker.Micros(j.FinishedAt)
	case j.State == broker.StateScheduled || j.State == broker.StateRetry:
		return broker.Micros(j.RunAt)
	}
	return 0
}

// findIDs asks the shard of each ID, and then the other shards for the jobs that it does
// not have.
func (b *Broker) findIDs(ctx context.Context, q broker.Query) (broker.Page, error) {
	missing := slices.Compact(slices.Sorted(slices.Values(q.IDs)))
	var pages []broker.Page
	var page broker.Page
	err := b.seek(func(round map[*shard][]int, shards []*shard) ([]int, error) {
		answers := ask(ctx, shards, func(s *shard) (broker.Page, error) {
			own := q
			own.IDs = make([]string, 0, len(round[s]))
			for _, i := range round[s] {
				own.IDs = append(own.IDs, missing[i])
			}
			return s.Broker.Find(ctx, own)
		})
		for _, a := range answers {
			pages = append(pages, a.got)
			page.Jobs = append(page.Jobs, a.got.Jobs...)
		}
		var left []int
		for i, id := range missing {
			if !slices.ContainsFunc(page.Jobs, func(j broker.Job) bool { return j.ID == id }) {
				left = append(left, i)
			}
		}
		return left, failed(answers)
	}, missing)
	slices.SortFunc(page.Jobs, func(x, y broker.Job) int { return cmp.Compare(x.ID, y.ID) })
	page.Now = latest(pages)
	return page, broker.About(err, "find", q.Queue, "")
}

// seek asks the shard of each ID, and then the other shards for the IDs that are left.
func (b *Broker) seek(ask func(round map[*shard][]int, shards []*shard) (left []int, err error), ids []string) error {
	asked := make(map[int]*shard, len(ids))
	round := make(map[*shard][]int, len(b.shards))
	for i, id := range ids {
		s := highest(b.routes.now, label(id, &broker.Body{}))
		asked[i] = s
		round[s] = append(round[s], i)
	}
	left, err := ask(round, b.of(round))
	if len(left) == 0 || len(b.shards) == 1 || err != nil && !broker.StoreFailed(err) {
		return err
	}
	clear(round)
	for _, i := range left {
		for _, s := range b.shards {
			if s != asked[i] {
				round[s] = append(round[s], i)
			}
		}
	}
	_, again := ask(round, b.of(round))
	return cmp.Or(err, again)
}

// of returns the shards to ask in a round.
func (b *Broker) of(round map[*shard][]int) []*shard {
	return slices.DeleteFunc(slices.Clone(b.shards), func(s *shard) bool { return len(round[s]) == 0 })
}
