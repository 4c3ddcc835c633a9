package shardbroker

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/seed81422ce9/jobs/broker"
)

// listing merges the lists of all shards into one: ordered by at, or in any order. Its
// cursor says for each shard where the next page begins, and up to where that page was
// already returned.
type listing[T any, K cmp.Ordered] struct {
	at      func(*T) K
	ordered bool
	same    bool // items with an equal at in several shards are one item
	fetch   func(s *shard, cursor string, limit int) ([]T, string, error)
}

// place is the position of a listing in a shard.
type place[K cmp.Ordered] struct {
	Cursor string `json:"c,omitempty"`
	Shown  *K     `json:"s,omitempty"` // the items up to this one were already returned
	Over   bool   `json:"o,omitempty"`
}

// leaf is a page of one shard.
type leaf[T any] struct {
	items  []T
	cursor string
}

// page returns the items of all shards up to the first end of a shard's page. Items of other
// shards after that are read again for the next page.
func (l *listing[T, K]) page(ctx context.Context, shards []*shard, cursor string, limit int) (items []T, next string, err error) {
	places := make(map[string]place[K], len(shards))
	if cursor != "" && json.Unmarshal([]byte(cursor), &places) != nil {
		return nil, "", broker.Invalid("cursor", "%.64q belongs to no page of this query; start with an empty one", cursor)
	}
	open := slices.DeleteFunc(slices.Clone(shards), func(s *shard) bool { return places[s.Name].Over })
	if len(open) == 0 {
		return nil, "", nil
	}
	answers := ask(ctx, open, func(s *shard) (leaf[T], error) {
		at := places[s.Name]
		got, next, err := l.fetch(s, at.Cursor, max(1, limit/len(open)))
		if at.Shown != nil {
			got = slices.DeleteFunc(got, func(item T) bool { return l.at(&item) <= *at.Shown })
		}
		return leaf[T]{got, next}, err
	})
	if err = failed(answers); err != nil && !broker.StoreFailed(err) {
		return nil, "", err
	}
	bound, blocked := l.bound(answers)
	few := limit < len(open) // less than one item for each shard: return only the first item
	first, least := l.first(answers)
	for _, a := range answers {
		at, shown := places[a.of.Name], 0
		if a.err != nil {
			continue
		}
		if !blocked && (!few || first == a.of || l.same && first != nil && len(a.got.items) > 0 && l.at(&a.got.items[0]) == least) {
			for shown < len(a.got.items) && (bound == nil || l.at(&a.got.items[shown]) <= *bound) {
				shown++
			}
		}
		items = append(items, a.got.items[:shown]...)
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
	slices.SortStableFunc(items, func(x, y T) int { return cmp.Compare(l.at(&x), l.at(&y)) })
	if !slices.ContainsFunc(shards, func(s *shard) bool { return !places[s.Name].Over }) {
		return items, "", err
	}
	text, _ := json.Marshal(places) // of strings, numbers and flags
	return items, string(text), err
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
