package dashboard

import (
	"cmp"
	"context"
	"errors"
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
	return h.view(r, "schedules", "Schedules").still().show(w, r, "schedules", p)
}

func (h *Handler) schedule(w http.ResponseWriter, r *http.Request) error {
	info, err := h.cfg.Schedules.Get(r.Context(), r.URL.Query().Get("id"))
	if err != nil {
		return aboutSchedule(err)
	}
	return h.view(r, "schedules", "Schedule "+text(info.ID)).still().show(w, r, "schedule", info)
}

// aboutSchedule rewords errors that name a job, as a schedule is stored as one.
func aboutSchedule(err error) error {
	if errors.Is(err, broker.ErrNotFound) {
		return notFound("There is no such schedule.")
	}
	return err
}

// decideSchedule carries out a decision about the schedule in the URL.
func (h *Handler) decideSchedule(w http.ResponseWriter, r *http.Request) error {
	return h.decideOne(w, r, ActionSchedule, "schedule", func(ctx context.Context, id, verb, who string) (string, error) {
		s := h.cfg.Schedules
		switch verb {
		case "pause":
			return "is paused. Running jobs continue.", s.Pause(ctx, id, who)
		case "resume":
			return "continues with its next tick.", s.Resume(ctx, id)
		case "run":
			job, err := s.RunNow(ctx, id)
			return "runs as " + text(job) + ".", err
		case "delete":
			return "is deleted.", s.Delete(ctx, id)
		}
		return "", errNoVerb
	}, aboutSchedule)
}

// decideOne carries out a decision about the schedule or the workflow in the URL. Its page shows the result; after a
// deletion, the list does.
func (h *Handler) decideOne(w http.ResponseWriter, r *http.Request, action Action, kind string,
	do func(ctx context.Context, id, verb, who string) (done string, err error), reword func(error) error) error {
	id, verb := r.URL.Query().Get("id"), r.PostFormValue("verb")
	d := decision{action: action, verb: verb, about: []any{kind, id}, subject: the(kind, id), to: []string{kind, "id", id}}
	if verb == "delete" {
		d.to = []string{kind + "s"}
	}
	d.do = func(ctx context.Context, who string) (string, error) {
		done, err := do(ctx, id, verb, cmp.Or(who, "dashboard"))
		return done, reword(err)
	}
	return h.carryOut(w, r, d)
}
