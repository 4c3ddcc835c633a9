package dashboard

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/internal/guard"
	"github.com/seed81422ce9/jobs/internal/readable"
)

// shownBytes is a payload or a result in readable form.
type shownBytes struct {
	Size    int
	Kind    string // "JSON", "text", "bytes", or "" if empty
	Text    string
	Cut     bool   // Text is only the beginning
	Problem string // why decoding failed; then Text shows the stored bytes
}

const (
	maxIndented = 256 << 10 // bytes of JSON that are indented
	maxShown    = 64 << 10  // bytes of text on a page
	maxDumped   = 4 << 10   // other bytes
)

// showPayload adds payload and result to a job's page, if that is permitted.
func (h *Handler) showPayload(r *http.Request, v *view, p *jobPage) error {
	j, err := h.payloadOf(r, p.Job.Queue, p.Job.ID)
	if err != nil {
		return err
	}
	plain, problem := h.decoded(r, j)
	shown := show(plain)
	shown.Problem = problem
	p.Payload = &shown
	if v.May(ActionEdit) {
		p.Edit, p.Redrive = h.editable(j), j.State == broker.StateDead && v.May(ActionRedrive)
		p.EditTo = link("edit", "queue", j.Queue, "id", j.ID, "epoch", strconv.FormatInt(j.Epoch, 10))
	}
	if len(j.Result) > 0 {
		result := show(j.Result)
		p.Result = &result
	}
	return nil
}

// payloadOf returns a job with its payload if the request may see it, and logs that.
func (h *Handler) payloadOf(r *http.Request, queue, id string) (*broker.Job, error) {
	who, err := h.authorize(r, ActionPayload)
	if err != nil {
		return nil, err
	}
	j, err := h.inspector.Job(r.Context(), queue, id)
	h.audit(who, string(ActionPayload), err, "queue", queue, "id", id)
	return j, err
}

// decoded returns the decoded payload, or the stored one and why it could not be
// decoded.
func (h *Handler) decoded(r *http.Request, j *broker.Job) (payload []byte, problem string) {
	if h.cfg.Decode == nil || j.Broken != nil {
		return j.Payload, ""
	}
	failed := guard.Call(func() {
		if plain, err := h.cfg.Decode(r.Context(), jobs.NewJob(j)); err != nil {
			payload, problem = j.Payload, text(guard.Text(err))
		} else {
			payload = plain
		}
	})
	if failed != nil {
		h.log.Error("jobs dashboard: Decode failed", "queue", j.Queue, "id", j.ID, "panic", fmt.Sprintf("%T", failed.Value), "stack",
			failed.Stack) // the value may quote the payload
		return j.Payload, "Decode failed"
	}
	return payload, problem
}

// payload serves a job's payload as a file to save.
func (h *Handler) payload(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	j, err := h.payloadOf(r, query.Get("queue"), query.Get("id"))
	if err != nil {
		return err
	}
	plain, _ := h.decoded(r, j)
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", `attachment; filename="payload.bin"`)
	_, _ = w.Write(plain)
	return nil
}

// show returns bytes in readable form: JSON indented, other text line by line, anything
// else as a hexadecimal dump. None of it can act on the page.
func show(p []byte) shownBytes {
	s := shownBytes{Size: len(p)}
	shown, isJSON := p, false
	if len(p) <= maxIndented {
		shown, isJSON = readable.Indented(p)
	}
	switch {
	case len(p) == 0:
		return s
	case isJSON:
		s.Kind = "JSON"
	case utf8.Valid(p) && !bytes.ContainsRune(p, 0):
		s.Kind = "text"
	default:
		s.Kind, s.Text, s.Cut = "bytes", hex.Dump(p[:min(len(p), maxDumped)]), len(p) > maxDumped
		return s
	}
	s.Text, s.Cut = beginning(string(shown), maxShown)
	s.Text = readable.PlainLines(s.Text)
	return s
}

func beginning(s string, n int) (string, bool) {
	if len(s) <= n {
		return s, false
	}
	return strings.ToValidUTF8(s[:n], ""), true
}

// Payloads are edited as JSON, in which white space has no meaning: line ends that a
// browser changes do no harm. Characters that change the direction of text are shown as
// escapes, which mean the same.

// editable returns a job's payload as text to edit, or "" if it cannot be edited: it is
// not JSON, too long for a form, stored elsewhere, encoded by a codec, or shown decoded.
func (h *Handler) editable(j *broker.Job) string {
	if h.cfg.Decode != nil || j.Broken != nil || inspect.Editable(j, false) != nil || len(j.Payload) > maxShown || !utf8.Valid(j.Payload) {
		return ""
	}
	text, isJSON := readable.Indented(j.Payload)
	if !isJSON || len(text) > maxShown {
		return ""
	}
	return string(readable.AppendJSON(nil, text, readable.Harmful))
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
