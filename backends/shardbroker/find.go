package shardbroker

import (
	"cmp"
	"context"
	"encoding/json"
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
		return askOne(ctx, shards[0], func(s *shard) (broker.Page, error) { return s.Broker.Find(ctx, q) })
	}
	at := listedAt
	if q.Newest {
		at = func(j *broker.Job) int64 { return -listedAt(j) }
	}
	l := listing[broker.Job, int64]{at: at, ordered: q.State.Final() || q.State == broker.StateScheduled || q.State == broker.StateRetry,
		fetch: func(s *shard, cursor string, limit int) (leaf[broker.Job], error) {
			own := q
			own.Cursor, own.Limit = cursor, limit
			got, err := s.Broker.Find(ctx, own)
			return leaf[broker.Job]{got.Now, got.Jobs, got.Cursor}, err
		}}
	page, err := l.page(ctx, shards, q.Cursor, q.Limit)
	return broker.Page{Now: page.now, Jobs: page.items, Cursor: page.cursor}, broker.About(err, "find", q.Queue, "")
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
			page.Now = later(page.Now, a.got.Now)
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
	left, err := ask(round, among(b.shards, round))
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
	_, again := ask(round, among(b.shards, round))
	return cmp.Or(err, again)
}

// listing merges the lists of all shards into one: ordered by at, or in any order. Its
// cursor says for each shard where the next page begins, and up to where that page was
// already returned.
type listing[T any, K cmp.Ordered] struct {
	at      func(*T) K
	ordered bool
	same    bool // items with an equal at in several shards are one item
	fetch   func(s *shard, cursor string, limit int) (leaf[T], error)
}

// place is the position of a listing in a shard.
type place[K cmp.Ordered] struct {
	Cursor string `json:"c,omitempty"`
	Shown  *K     `json:"s,omitempty"` // the items up to this one were already returned
	Over   bool   `json:"o,omitempty"`
}

// leaf is a page of one shard, or of all.
type leaf[T any] struct {
	now    time.Time
	items  []T
	cursor string
}

// page returns the items of all shards up to the first end of a shard's page. Items of other
// shards after that are read again for the next page.
func (l *listing[T, K]) page(ctx context.Context, shards []*shard, cursor string, limit int) (all leaf[T], err error) {
	places := make(map[string]place[K], len(shards))
	if cursor != "" && json.Unmarshal([]byte(cursor), &places) != nil {
		return all, broker.Invalid("cursor", "%.64q belongs to no page of this query; start with an empty one", cursor)
	}
	open := slices.DeleteFunc(slices.Clone(shards), func(s *shard) bool { return places[s.Name].Over })
	answers := ask(ctx, open, func(s *shard) (leaf[T], error) {
		at := places[s.Name]
		got, err := l.fetch(s, at.Cursor, max(1, limit/len(open)))
		if at.Shown != nil {
			got.items = slices.DeleteFunc(got.items, func(item T) bool { return l.at(&item) <= *at.Shown })
		}
		return got, err
	})
	if err = failed(answers); err != nil && !broker.StoreFailed(err) {
		return all, err
	}
	bound, blocked := l.bound(answers)
	few := limit < len(open) // less than one item for each shard: return only the first item
	first, least := l.first(answers)
	for _, a := range answers {
		at, shown := places[a.of.Name], 0
		all.now = later(all.now, a.got.now)
		if a.err != nil {
			continue
		}
		if !blocked && (!few || first == a.of || l.same && first != nil && len(a.got.items) > 0 && l.at(&a.got.items[0]) == least) {
			for shown < len(a.got.items) && (bound == nil || l.at(&a.got.items[shown]) <= *bound) {
				shown++
			}
		}
		all.items = append(all.items, a.got.items[:shown]...)
		if shown == len(a.got.items) {
			at.Cursor, at.Over = a.got.cursor, a.got.cursor == ""
			if shown > 0 {
				at.Shown = nil // the next page comes after it anyway
			}
		} else if shown > 0 {
			at.Shown = bound
		}
		places[a.of.Name] = at
	}
	slices.SortStableFunc(all.items, func(x, y T) int { return cmp.Compare(l.at(&x), l.at(&y)) })
	if slices.ContainsFunc(shards, func(s *shard) bool { return !places[s.Name].Over }) {
		next, _ := json.Marshal(places) // of strings, numbers and flags
		all.cursor = string(next)
	}
	return all, err
}

// bound returns up to where the pages have all items, nil if they have everything. blocked
// reports that a page is empty, but its shard has more pages.
func (l *listing[T, K]) bound(answers []answer[leaf[T]]) (bound *K, blocked bool) {
	for _, a := range answers {
		n := len(a.got.items)
		if a.err != nil || a.got.cursor == "" {
			continue
		}
		if n == 0 {
			return nil, l.ordered
		}
		if last := l.at(&a.got.items[n-1]); l.ordered && (bound == nil || last < *bound) {
			bound = &last
		}
	}
	return bound, false
}

// first returns the shard whose page has the very first item.
func (l *listing[T, K]) first(answers []answer[leaf[T]]) (first *shard, least K) {
	for _, a := range answers {
		if len(a.got.items) > 0 {
			if at := l.at(&a.got.items[0]); first == nil || at < least {
				first, least = a.of, at
			}
		}
	}
	return first, least
}
