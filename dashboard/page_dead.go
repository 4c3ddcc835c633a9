package dashboard

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

// deadPage shows a sample of the dead jobs, grouped by error.
type deadPage struct {
	Filter     filter
	Queues     []string
	Total      int64 // dead jobs by the counters, without suppressed ones
	Suppressed int64
	Groups     []group
	Smaller    int // number of groups not shown
	Others     int // examined jobs beyond inspect.MaxGroups groups
	Examined   int
	Since      time.Time // the first death in the sample
	All        string    // URL of the page that examines all dead jobs, for a limited time
	Whole      bool      // this page examines all dead jobs
	Next       string    // URL of the next sample
	Later      bool      // this is not the first sample
	Rest       []string  // of several queues: those with dead jobs that were not examined
	Verbs      []verb
	Now        time.Time
}

// group is dead jobs of one type with similar errors.
type group struct {
	inspect.Group
	Share float64 // of the sample, in percent
	Bars  []deathBar
}

// deathBar is how many jobs of a group died in a part of the time from the first death
// on the page until now, in percent of the group's highest bar.
type deathBar struct {
	At   int
	High float64
}

// Top returns where the bar begins.
func (b deathBar) Top() float64 { return 100 - b.High }

// MaxGroups returns how many groups a page makes; it shows fewer.
func (p *deadPage) MaxGroups() int { return inspect.MaxGroups }

const (
	sampleFinds   = 4
	sampleRecords = 500
	sampleQueues  = 40 // in one sample: a call or two each
	leastRecords  = sampleFinds * sampleRecords / sampleQueues
	deathParts    = 60 // number of bars of a group
	maxGroups     = 50 // shown at most: if all errors differ, each makes a group
	allTime       = 5 * time.Second
	allRecords    = 1000 // in one call, if all are examined
)

// Link returns the URL of an action on all dead jobs of the group, even those outside
// the sample.
func (g group) Link(f filter) string {
	q := url.Values{"state": {broker.StateDead.String()}, "of-type": {g.Type}, "like": {g.Fingerprint}}
	for name, value := range map[string]string{"queue": f.Queue, "type": f.Type, "error": f.Error} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return "confirm?" + q.Encode()
}

func (h *Handler) dead(w http.ResponseWriter, r *http.Request, s *snapshot) error {
	f := readFilter(r.URL.Query())
	f.State = broker.StateDead.String()
	v := h.view(r, "dead", "Dead letters").still()
	p := deadPage{Filter: f, Later: f.At != "", Now: s.survey.now()}
	for _, q := range s.survey.of(f.Queue) {
		p.Total += q.Listed(broker.StateDead)
		p.Suppressed += q.Suppressed
	}
	for _, q := range s.survey.Queues {
		if q.Listed(broker.StateDead) > 0 {
			p.Queues = append(p.Queues, q.Name)
		}
	}
	p.Queues = choices(p.Queues, f.Queue)
	query, err := f.query(p.Now)
	if err != nil {
		return err
	}
	if p.Whole = r.FormValue("all") != ""; !p.Whole {
		p.All = f.First().To("dead") + "&all=1"
	}
	if err := h.sample(r.Context(), s, query, &p); err != nil {
		return err
	}
	p.Verbs = verbsFor(v, broker.StateDead, true, p.Suppressed > 0)
	return v.show(w, r, "dead", &p)
}

// sample examines dead jobs and groups them: those of one queue from the start of the page, or the newest of each
// queue in turn, so that a queue with many does not hide the others. It examines a bounded number or, for the whole
// page, all, for at most allTime. If there are too many queues, it takes those with the most dead jobs.
func (h *Handler) sample(ctx context.Context, s *snapshot, q inspect.Query, p *deadPage) error {
	queues, pages := p.dying(s), sampleFinds
	q.Limit, q.Newest = sampleRecords, true
	limited := ctx
	switch {
	case p.Whole:
		q.Limit, pages = allRecords, math.MaxInt
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, h.allTime)
		defer cancel()
	case len(queues) > 1:
		slices.SortStableFunc(queues, func(a, b inspect.QueueInfo) int {
			return cmp.Compare(b.Listed(broker.StateDead), a.Listed(broker.StateDead))
		})
		for _, info := range queues[min(len(queues), sampleQueues):] {
			p.Rest = append(p.Rest, info.Name)
		}
		queues = queues[:len(queues)-len(p.Rest)]
		q.Limit = min(sampleRecords, max(leastRecords, sampleFinds*sampleRecords/len(queues)))
		pages = (sampleFinds*sampleRecords + q.Limit - 1) / q.Limit
	}
	var left []inspect.Query
	for _, info := range queues {
		q.Queue, q.Cursor = info.Name, p.Filter.Cursor // several queues have no cursor
		left = append(left, q)
	}
	var groups inspect.Groups
	for ; len(left) > 0 && pages > 0; pages-- {
		next := left[0]
		page, err := h.inspector.List(limited, next)
		if limited.Err() != nil && ctx.Err() == nil {
			break
		}
		if err != nil {
			return err
		}
		for i := range page.Jobs {
			groups.Add(&page.Jobs[i])
		}
		left = left[1:]
		if next.Cursor = page.Cursor; next.Cursor != "" {
			left = append(left, next)
		}
	}
	if len(queues) == 1 && len(left) == 1 && !p.Whole {
		next := p.Filter
		next.At, next.Cursor = left[0].Queue, left[0].Cursor
		p.Next = next.To("dead")
	} else {
		for _, one := range left {
			p.Rest = append(p.Rest, one.Queue)
		}
		p.Rest = p.Rest[:min(len(p.Rest), sampleQueues)] // the queue filter above the list offers all of them
	}
	p.finish(&groups)
	return nil
}

// dying returns the queues that have dead jobs for the page: from the second page on, only the one that it continues.
func (p *deadPage) dying(s *snapshot) (queues []inspect.QueueInfo) {
	for _, info := range s.survey.of(p.Filter.Queue) {
		if info.Listed(broker.StateDead) > 0 && (p.Filter.At == "" || p.Filter.At == info.Name) {
			queues = append(queues, info)
		}
	}
	return queues
}

// finish adds the groups to the page, the largest first.
func (p *deadPage) finish(groups *inspect.Groups) {
	p.Examined, p.Others = groups.Looked, groups.Others
	list := groups.List()
	for _, g := range list {
		if p.Since.IsZero() || g.First.Before(p.Since) {
			p.Since = g.First
		}
	}
	p.Smaller = max(0, len(list)-maxGroups)
	for _, g := range list[:len(list)-p.Smaller] {
		one := group{Group: g, Share: 100 * float64(g.Count) / float64(p.Examined)}
		deaths := g.Deaths(p.Since, p.Now, deathParts)
		most := slices.Max(deaths)
		for at, n := range deaths {
			if n > 0 {
				one.Bars = append(one.Bars, deathBar{at, max(8, 100*float64(n)/float64(most))}) // one job must stay visible
			}
		}
		p.Groups = append(p.Groups, one)
	}
}
