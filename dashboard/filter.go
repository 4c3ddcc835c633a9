package dashboard

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

// filter is what jobs are searched by. It is kept in the page's URL. So the same jobs appear when a user
// reloads the page, goes back, or shares the URL.
type filter struct {
	Queue, State, Type, Key, Error, Reason, Worker, ID string

	Header      string // "name", or "name=value"
	Correlation string
	Order, Sort string // Order of the search: "oldest" or empty; Sort of the page: a column, with - for descending

	Older, Newer string // time spans
	Suppressed   bool
	At, Cursor   string // start of the page: a queue, and the store's cursor in it
}

// anyState selects all states, for searches by a key or a worker.
const anyState = "any"

func readFilter(q url.Values) filter {
	return filter{Queue: q.Get("queue"), State: q.Get("state"), Type: q.Get("type"), Key: q.Get("key"), Error: q.Get("error"),
		Reason: q.Get("reason"), Worker: q.Get("worker"), ID: q.Get("id"), Older: q.Get("older"), Newer: q.Get("newer"),
		Header: q.Get("header"), Correlation: q.Get("correlation"), Order: q.Get("order"), Sort: q.Get("sort"),
		Suppressed: q.Get("suppressed") != "", At: q.Get("at"), Cursor: q.Get("cursor")}
}

// To returns the URL of a page, or of a decision, with this filter.
func (f filter) To(page string) string {
	suppressed := ""
	if f.Suppressed {
		suppressed = "1"
	}
	return link(page, "queue", f.Queue, "state", f.State, "type", f.Type, "key", f.Key, "error", f.Error, "reason", f.Reason, "worker",
		f.Worker, "header", f.Header, "correlation", f.Correlation, "order", f.Order, "sort", f.Sort,
		"id", f.ID, "older", f.Older, "newer", f.Newer, "suppressed", suppressed, "at", f.At, "cursor", f.Cursor)
}

// First returns the filter at its first page.
func (f filter) First() filter {
	f.At, f.Cursor = "", ""
	return f
}

// In returns the URL of the filter with another state, at its first page.
func (f filter) In(state string) string {
	f = f.First()
	f.State, f.ID = state, ""
	if state != broker.StateDead.String() {
		f.Reason = ""
	}
	return f.To("jobs")
}

// Narrow reports whether the filter selects fewer jobs than a state of a queue has.
func (f filter) Narrow() bool {
	return f.Type != "" || f.Key != "" || f.Error != "" || f.Reason != "" || f.Worker != "" || f.Older != "" || f.Newer != "" ||
		f.Header != "" || f.Correlation != ""
}

// keeps reports whether a job that the store found passes the filters that stores do
// not have.
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

// newest reports whether the search begins with the job that ended last. Stores can do
// that for ended jobs, but not for those of a key or a worker.
func (f filter) newest(q inspect.Query) bool {
	return q.State.Final() && f.Order != "oldest" && q.Key == "" && q.Worker == "" && len(q.IDs) == 0
}

// InQueue returns the URL of the filter with one queue, at its first page.
func (f filter) InQueue(name string) string {
	f = f.First()
	f.Queue = name
	return f.To("jobs")
}

// Ordered returns the URL of the filter with an order, at its first page.
func (f filter) Ordered(order string) string {
	f = f.First()
	f.Order = order
	return f.To("jobs")
}

// Words returns what a filter selects, in words.
func (f filter) Words() string {
	words := f.State + " jobs"
	for _, part := range details("queue", f.Queue, "type", f.Type, "key", f.Key, "error with", f.Error, "reason", f.Reason,
		"worker", f.Worker, "header", f.Header, "correlation ID", f.Correlation, "older than", f.Older, "newer than", f.Newer) {
		words += ", " + part.Name + " " + text(part.Value)
	}
	return words
}

// query returns the store's query for the filter at the store's time now, without a
// queue.
func (f filter) query(now time.Time) (q inspect.Query, err error) {
	q = inspect.Query{Type: f.Type, Key: f.Key, Worker: f.Worker, ErrorText: f.Error, Suppressed: f.Suppressed, NoPayload: true}
	switch {
	case f.State == anyState && (f.Key != "" || f.Worker != ""):
	case f.State == anyState:
		return q, badRequest("Jobs of any state can be listed for a partition key or a worker: give one of them, or choose a state.")
	default:
		if q.State, err = broker.ParseState(f.State); err != nil {
			return q, err
		}
	}
	if f.Reason != "" {
		at := slices.Index(reasons(), f.Reason)
		if at < 0 {
			return q, badRequest("There is no such reason for which jobs die.")
		}
		q.Reason = broker.ReasonRetries + inspect.DeadReason(at)
	}
	older, err := parseSpan("Older than", f.Older)
	if err != nil {
		return q, err
	}
	newer, err := parseSpan("Newer than", f.Newer)
	if err == nil && newer == 0 && f.Newer != "" { // it would select all jobs, and means none
		err = badRequest("Newer than: write more than 0.")
	}
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

func reasons() (all []string) {
	for r := broker.ReasonRetries; r <= broker.ReasonUndecodable; r++ {
		all = append(all, r.String())
	}
	return all
}
