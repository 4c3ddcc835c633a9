package dashboard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/internal/readable"
)

// errNoVerb says that the form names no known decision.
var errNoVerb = badRequest("There is no such decision.")

// act carries out a decision about jobs: the one in the URL, or the checked rows of a
// list. Then it redirects to the page that shows them.
func (h *Handler) act(w http.ResponseWriter, r *http.Request) error {
	v, who, delay, err := h.readVerb(r)
	if err != nil {
		return err
	}
	named, err := namedJobs(r)
	if err != nil {
		return err
	}
	var total inspect.Report
	back := remember(v)
	for _, queue := range slices.Sorted(maps.Keys(named)) {
		ids := named[queue]
		var alive inspect.Report
		chosen := h.inspector.Select(inspect.Query{Queue: queue, IDs: ids, Suppressed: true}).Where(func(j *broker.Job) bool {
			if f, came := cameBack(r, j); came {
				alive.Add(f)
				return false
			}
			back.add(j)
			return true
		})
		report, err := v.do(r.Context(), chosen, delay)
		back.drop(report)
		report.Add(alive)
		if total.Add(report); report.Refused > 0 && !broker.StoreFailed(err) { // the report says so
			err = nil
		}
		h.audit(who, v.Name, err, "queue", queue, "ids", ids[:min(len(ids), 20)], "jobs", len(ids),
			"done", report.Done, "refused", report.Refused)
		if err != nil {
			h.poller.changed()
			return partly(err, v.Done, total)
		}
	}
	h.poller.changed()
	said := noticeOf(v, total)
	if back.jobs() > 0 && total.Done > 0 {
		said.undo = &back.undo
	}
	id := h.notices.put(said)
	from := r.URL.Query()
	if from.Get("id") != "" && !r.PostForm.Has("job") {
		if v.Name == "delete" && total.Refused == 0 {
			redirect(w, link("jobs", "queue", from.Get("queue"), "state", from.Get("state"), "notice", id), "")
			return nil
		}
		redirect(w, link("job", "queue", from.Get("queue"), "id", from.Get("id"), "notice", id), "")
		return nil
	}
	from.Set("notice", id)
	redirect(w, "jobs", from.Encode())
	return nil
}

// readVerb returns the verb that a form asks for, who does, and the time span for verbs that set a time.
func (h *Handler) readVerb(r *http.Request) (v verb, who string, delay time.Duration, err error) {
	v, ok := verbNamed(r.PostFormValue("verb"))
	if !ok {
		return v, "", 0, errNoVerb
	}
	if who, err = h.authorize(r, v.action); err == nil {
		delay, err = parseSpan("In", r.PostFormValue("in"))
	}
	return v, who, delay, err
}

// cameBack returns the refusal of a job that had ended by the page in the browser, and that
// somebody has redriven since: who wants to delete a dead job does not mean one that is
// about to run.
func cameBack(r *http.Request, j *broker.Job) (inspect.Report, bool) {
	shown, err := broker.ParseState(r.URL.Query().Get("state"))
	if err != nil || !shown.Final() || j.State.Final() {
		return inspect.Report{}, false
	}
	refusal := &broker.Error{Err: broker.ErrWrongState, Hint: fmt.Sprintf("it was %s when the page was made, and is %s", shown, j.State)}
	return inspect.Report{Matched: 1, Refused: 1, Refusals: []inspect.Refusal{{Queue: j.Queue, ID: j.ID, Err: refusal}}}, true
}

const maxChecked = 1000 // rows

// namedJobs returns IDs by queue: of the checked rows, or of the job in the URL.
func namedJobs(r *http.Request) (map[string][]string, error) {
	rows := r.PostForm["job"]
	if one := r.URL.Query(); len(rows) == 0 && one.Get("id") != "" && one.Get("queue") != "" {
		rows = []string{url.Values{"queue": one["queue"], "id": one["id"]}.Encode()}
	}
	if len(rows) == 0 {
		return nil, badRequest("No job is checked. Check at least one.")
	}
	if len(rows) > maxChecked {
		return nil, badRequest("%d jobs are checked, the limit is %d.", len(rows), maxChecked)
	}
	named := make(map[string][]string)
	for _, row := range rows {
		q, err := url.ParseQuery(row)
		if err != nil || q.Get("queue") == "" || q.Get("id") == "" {
			return nil, badRequest("The form is broken: its job IDs cannot be read.")
		}
		named[q.Get("queue")] = append(named[q.Get("queue")], q.Get("id"))
	}
	return named, nil
}

// partly adds to an error how much was done before it.
func partly(err error, done string, r inspect.Report) error {
	if r.Done == 0 {
		return err
	}
	status, said := describe(err)
	return &pageError{status, fmt.Sprintf("%s %s before this: %s", readable.Count(r.Done, "job"), done, said)}
}

