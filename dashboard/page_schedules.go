package dashboard

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/schedule"
)

// schedulesPage lists schedules, one page of the store's list at a time. It does not
// refresh itself: each schedule takes a call to the store.
type schedulesPage struct {
	Search   string
	Status   schedule.Status
	Statuses []schedule.Status
	Rows     []schedule.Info
	Now      time.Time
	Read     int    // number of schedules read; Rows are those that match
	Next     string // URL of the next page
	Later    bool   // this is not the first page
}

func (h *Handler) schedules(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	some, next, err := h.cfg.Schedules.Page(r.Context(), q.Get("at"))
	if err != nil {
		return err
	}
	p := schedulesPage{Search: q.Get("search"), Status: schedule.Status(q.Get("status")), Statuses: schedule.Statuses(),
		Read: len(some), Later: q.Get("at") != ""}
	if p.Status != "" && !slices.Contains(p.Statuses, p.Status) {
		return badRequest("There is no status %q.", text(string(p.Status)))
	}
	p.Rows = slices.DeleteFunc(some, func(i schedule.Info) bool {
		return p.Status != "" && i.Status != p.Status || !strings.Contains(strings.ToLower(i.ID), strings.ToLower(p.Search))
	})
	if len(p.Rows) > 0 {
		p.Now = p.Rows[0].Now
	}
	if next != "" {
		p.Next = link("schedules", "search", p.Search, "status", string(p.Status), "at", next)
	}
	v := h.view(r, "schedules", "Schedules")
	v.Live, v.Data = false, p
	return render(w, r, "schedules", v, http.StatusOK)
}

type schedulePage struct {
	schedule.Info
	LastJobTo string // URL; empty if nothing was enqueued
}

func (h *Handler) schedule(w http.ResponseWriter, r *http.Request) error {
	info, err := h.cfg.Schedules.Get(r.Context(), r.URL.Query().Get("id"))
	if err != nil {
		return aboutSchedule(err)
	}
	p := schedulePage{Info: info}
	if info.LastJob != "" {
		p.LastJobTo = link("job", "queue", info.LastQueue, "id", info.LastJob)
	}
	v := h.view(r, "schedules", "Schedule "+text(info.ID))
	v.Live, v.Data = false, p
	return render(w, r, "schedule", v, http.StatusOK)
}

// aboutSchedule rewords errors that name a job, as a schedule is stored as one.
func aboutSchedule(err error) error {
	if errors.Is(err, broker.ErrNotFound) {
		return notFound("There is no such schedule.")
	}
	return err
}

// decideSchedule carries out a decision about the schedule in the URL, and redirects to
// its page.
func (h *Handler) decideSchedule(w http.ResponseWriter, r *http.Request) error {
	who, err := h.authorize(r, ActionSchedule)
	if err != nil {
		return err
	}
	id, verb, said := r.URL.Query().Get("id"), r.PostFormValue("verb"), ""
	s, ctx := h.cfg.Schedules, r.Context()
	switch verb {
	case "pause":
		said, err = "is paused. Running jobs continue.", s.Pause(ctx, id, cmp.Or(who, "dashboard"))
	case "resume":
		said, err = "continues with its next tick.", s.Resume(ctx, id)
	case "run":
		var job string
		job, err = s.RunNow(ctx, id)
		said = "runs as " + text(job) + "."
	case "delete":
		said, err = "is deleted.", s.Delete(ctx, id)
	default:
		return errNoVerb
	}
	h.audit(who, verb, err, "schedule", id)
	if err != nil {
		return aboutSchedule(err)
	}
	h.decided(w, "schedule", id, verb, said)
	return nil
}

// decided redirects to the page of a schedule or workflow after a decision, or to the list if it is deleted.
func (h *Handler) decided(w http.ResponseWriter, page, id, verb, said string) {
	notice := h.notices.add(fmt.Sprintf("The %s %s %s", page, text(id), said))
	if verb == "delete" {
		page, id = page+"s", ""
	}
	redirect(w, link(page, "id", id, "notice", notice), "")
}
