package dashboard

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/internal/figures"
	"github.com/seed81422ce9/jobs/internal/readable"
)

// statsReply is the response of the page "stats".
type statsReply struct {
	Now     time.Time       `json:"now"`
	Queues  []figures.Queue `json:"queues"`
	History *past           `json:"history,omitempty"`
}

// past is what a queue, or all queues, did in a span. It never changes.
type past struct {
	Span    float64          `json:"span_seconds"`
	Periods []figures.Period `json:"periods"` // oldest first
	Deploys []inspect.Deploy `json:"deploys"`
}

type chartSpan struct {
	Name, Label string
	span        time.Duration
	periods     int // as many as the history has points or a chart has room for
}

var chartSpans = []chartSpan{
	{"1h", "1 hour", time.Hour, 60},
	{"24h", "24 hours", 24 * time.Hour, 288},
	{"7d", "7 days", 7 * 24 * time.Hour, 168},
	{"90d", "90 days", 90 * 24 * time.Hour, 360},
}

func spanNamed(name string) (chartSpan, bool) {
	at := slices.IndexFunc(chartSpans, func(s chartSpan) bool { return s.Name == name })
	if at < 0 {
		return chartSpans[0], false
	}
	return chartSpans[at], true
}

// stats serves the figures of one queue, or of all, as JSON, and with a span the
// history.
func (h *Handler) stats(w http.ResponseWriter, r *http.Request, s *snapshot) error {
	reply := statsReply{Now: s.survey.now().UTC(), Queues: []figures.Queue{}}
	queue := r.FormValue("queue")
	lately := make(map[string]inspect.Work)
	for name, p := range s.paces {
		if p.Even {
			lately[name] = p.Lately
		}
	}
	for _, q := range s.survey.of(queue) {
		reply.Queues = append(reply.Queues, figures.QueueOf(q, lately))
	}
	if queue != "" && len(reply.Queues) == 0 {
		return broker.ErrNotFound
	}
	if name := r.FormValue("span"); name != "" {
		span, ok := spanNamed(name)
		if !ok {
			return badRequest("The span is none of 1h, 24h, 7d and 90d.")
		}
		var err error
		if reply.History, err = h.pasts.get(r.Context(), h.inspector, queue, span, s.survey.now()); err != nil {
			return err
		}
	}
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodHead {
		return nil
	}
	return json.NewEncoder(w).Encode(reply)
}

// pasts caches histories: they get a new point only once a minute, and a history of 90 days takes about
// ninety calls.
type pasts struct {
	mu  sync.Mutex
	all map[pastOf]*keptPast
}

type pastOf struct{ queue, span string }

type keptPast struct {
	mu  sync.Mutex // one request reads for all requests that wait
	at  time.Time
	was *past
}

const (
	pastKept = 20 * time.Second
	maxPasts = 100 // cached histories

	leastPeriod = 30 * time.Second // of the newest step: rates over only a few seconds would vary too much
)

func (p *pasts) get(ctx context.Context, i *inspect.Inspector, queue string, span chartSpan, now time.Time) (*past, error) {
	key := pastOf{queue, span.Name}
	p.mu.Lock()
	kept := p.all[key]
	if kept == nil {
		if len(p.all) >= maxPasts || p.all == nil {
			p.all = make(map[pastOf]*keptPast)
		}
		kept = new(keptPast)
		p.all[key] = kept
	}
	p.mu.Unlock()
	kept.mu.Lock()
	defer kept.mu.Unlock()
	if kept.was != nil && time.Since(kept.at) < pastKept {
		return kept.was, nil
	}
	points, err := i.History(ctx, queue, span.span)
	if err != nil {
		return nil, err
	}
	if n := len(points); n > 2 && points[n-1].At.Sub(points[n-2].At) < leastPeriod {
		points = append(points[:n-2], points[n-1])
	}
	was := &past{Span: span.span.Seconds(), Periods: []figures.Period{}}
	for _, one := range inspect.Periods(points, span.span, span.periods) {
		was.Periods = append(was.Periods, figures.PeriodOf(one))
	}
	if was.Deploys, err = i.Deploys(ctx, queue, now.Add(-span.span)); err != nil {
		return nil, err
	}
	if was.Deploys == nil {
		was.Deploys = []inspect.Deploy{}
	}
	for n := range was.Deploys { // program names are untrusted
		was.Deploys[n].Program = strings.TrimSpace(readable.Cut(readable.Plain(was.Deploys[n].Program), 60))
	}
	kept.at, kept.was = time.Now(), was
	return was, nil
}

// charts are the charts of a queue, or of all queues together, over a span.
type charts struct {
	Queue string // empty for all
	Tabs  []chartTab
	Span  string
	Name  string // the span in words
	Data  string // URL of the data; empty for live data
}

type chartTab struct {
	Label, To string
	Active    bool
}

// liveSpan is the name of the span that shows each snapshot since the dashboard was opened.
const liveSpan = "live"

// chartsOf returns the charts that a request asks for; the default span is an hour.
func chartsOf(r *http.Request, queue string) charts {
	page := "./"
	if queue != "" {
		page = "queue"
	}
	asked := r.FormValue("span")
	chosen, _ := spanNamed(asked)
	c := charts{Queue: queue, Span: chosen.Name, Name: chosen.Label}
	if queue == "" && asked == liveSpan {
		c.Span, c.Name = liveSpan, ""
	} else {
		c.Data = link("stats", "queue", queue, "span", c.Span)
	}
	for _, s := range chartSpans {
		c.Tabs = append(c.Tabs, chartTab{s.Name, link(page, "name", queue, "span", s.Name) + "#charts", s.Name == c.Span})
	}
	if queue == "" {
		c.Tabs = append(c.Tabs, chartTab{"Live", link(page, "span", liveSpan) + "#charts", c.Span == liveSpan})
	}
	return c
}
