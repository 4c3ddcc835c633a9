package dashboard

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/internal/readable"
)

type jobPage struct {
	Job      *broker.Job
	Now      time.Time
	Why      []inspect.Explanation
	Events   []event
	Headers  []detail
	Trace    string // ID
	TraceURL string
	Verbs    []verb
	MaySee   bool // payload and result
	Payload  *shownBytes
	Result   *shownBytes
	Progress broker.Progress
	Edit     string // the payload as text to edit; empty if it cannot be edited
	EditTo   string
	Redrive  bool   // it can be redriven after the edit
	CopyAs   string // the ID for a copy; empty if the job cannot be copied
}

// event is an event in the life of a job. Kind is a state, or "error".
type event struct {
	At    time.Time
	Kind  string
	Title string
	Lines []detail
	Error string
	Stack string
	Still bool // it is not over, or has yet to come
}

type detail struct{ Name, Value string }

func (h *Handler) job(w http.ResponseWriter, r *http.Request, s *snapshot) error {
	query := r.URL.Query()
	queue, id := query.Get("queue"), query.Get("id")
	v := h.view(r, "jobs", "Job "+text(id))
	l, err := h.shared.get(v.URL, s.seq, refreshes(r), func() (listing, error) {
		page, err := h.inspector.List(r.Context(), inspect.Query{Queue: queue, IDs: []string{id}, Suppressed: true, NoPayload: true})
		l := listing{Jobs: page.Jobs, Now: page.Now}
		if known := s.survey.of(queue); err == nil && len(known) == 1 && len(page.Jobs) > 0 {
			info := known[0]
			info.Now = page.Now // the page's time is that of the job
			l.Evidence, err = h.inspector.EvidenceIn(r.Context(), &page.Jobs[0], info)
		}
		return l, err
	})
	if err == nil && len(l.Jobs) == 0 {
		err = broker.ErrNotFound
	}
	if err != nil {
		return err
	}
	j := &l.Jobs[0]
	p := jobPage{Job: j, Trace: readable.TraceID(j.Headers), Verbs: verbsFor(v, j.State, !j.Suppressed, j.Suppressed),
		MaySee: v.May(ActionPayload)}
	if l.Evidence.Job != nil {
		p.Why = inspect.Explain(l.Evidence)
	}
	p.Now = l.Now
	p.Progress = cmp.Or(j.Kept, new(broker.Kept)).Progress
	p.Events = life(j, p.Now)
	for _, name := range slices.Sorted(maps.Keys(j.Headers)) {
		p.Headers = append(p.Headers, detail{name, j.Headers[name]})
	}
	if p.Trace != "" && h.cfg.TraceURL != "" {
		p.TraceURL = strings.ReplaceAll(h.cfg.TraceURL, tracePlace, url.PathEscape(p.Trace))
	}
	if query.Get("show") == "payload" && !refreshes(r) {
		if err := h.showPayload(r, v, &p); err != nil {
			return err
		}
	}
	if copyable(j) && v.May(ActionEnqueue) {
		p.CopyAs = ulid.Make().String()
	}
	return v.show(w, r, "job", p)
}

// life returns the known events of a job, oldest first. A retry leaves an error; a
// released lease leaves only a count.
func life(j *broker.Job, now time.Time) (all []event) {
	all = append(all, event{At: j.CreatedAt, Kind: "enqueued", Title: "Enqueued", Lines: details(
		"by", j.Source, "priority", priorityNames[j.Priority], "partition key", j.Key)})
	if j.Errors.Dropped > 0 {
		all = append(all, event{Kind: "dropped", Title: num(int64(j.Errors.Dropped)) + " older errors were dropped"})
	}
	for _, f := range j.Errors.Entries {
		title := "Attempt " + num(int64(f.Attempt)+1) + " failed"
		switch f.Class {
		case "crash":
			title = "Its worker died"
		case "":
		default:
			title += ": " + text(f.Class)
		}
		all = append(all, event{At: f.At, Kind: "error", Title: title, Error: f.Message, Stack: f.Stack, Lines: details("code", f.Code,
			"worker", f.Worker, "version", f.Version)})
	}
	return append(all, presentOf(j, now))
}

// presentOf returns the last event of a job: the state that it is in, and since or until when.
func presentOf(j *broker.Job, now time.Time) event {
	e := event{At: now, Kind: j.State.String(), Still: !j.State.Final()}
	if j.State.Final() {
		e.At = j.FinishedAt
	}
	switch j.State {
	case broker.StatePending:
		e.Title = "Pending: waits for its turn"
	case broker.StateWaiting:
		e.Title = "Held: was " + j.HeldFrom.String()
	case broker.StateScheduled:
		e.At, e.Title = j.RunAt, "Due"
	case broker.StateRetry:
		e.At, e.Title = j.RunAt, "Next run due"
	case broker.StateActive:
		e.Title, e.Lines = "Running", details("worker", j.Worker)
	case broker.StateCompleted:
		e.Title = "Completed"
	case broker.StateCancelled:
		e.Title = "Cancelled"
	case broker.StateDead:
		e.Title = "Dead: " + j.Reason.String()
	}
	return e
}

var priorityNames = map[jobs.Priority]string{1: "urgent", 2: "normal", 3: "low", 4: "bulk"}

// details returns pairs of a name and a value, without those whose value is empty.
func details(pairs ...string) (all []detail) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			all = append(all, detail{pairs[i], pairs[i+1]})
		}
	}
	return all
}

// Facts returns a job's settings and counts.
func (p jobPage) Facts() []detail {
	j := p.Job
	kept := cmp.Or(j.Kept, new(broker.Kept))
	var steps []string // that will not run again
	for _, s := range kept.Steps {
		steps = append(steps, s.Name)
	}
	checkpoint := numOrNone(len(kept.Checkpoint))
	if checkpoint != "" {
		checkpoint += " bytes"
	}
	spanOf := func(d time.Duration, zero string) string {
		if d == 0 {
			return zero
		}
		return span(d)
	}
	return details(
		"Type", j.Type,
		"Type version", numOrNone(j.TypeVersion),
		"Queue", j.Queue,
		"Priority", priorityNames[j.Priority],
		"Failures", num(int64(j.Failures))+" ("+num(int64(j.MaxRetries))+" retries allowed)",
		"Deliveries", num(int64(j.Deliveries)),
		"Crashes", numOrNone(j.Crashes),
		"Snoozes", numOrNone(j.Snoozes),
		"Steps done", strings.Join(steps, ", "),
		"Checkpoint", checkpoint,
		"Timeout of a run", spanOf(j.Timeout, "the server's"),
		"Deadline", clockOrNone(j.Deadline),
		"Record is kept for", spanOf(j.Retention, ""),
		"Held for", j.Holder,
		"Partition key", j.Key,
		"Unique key", j.Unique.Key,
		"Correlation ID", j.CorrelationID,
		"Idempotency key", j.IdempotencyKey,
		"Payload is at", j.PayloadRef,
		"Enqueued by", j.Source,
	)
}

func numOrNone(n int) string {
	if n == 0 {
		return ""
	}
	return num(int64(n))
}

func clockOrNone(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}
