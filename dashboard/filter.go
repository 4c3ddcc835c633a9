package dashboard

import (
	"net/http"
	"net/url"
	"time"

	"github.com/seed81422ce9/jobs/inspect"

	"github.com/seed81422ce9/jobs/broker"
)

// filter is what jobs are searched by. It is a page's address: reloading,
// going back, and sending the address to somebody show the same.
type filter struct {
	Queue, State, Type, Key, Error, Reason, Worker, ID string

	Older, Newer string // time spans
	Suppressed   bool
	At, Cursor   string // where the page begins: queue, and the store's cursor in it
}

// anyState stands for all states, where a key or a worker selects.
const anyState = "any"

func readFilter(q url.Values) filter {
	return filter{Queue: q.Get("queue"), State: q.Get("state"), Type: q.Get("type"), Key: q.Get("key"), Error: q.Get("error"),
		Reason: q.Get("reason"), Worker: q.Get("worker"), ID: q.Get("id"), Older: q.Get("older"), Newer: q.Get("newer"),
		Suppressed: q.Get("suppressed") != "", At: q.Get("at"), Cursor: q.Get("cursor")}
}

// link is the address of a page with this filter.
func (f filter) link(page string) string {
	suppressed := ""
	if f.Suppressed {
		suppressed = "1"
	}
	return link(page, "queue", f.Queue, "state", f.State, "type", f.Type, "key", f.Key, "error", f.Error, "reason", f.Reason, "worker",
		f.Worker,
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

// Bulk is the address for decisions about all that it selects.
func (f filter) Bulk() string { return f.link("bulk") }

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
	return f.Type != "" || f.Key != "" || f.Error != "" || f.Reason != "" || f.Worker != "" || f.Older != "" || f.Newer != ""
}

// Words says what a filter selects.
func (f filter) Words() string {
	words := f.State + " jobs"
	for _, part := range details("queue", f.Queue, "type", f.Type, "key", f.Key, "error with", f.Error, "reason", f.Reason,
		"worker", f.Worker, "older than", f.Older, "newer than", f.Newer) {
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
