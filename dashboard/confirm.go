package dashboard

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

// confirmPage asks for confirmation of a decision about many jobs, with their number.
type confirmPage struct {
	Verb    verb
	About   string // the filter in words
	Do      string // URL that carries it out
	Back    string
	Rate    string // jobs per second, as typed
	In      string
	Count   int64
	Exact   bool // Count is the number of all jobs; otherwise there are more
	Most    int64
	Grave   bool
	Seconds int64 // shortest possible duration at that rate
	Undo    bool  // it can be undone
	Beyond  bool  // it could be undone if it changed fewer jobs
}

// countTime is how long counting may keep the user waiting.
const countTime = 5 * time.Second

// bulkOf is the bulk decision that a request asks for.
type bulkOf struct {
	verb    verb
	who     string
	rate    int64
	in      string
	delay   time.Duration
	filter  filter
	group   *inspect.Group
	about   string
	queries []inspect.Query
	most    int64 // jobs in the states, by the counters
}

// readBulk parses and checks a request for a bulk decision.
func (h *Handler) readBulk(r *http.Request) (b bulkOf, err error) {
	b.in = r.PostFormValue("in")
	if b.verb, b.who, b.delay, err = h.readVerb(r); err != nil {
		return b, err
	}
	b.rate, err = parseCount("Jobs per second", r.PostFormValue("rate"))
	if err == nil && b.rate > maxRate {
		err = badRequest("Jobs per second: at most %d; leave it empty for no limit.", maxRate)
	}
	if err != nil {
		return b, err
	}
	s, err := h.poller.current(r.Context())
	if err == nil {
		err = s.err
	}
	if err != nil {
		return b, err
	}
	b.filter, b.group = readFilter(r.URL.Query()).First(), groupOf(r.URL.Query())
	if b.group != nil {
		b.filter.Type = b.group.Type
	}
	b.about = b.filter.Words()
	if b.group != nil {
		b.about += ", errors like: " + text(b.group.Fingerprint)
	}
	b.queries, b.most, err = b.filter.queries(s, b.unsuppresses())
	return b, err
}

// selection returns the decision's jobs in one queue. It calls seen with each job.
func (b *bulkOf) selection(i *inspect.Inspector, q inspect.Query, seen func(*broker.Job)) inspect.Selection {
	q.Suppressed = q.Suppressed || b.unsuppresses()
	return i.Select(q).Where(func(j *broker.Job) bool {
		keep := b.filter.keeps(j) && (b.group == nil || b.group.Has(j)) && (j.Suppressed || !b.unsuppresses())
		if keep {
			seen(j)
		}
		return keep
	})
}

// unsuppresses reports whether the decision is about suppressed jobs alone.
func (b *bulkOf) unsuppresses() bool { return b.verb.Name == "unsuppress" }

// narrow reports whether the decision is about fewer jobs than the counters count.
func (b *bulkOf) narrow() bool { return b.filter.Narrow() || b.group != nil }

// count counts the jobs of the decision, for at most countTime.
func (b *bulkOf) count(ctx context.Context, i *inspect.Inspector) (n int64, exact bool, err error) {
	if !b.narrow() {
		return b.most, true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	for _, q := range b.queries {
		found, err := b.selection(i, q, func(*broker.Job) {}).Count(ctx)
		n += int64(found)
		if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return n, false, nil
		}
		if err != nil {
			return n, false, err
		}
	}
	return n, true, nil
}

// confirm asks for confirmation of a decision and shows its number of jobs. It changes
// nothing.
func (h *Handler) confirm(w http.ResponseWriter, r *http.Request) error {
	b, err := h.readBulk(r)
	if err != nil {
		return err
	}
	n, exact, err := b.count(r.Context(), h.inspector)
	if err != nil {
		return err
	}
	if exact && n == 0 {
		return errNoneLeft
	}
	back := b.filter.To("jobs")
	if b.group != nil {
		f := b.filter
		f.Type = r.URL.Query().Get("type")
		back = f.To("dead")
	}
	p := confirmPage{Verb: b.verb, About: b.about, Do: "bulk?" + r.URL.RawQuery, Back: back, In: b.in, Count: n, Exact: exact,
		Most: b.most, Grave: b.verb.Grave}
	if _, ok := undoable[b.verb.Name]; ok {
		p.Undo = exact && n <= maxUndo
		p.Beyond = !p.Undo
	}
	if b.rate > 0 {
		p.Rate = strconv.FormatInt(b.rate, 10)
		p.Seconds = n / b.rate
	}
	return h.view(r, "jobs", b.verb.Label+"?").still().show(w, r, "confirm", p)
}
