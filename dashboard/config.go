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

// What can be permitted. The verbs are those of inspect.Inspector.
const (
	ActionPayload    Action = "payload"    // see payloads and results
	ActionCancel     Action = "cancel"     // of jobs
	ActionDelete     Action = "delete"     // of jobs
	ActionRedrive    Action = "redrive"    // of dead jobs
	ActionReschedule Action = "reschedule" // of jobs
	ActionEdit       Action = "edit"       // change payloads; who cannot see them cannot do it
	ActionSuppress   Action = "suppress"   // and unsuppress, of dead jobs
	ActionPause      Action = "pause"      // and resume, of queues
	ActionPolicy     Action = "policy"     // change a queue's rules
	ActionRemove     Action = "remove"     // of empty queues
	ActionSchedule   Action = "schedule"   // pause, resume, run and delete schedules
	ActionWorkflow   Action = "workflow"   // cancel, retry and delete workflows
	ActionEnqueue    Action = "enqueue"    // copies of jobs
)

// Actions lists all actions.
func Actions() []Action {
	return []Action{ActionPayload, ActionCancel, ActionDelete, ActionRedrive, ActionReschedule, ActionEdit, ActionSuppress, ActionPause,
		ActionPolicy, ActionRemove, ActionSchedule, ActionWorkflow, ActionEnqueue}
}

// Config is how a Handler works. The zero value shows everything but payloads
// and results, and changes nothing.
type Config struct {
	// Title is shown beside the name of the page: which store this is. Default
	// "jobs".
	Title string

	// Prefix is the path below which the handler is mounted, if the mux leaves
	// it in the request, such as "/admin/jobs". With http.StripPrefix, or at the
	// root, it is empty.
	Prefix string

	// Authorize says whether a request may take an action, and who it is, for
	// the audit in the log. An error refuses, and its text is shown. It is also
	// called to decide which buttons a page shows, so it must be quick and
	// without effects. Nil refuses every action.
	Authorize func(r *http.Request, action Action) (who string, err error)

	// Schedules, unless nil, are shown on pages of their own: those of the same
	// store, from schedule.New. Their pages do not refresh themselves.
	Schedules *schedule.Schedules

	// Workflows, unless nil, is a client of the same store, whose workflows are
	// shown on pages of their own. The list does not refresh itself.
	Workflows *jobs.Client

	// Decode returns the plain payload of a job whose stored one is compressed
	// or encrypted. It is called only where ActionPayload is permitted. Nil
	// shows what is stored.
	Decode func(ctx context.Context, job *jobs.Job) ([]byte, error)

	// TraceURL is where the trace of a job can be seen: an http or https URL in
	// which {trace} stands for the trace's ID. Empty shows the ID alone.
	TraceURL string

	// Links are shown below the pages' names: to runbooks, logs, or the program
	// that shows this page. None by default.
	Links []Link

	// Logger gets a line for every decision, permitted or refused, and for
	// every payload that was shown: who, action, queue, IDs or filter, outcome;
	// and warnings when the store does not answer. Default slog.Default().
	Logger *slog.Logger

	// Interval is the time between two looks at the store while a page is open.
	// Default 2 seconds, at least 100 milliseconds.
	Interval time.Duration
}

// Link is an address to go to from each page: an http or https URL, or a path,
// which is relative to the dashboard's.
type Link struct{ Text, URL string }

const (
	defaultInterval = 2 * time.Second
	minInterval     = 100 * time.Millisecond
	tracePlace      = "{trace}"
)

// check refuses what cannot work and sets defaults.
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
