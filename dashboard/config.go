package dashboard

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/schedule"
)

// Action is something that Config.Authorize permits or refuses.
type Action string

// The actions.
const (
	ActionPayload    Action = "payload"    // see payloads and results
	ActionCancel     Action = "cancel"     // cancel jobs
	ActionDelete     Action = "delete"     // delete jobs
	ActionRedrive    Action = "redrive"    // redrive dead jobs
	ActionReschedule Action = "reschedule" // reschedule jobs
	ActionEdit       Action = "edit"       // change payloads; needs ActionPayload too
	ActionSuppress   Action = "suppress"   // suppress and unsuppress dead jobs
	ActionPause      Action = "pause"      // pause and resume queues
	ActionPolicy     Action = "policy"     // change the rules of queues
	ActionRemove     Action = "remove"     // remove empty queues
	ActionSchedule   Action = "schedule"   // pause, resume, run and delete schedules
	ActionWorkflow   Action = "workflow"   // cancel, retry and delete workflows
	ActionEnqueue    Action = "enqueue"    // enqueue copies of jobs
)

// Actions lists all actions.
func Actions() []Action {
	return []Action{ActionPayload, ActionCancel, ActionDelete, ActionRedrive, ActionReschedule, ActionEdit, ActionSuppress, ActionPause,
		ActionPolicy, ActionRemove, ActionSchedule, ActionWorkflow, ActionEnqueue}
}

// Config configures a Handler. The zero value shows everything but payloads and
// results, and permits no changes.
type Config struct {
	// Title names the store and is shown beside the name of the page. Default "jobs".
	Title string

	// Prefix is the path of the handler, such as "/admin/jobs", if the mux leaves it in
	// requests. With http.StripPrefix, or at the root, it is empty.
	Prefix string

	// Authorize returns who sends a request, for the audit log, or an error if they
	// must not take the action; the page shows its text. It is also called to decide
	// which buttons a page shows, so it must be quick and without side effects. Nil
	// refuses every action.
	Authorize func(r *http.Request, action Action) (who string, err error)

	// Schedules, if set, get their own pages. They must come from schedule.New, with the same store.
	// Their pages do not refresh themselves.
	Schedules *schedule.Schedules

	// Workflows, if set, is a client of the same store, whose workflows get their own
	// pages. The list does not refresh itself.
	Workflows *jobs.Client

	// Decode returns the plain payload of a job whose stored payload is compressed or
	// encrypted. It is called only if ActionPayload is permitted. With nil, pages show
	// the stored payload.
	Decode func(ctx context.Context, job *jobs.Job) ([]byte, error)

	// TraceURL is the http or https URL of a job's trace, in which {trace} stands for
	// the trace's ID. If it is empty, pages show only the ID.
	TraceURL string

	// Links are shown below the names of the pages, for example to runbooks or logs.
	// None by default.
	Links []Link

	// Logger gets a line for every decision, permitted or refused, and for every
	// payload shown: who, action, queue, IDs or filter, outcome. It also gets warnings
	// when the store does not answer. Default slog.Default().
	Logger *slog.Logger

	// Interval is the time between two reads of the store's counters while a page is
	// open. Default 2 seconds, at least 100 milliseconds.
	Interval time.Duration
}

// Link is a link on each page: an http or https URL, or a path relative to the
// dashboard's.
type Link struct{ Text, URL string }

const (
	defaultInterval = 2 * time.Second
	minInterval     = 100 * time.Millisecond
	tracePlace      = "{trace}"
)

// check returns an error for values that cannot work, and sets defaults.
func (c *Config) check() error {
	if c.Title == "" {
		c.Title = "jobs"
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Interval == 0 {
		c.Interval = defaultInterval
	}
	if c.Interval < minInterval {
		return broker.Invalid("interval", "is %v; use at least %v", c.Interval, minInterval)
	}
	c.Prefix = strings.TrimSuffix(c.Prefix, "/")
	if c.Prefix != "" && c.Prefix[0] != '/' {
		return broker.Invalid("prefix", "is %q; begin it with a slash", c.Prefix)
	}
	for _, l := range c.Links {
		u, err := url.Parse(l.URL)
		if err != nil || l.Text == "" || l.URL == "" || u.Scheme != "" && u.Scheme != "http" && u.Scheme != "https" {
			return broker.Invalid("link", "%q to %q needs a text, and an http or https URL or a path", l.Text, l.URL)
		}
	}
	if c.TraceURL != "" {
		u, err := url.Parse(strings.ReplaceAll(c.TraceURL, tracePlace, "0"))
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || !strings.Contains(c.TraceURL, tracePlace) {
			return broker.Invalid("trace URL", "is no http or https URL with %s in it", tracePlace)
		}
	}
	return nil
}
