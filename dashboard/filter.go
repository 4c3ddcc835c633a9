package dashboard

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/inspect"

	"github.com/seed81422ce9/jobs/broker"
)

// filter is what jobs are searched by. It is a page's address: reloading,
// going back, and sending the address to another person show the same.
type filter struct {
	Queue, State, Type, Key, Error, Reason, Worker, ID string

	Header      string // "name", or "name=value"
	Correlation string
	Order, Sort string // of the search: "oldest"; of the page: a column, with - for the other way round

	Older, Newer string // time spans
	Suppressed   bool
	At, Cursor   string // where the page begins: queue, and the store's cursor in it
}

// anyState stands for all states, where a key or a worker selects.
const anyState = "any"

func readFilter(q url.Values) filter {
	return filter{Queue: q.Get("queue"), State: q.Get("state"), Type: q.Get("type"), Key: q.Get("key"), Error: q.Get("error"),
		Reason: q.Get("reason"), Worker: q.Get("worker"), ID: q.Get("id"), Older: q.Get("older"), Newer: q.Get("newer"),
		Header: q.Get("header"), Correlation: q.Get("correlation"), Order: q.Get("order"), Sort: q.Get("sort"),
		Suppressed: q.Get("suppressed") != "", At: q.Get("at"), Cursor: q.Get("cursor")}
}

// link is the address of a page with this filter.
func (f filter) link(page string) string {
	suppressed := ""
	if f.Suppressed {
		suppressed = "1"
	}
	return link(page, "queue", f.Queue, "state", f.State, "type", f.Type, "key", f.Key, "error", f.Error, "reason", f.Reason, "worker",
		f.Worker, "header", f.Header, "correlation", f.Correlation, "order", f.Order, "sort", f.Sort,
		"id", f.ID, "older", f.Older, "newer", f.Newer, "suppressed", suppressed, "at", f.At, "cursor", f.Cursor)
}

// First is the filter at its first page.
func (f filter) First() filter {
	f.At, f.Cursor = "", ""
	return f
}

// Link is the address of this page of the search.
func (f filter) Link() string { return f.link("jobs") }

// Act is the address for decisions about checked rows of this page.
func (f filter) Act() string { return f.link("act") }

// Confirm is the address that asks for a decision about all that it selects.
func (f filter) Confirm() string { return f.link("confirm") }

// In is the filter for another state, at its first page.
func (f filter) In(state string) string {
	f = f.First()
	f.State, f.ID = state, ""
	if state != broker.StateDead.String() {
		f.Reason = ""
	}
	return f.link("jobs")
}

// Narrow reports whether the filter is for less than a state of a queue.
func (f filter) Narrow() bool {
	return f.Type != "" || f.Key != "" || f.Error != "" || f.Reason != "" || f.Worker != "" || f.Older != "" || f.Newer != "" ||
		f.Header != "" || f.Correlation != ""
}

// keeps reports whether a job that the store found has what stores do not filter by.
func (f filter) keeps(j *broker.Job) bool {
	if f.Correlation != "" && j.CorrelationID != f.Correlation {
		return false
	}
	if f.Header == "" {
		return true
	}
	name, value, valued := strings.Cut(f.Header, "=")
	has, ok := j.Headers[strings.TrimSpace(name)]
	return ok && (!valued || has == strings.TrimSpace(value))
}

// newest reports whether the search begins with what ended last. Stores do that for
// ended jobs, but not for those of a key or a worker.
func (f filter) newest(q inspect.Query) bool {
	return q.State.Final() && f.Order != "oldest" && q.Key == "" && q.Worker == "" && len(q.IDs) == 0
}

// InQueue is the filter for one queue, at its first page.
func (f filter) InQueue(name string) string {
	f = f.First()
	f.Queue = name
	return f.link("jobs")
}

// Ordered is the filter the other way round, at its first page.
func (f filter) Ordered(order string) string {
	f = f.First()
	f.Order = order
	return f.link("jobs")
}

// Words says what a filter selects.
func (f filter) Words() string {
	words := f.State + " jobs"
	for _, part := range details("queue", f.Queue, "type", f.Type, "key", f.Key, "error with", f.Error, "reason", f.Reason,
		"worker", f.Worker, "header", f.Header, "correlation ID", f.Correlation, "older than", f.Older, "newer than", f.Newer) {
		words += ", " + part.Name + " " + text(part.Value)
	}
	return words
}

// query is the filter for the store, at its time now, but for the queue.
func (f filter) query(now time.Time) (q inspect.Query, err error) {
	q = inspect.Query{Type: f.Type, Key: f.Key, Worker: f.Worker, ErrorText: f.Error, Suppressed: f.Suppressed, NoPayload: true}
	switch {
	case f.State == anyState && (f.Key != "" || f.Worker != ""):
	case f.State == anyState:
		return q, &pageError{http.StatusBadRequest,
			"Jobs of any state can be listed for a partition key or a worker: give one of them, or choose a state."}
	default:
		if q.State, err = broker.ParseState(f.State); err != nil {
			return q, err
		}
	}
	if f.Reason != "" {
		if q.Reason = parseReason(f.Reason); q.Reason == broker.ReasonNone {
			return q, &pageError{http.StatusBadRequest, "There is no such reason to be dead."}
		}
	}
	older, err := parseSpan("Older than", f.Older)
	if err != nil {
		return q, err
	}
	newer, err := parseSpan("Newer than", f.Newer)
	if err != nil {
		return q, err
	}
	if older > 0 {
		q.Before = now.Add(-older)
	}
	if newer > 0 {
		q.After = now.Add(-newer)
	}
	return q, nil
}

// reasons lists why a job can be dead.
func reasons() (all []string) {
	for r := broker.ReasonRetries; r <= broker.ReasonUndecodable; r++ {
		all = append(all, r.String())
	}
	return all
}

func parseReason(name string) inspect.DeadReason {
	for r := broker.ReasonRetries; r <= broker.ReasonUndecodable; r++ {
		if r.String() == name {
			return r
		}
	}
	return broker.ReasonNone
}