func noticeOf(v verb, r inspect.Report) notice {
	n := notice{Wrong: r.Refused > 0}
	switch changed := r.Done - r.Requested; {
	case r.Done == 1 && changed == 1 && r.Refused == 0:
		n.Text = "The job is " + v.Done + "."
	case changed+r.Refused > 0 || r.Requested == 0:
		n.Text = fmt.Sprintf("%s of %s %s.", num(int64(changed)), readable.Count(r.Done+r.Refused, "job"), v.Done)
	}
	if r.Requested > 0 {
		n.Text = strings.TrimSpace(n.Text + " " + readable.Count(r.Requested, "running job") + " asked to end.")
	}
	for i, f := range r.Refusals {
		if i == 3 {
			n.Text += " And more."
			break
		}
		n.Text += fmt.Sprintf(" %s: %s", text(f.ID), why(f))
	}
	return n
}

func why(f inspect.Refusal) string {
	_, said := describe(f.Err)
	if errors.Is(f.Err, broker.ErrDuplicate) && f.Holder != "" {
		said = fmt.Sprintf("The job %s holds its unique key.", text(f.Holder))
	}
	return said
}

// copyJob enqueues a copy of the job in the URL. The form names the ID of the copy, so
// that a form sent twice enqueues one job.
func (h *Handler) copyJob(w http.ResponseWriter, r *http.Request) error {
	queue, id := r.URL.Query().Get("queue"), r.URL.Query().Get("id")
	fresh, broken := ulid.ParseStrict(r.PostFormValue("as"))
	enqueue := func(ctx context.Context, _ string) (string, error) {
		if broken != nil {
			return "", badRequest("The form does not name the copy as it should.")
		}
		job, err := h.inspector.Job(ctx, queue, id)
		if err == nil {
			err = h.inspector.EnqueueCopy(ctx, job, fresh.String())
		}
		if errors.Is(err, broker.ErrDuplicate) {
			if _, found := h.inspector.Job(ctx, queue, fresh.String()); found == nil {
				err = nil // the form was sent before
			}
		}
		return "This is a copy of the job " + text(id) + ". Its past and its deadline were left out.", err
	}
	return h.carryOut(w, r, decision{action: ActionEnqueue, verb: "enqueue", do: enqueue,
		about: []any{"queue", queue, "copy of", id, "id", fresh.String()}, to: []string{"job", "queue", queue, "id", fresh.String()}})
}

// copyable reports whether a page offers to copy a job.
func copyable(j *broker.Job) bool { return j.Copyable() == nil && !broker.Reserved(j.Queue) }

// verb is a decision about jobs that the dashboard offers.
type verb struct {
	inspect.Verb
	Label  string
	action Action
}

// actions are the actions that permit verbs. ActionSuppress permits both suppressing
// and unsuppressing.
var actions = map[string]Action{"redrive": ActionRedrive, "reschedule": ActionReschedule, "suppress": ActionSuppress,
	"unsuppress": ActionSuppress,
	"cancel":     ActionCancel, "delete": ActionDelete}

// runNow makes scheduled and retry jobs due now. It ignores the time in the form.
var runNow = inspect.Verb{Name: "run-now", Done: "due now", From: []broker.State{broker.StateScheduled, broker.StateRetry},
	Do: func(s inspect.Selection, ctx context.Context) (inspect.Report, error) {
		return s.Reschedule(ctx, time.Time{})
	}}

var verbs = func() (all []verb) {
	for _, v := range inspect.Verbs() {
		if v.Name == "reschedule" {
			all = append(all, verb{Verb: runNow, Label: "Run now", action: ActionReschedule})
		}
		all = append(all, verb{Verb: v, Label: strings.ToUpper(v.Name[:1]) + v.Name[1:], action: actions[v.Name]})
	}
	return all
}()

// do carries out the verb; delay is for verbs that set a time.
func (v *verb) do(ctx context.Context, s inspect.Selection, delay time.Duration) (inspect.Report, error) {
	if delay != 0 && v.Name == "reschedule" {
		return s.RescheduleIn(ctx, delay)
	}
	return v.Do(s, ctx)
}

func verbNamed(name string) (verb, bool) {
	for _, v := range verbs {
		if v.Name == name {
			return v, true
		}
	}
	return verb{}, false
}

// verbsFor returns the verbs that the viewer may use for jobs in a state. For StateNone, which means any
// state, it returns the grave verbs. listed and suppressed say which kinds of dead jobs there are.
func verbsFor(v *view, state broker.State, listed, suppressed bool) (all []verb) {
	for _, one := range verbs {
		if one.Name == "suppress" && !listed || one.Name == "unsuppress" && !suppressed {
			continue
		}
		if (one.Possible(state) || state == broker.StateNone && one.Grave) && v.May(one.action) {
			all = append(all, one)
		}
	}
	return all
}
