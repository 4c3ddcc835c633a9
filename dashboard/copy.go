package dashboard

import (
	"errors"
	"net/http"

	"github.com/oklog/ulid/v2"

	"github.com/seed81422ce9/jobs/broker"
)

// copyJob enqueues a copy of the job in the URL. The form names the ID of the copy, so
// that a form sent twice enqueues one job.
func (h *Handler) copyJob(w http.ResponseWriter, r *http.Request) error {
	who, err := h.authorize(r, ActionEnqueue)
	if err != nil {
		return err
	}
	queue, id := r.URL.Query().Get("queue"), r.URL.Query().Get("id")
	fresh, err := ulid.ParseStrict(r.PostFormValue("as"))
	if err != nil {
		return badRequest("The form does not name the copy as it should.")
	}
	job, err := h.inspector.Job(r.Context(), queue, id)
	if err == nil {
		err = h.inspector.EnqueueCopy(r.Context(), job, fresh.String())
	}
	if errors.Is(err, broker.ErrDuplicate) {
		if _, found := h.inspector.Job(r.Context(), queue, fresh.String()); found == nil {
			err = nil // the form was sent before
		}
	}
	h.audit(who, "enqueue", err, "queue", queue, "copy of", id, "id", fresh.String())
	h.poller.changed()
	if err != nil {
		return err
	}
	redirect(w, link("job", "queue", queue, "id", fresh.String(), "notice", h.notices.add("This is a copy of the job "+text(id)+
		". Its past and its deadline were left out.")), "")
	return nil
}

// copyable reports whether a page offers to copy a job.
func copyable(j *broker.Job) bool { return j.Copyable() == nil && !broker.Reserved(j.Queue) }
