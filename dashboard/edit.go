package dashboard

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"unicode/utf8"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/internal/readable"
)

// Payloads are edited as JSON, in which white space has no meaning: line ends that a
// browser changes do no harm. Characters that change the direction of text are shown as
// escapes, which mean the same.

// editable returns a job's payload as text to edit, or "" if it cannot be edited: it is
// not JSON, too long for a form, stored elsewhere, encoded by a codec, or shown decoded.
func (h *Handler) editable(j *broker.Job) string {
	if h.cfg.Decode != nil || j.Broken != nil || inspect.Editable(j, false) != nil ||
		len(j.Payload) > maxShown || !utf8.Valid(j.Payload) || !readable.Shallow(j.Payload) || !json.Valid(j.Payload) {
		return ""
	}
	var b bytes.Buffer
	if json.Indent(&b, j.Payload, "", "  ") != nil || b.Len() > maxShown {
		return ""
	}
	return string(readable.AppendJSON(nil, b.Bytes(), readable.Harmful))
}

var errNotEditable = &pageError{http.StatusConflict, "This payload cannot be edited here, nothing was changed: the job runs or has " +
	"ended, or the payload is not JSON, is too long for a form, is stored elsewhere, or is shown decoded."}

// edit replaces a job's payload, and redrives the job on request. The URL has the epoch
// at which the job was shown.
func (h *Handler) edit(w http.ResponseWriter, r *http.Request) error {
	who, err := h.authorize(r, ActionEdit)
	if err == nil { // who edits a payload sees it
		_, err = h.authorize(r, ActionPayload)
	}
	if err != nil {
		return err
	}
	redrive := r.PostFormValue("redrive") != ""
	if redrive {
		if _, err := h.authorize(r, ActionRedrive); err != nil {
			return err
		}
	}
	query := r.URL.Query()
	queue, id := query.Get("queue"), query.Get("id")
	epoch, err := strconv.ParseInt(query.Get("epoch"), 10, 64)
	if err != nil || epoch < 0 {
		return badRequest("The form is broken: it does not name the job.")
	}
	var payload bytes.Buffer
	if err := json.Compact(&payload, []byte(r.PostFormValue("payload"))); err != nil {
		return badRequest("The payload is not JSON, nothing was changed: %s. Go back to correct it.", text(err.Error()))
	}
	job, err := h.inspector.Job(r.Context(), queue, id)
	if err == nil && h.editable(job) == "" {
		err = errNotEditable
	}
	if err == nil {
		job.Epoch = epoch // the job as it was shown
		err = h.inspector.Edit(r.Context(), job, payload.Bytes())
	}
	h.audit(who, string(ActionEdit), err, "queue", queue, "id", id, "bytes", payload.Len())
	if err != nil {
		return err
	}
	said := notice{Text: "The payload was changed."}
	if redrive {
		edited := func(j *broker.Job) bool { return j.Epoch == epoch+1 } // and not changed by somebody else since
		report, err := h.inspector.Select(inspect.Query{Queue: queue, IDs: []string{id}, Suppressed: true}).Where(edited).Redrive(r.Context())
		if err == nil && report.Done != 1 {
			err = &broker.Error{Err: broker.ErrWrongState, Hint: "it was changed meanwhile"}
		}
		h.audit(who, string(ActionRedrive), err, "queue", queue, "id", id)
		said.Text += " The job was redriven."
		if err != nil {
			_, reason := describe(err)
			if len(report.Refusals) > 0 {
				reason = why(report.Refusals[0])
			}
			said = notice{Text: "The payload was changed, but the job was not redriven: " + reason, Wrong: true}
		}
		h.poller.changed()
	}
	redirect(w, link("job", "queue", queue, "id", id, "show", "payload", "notice", h.notices.put(said)), "")
	return nil
}
