package dashboard

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

// deadPage shows dead jobs by what they died of, from a sample.
type deadPage struct {
	Filter     filter
	Queues     []string
	Total      int64 // dead jobs by the counters, but for suppressed ones
	Suppressed int64
	Groups     []group
	Examined   int
	Next       string // address of the next sample
	Later      bool   // this is not the first sample
	Verbs      []verb
	Now        time.Time
}

// group is dead jobs of one type and with errors alike.
type group struct {
	Type, Fingerprint string
	Count             int // in the sample
	Reasons           []string
	Queues            []string
	Oldest, Newest    time.Time
	Message           string // of the newest, whole
	Examples          []broker.Job
	Share             float64 // of the sample, in percent
}

const (
	sampleFinds   = 4
	sampleRecords = 500
	keptExamples  = 3
)

// has reports whether a dead job is one of the group.
func (g *group) has(j *broker.Job) bool {
	return j.Type == g.Type && inspect.Fingerprint(j.Errors.Last().Message) == g.Fingerprint
}

// Link is the address of an action about all dead jobs of the group, also
// those beyond the sample.
func (g group) Link(f filter) string {
	q := url.Values{"state": {broker.StateDead.String()}, "of-type": {g.Type}, "like": {g.Fingerprint}}
	for name, value := range map[string]string{"queue": f.Queue, "type": f.Type, "error": f.Error} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return "bulk?" + q.Encode()
}

func (h *Handler) dead(w http.ResponseWriter, r *http.Request) error {
	s, err := h.look(r)
	if err != nil {
		return err
	}
	f := readFilter(r.URL.Query())
	f.State = broker.StateDead.String()
	v := h.view(r, "dead", "Dead letters")
	v.Live = false
	p := deadPage{Filter: f, Later: f.At != "", Now: s.survey.now()}
	for _, q := range s.survey.Queues {
		if f.Queue == "" || f.Queue == q.Name {
			p.Total += q.Listed(broker.StateDead)
			p.Suppressed += q.Suppressed
		}
		if q.Listed(broker.StateDead) > 0 && len(p.Queues) < maxChoices || q.Name == f.Queue {
			p.Queues = append(p.Queues, q.Name)
		}
	}
	query, err := f.query(p.Now)
	if err != nil {
		return err
	}
	if err := h.sample(r.Context(), s, query, &p); err != nil {
		return err
	}
	p.Verbs = verbsFor(v, broker.StateDead)
	v.Data = p
	return render(w, r, "dead", v, http.StatusOK)
}

// sample examines a bounded number of dead jobs, from where the page begins,
// and groups them.
func (h *Handler) sample(ctx context.Context, s *snapshot, q inspect.Query, p *deadPage) error {
	groups := make(map[[2]string]*group)
	finds := 0
	q.Limit = sampleRecords
	for _, info := range s.survey.Queues {
		if p.Filter.Queue != "" && info.Name != p.Filter.Queue || info.Name < p.Filter.At || info.Listed(broker.StateDead) == 0 {
			continue
		}
		q.Queue, q.Cursor = info.Name, ""
		if info.Name == p.Filter.At {
			q.Cursor = p.Filter.Cursor
		}
		for {
			if finds == sampleFinds {
				next := p.Filter
				next.At, next.Cursor = q.Queue, q.Cursor
				p.Next = next.link("dead")
				p.finish(groups)
				return nil
			}
			page, err := h.inspector.List(ctx, q)
			if err != nil {
				return err
			}
			finds++
			for i := range page.Jobs {
				p.group(groups, &page.Jobs[i])
			}
			if q.Cursor = page.Cursor; q.Cursor == "" {
				break
			}
		}
	}
	p.finish(groups)
	return nil
}

func (p *deadPage) group(groups map[[2]string]*group, j *broker.Job) {
	p.Examined++
	last := j.Errors.Last()
	key := [2]string{j.Type, inspect.Fingerprint(last.Message)}
	g := groups[key]
	if g == nil {
		g = &group{Type: key[0], Fingerprint: key[1], Oldest: j.FinishedAt}
		groups[key] = g
	}
	g.Count++
	if j.FinishedAt.Before(g.Oldest) {
		g.Oldest = j.FinishedAt
	}
	if !j.FinishedAt.Before(g.Newest) {
		g.Newest, g.Message = j.FinishedAt, last.Message
	}
	if !slices.Contains(g.Reasons, j.Reason.String()) {
		g.Reasons = append(g.Reasons, j.Reason.String())
	}
	if !slices.Contains(g.Queues, j.Queue) {
		g.Queues = append(g.Queues, j.Queue)
	}
	if len(g.Examples) < keptExamples {
		g.Examples = append(g.Examples, *j)
	}
}

// finish sorts the groups, the largest first.
func (p *deadPage) finish(groups map[[2]string]*group) {
	for _, g := range groups {
		g.Share = 100 * float64(g.Count) / float64(p.Examined)
		p.Groups = append(p.Groups, *g)
	}
	slices.SortFunc(p.Groups, func(a, b group) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Fingerprint, b.Fingerprint))
	})
}
