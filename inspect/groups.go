package inspect

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
)

// Group is dead jobs of one type whose last errors are alike; see Fingerprint.
type Group struct {
	Type, Fingerprint string
	Count             int // of those that were looked at
	Reasons           []string
	Queues            []string
	First, Last       time.Time    // ends of the oldest and the newest of them
	Message           string       // of the newest, whole
	Examples          []broker.Job // at most 3
}

// PerMinute is how many of those that were looked at died per minute, between
// the oldest and the newest of them. It is zero for one job, and when all died
// at once: then no rate is known.
func (g *Group) PerMinute() float64 {
	if took := g.Last.Sub(g.First); g.Count > 1 && took > 0 {
		return float64(g.Count-1) / took.Minutes()
	}
	return 0
}

// Has reports whether a dead job is one of the group.
func (g *Group) Has(j *broker.Job) bool {
	return j.Type == g.Type && Fingerprint(j.Errors.Last().Message) == g.Fingerprint
}

const maxExamples = 3

// Groups puts dead jobs into groups as they are added. The zero value is empty.
type Groups struct {
	Looked int // so many jobs were added
	groups map[[2]string]*Group
}

// Add takes a dead job in.
func (all *Groups) Add(j *broker.Job) {
	if all.groups == nil {
		all.groups = make(map[[2]string]*Group)
	}
	all.Looked++
	last := j.Errors.Last()
	key := [2]string{j.Type, Fingerprint(last.Message)}
	g := all.groups[key]
	if g == nil {
		g = &Group{Type: key[0], Fingerprint: key[1], First: j.FinishedAt}
		all.groups[key] = g
	}
	g.Count++
	if j.FinishedAt.Before(g.First) {
		g.First = j.FinishedAt
	}
	if !j.FinishedAt.Before(g.Last) {
		g.Last, g.Message = j.FinishedAt, last.Message
	}
	if !slices.Contains(g.Reasons, j.Reason.String()) {
		g.Reasons = append(g.Reasons, j.Reason.String())
	}
	if !slices.Contains(g.Queues, j.Queue) {
		g.Queues = append(g.Queues, j.Queue)
	}
	if len(g.Examples) < maxExamples {
		g.Examples = append(g.Examples, *j)
	}
}

// List is the groups, the largest first.
func (all *Groups) List() []Group {
	var list []Group
	for _, g := range all.groups {
		list = append(list, *g)
	}
	slices.SortFunc(list, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Fingerprint, b.Fingerprint))
	})
	return list
}

// DeadGroups puts the newest dead jobs of the named queues, or of all, into groups:
// a page of each queue in turn, until so many were looked at or there are no more.
// All is true in the second case. Suppressed jobs are left out.
func (i *Inspector) DeadGroups(ctx context.Context, most int, queues ...string) (groups Groups, all bool, err error) {
	infos, err := i.Queues(ctx, queues...)
	if err != nil {
		return groups, false, err
	}
	page := min(100, max(10, most/max(1, len(infos)))) // so that each queue is looked into
	var left []Query
	for _, info := range infos {
		if info.Listed(broker.StateDead) > 0 {
			left = append(left, Query{Queue: info.Name, State: broker.StateDead, Newest: true, NoPayload: true, Limit: page})
		}
	}
	for len(left) > 0 {
		if groups.Looked >= most {
			return groups, false, nil
		}
		q := left[0]
		left = left[1:]
		found, err := i.List(ctx, q)
		if err != nil {
			return groups, false, err
		}
		for n := range found.Jobs {
			groups.Add(&found.Jobs[n])
		}
		if q.Cursor = found.Cursor; q.Cursor != "" {
			left = append(left, q)
		}
	}
	return groups, true, nil
}
