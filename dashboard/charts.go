package dashboard

import "net/http"

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
