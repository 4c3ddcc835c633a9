package dashboard

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/inspect"

	"github.com/seed81422ce9/jobs/internal/readable"
)

// policyForm is a queue's rules as text fields. Empty is no bound.
type policyForm struct {
	MaxDepth                         string
	CompletedAge, CompletedCount     string
	DeadAge, DeadCount, DuplicateAge string
	PriorityRound                    string
}

func formOf(p inspect.Policy) policyForm {
	count := func(n int64) string {
		if n == 0 {
			return ""
		}
		return strconv.FormatInt(n, 10)
	}
	return policyForm{count(p.MaxDepth), readable.Span(p.RetainCompleted.Age), count(p.RetainCompleted.Count),
		readable.Span(p.RetainDead.Age), count(p.RetainDead.Count), readable.Span(p.DuplicateSpan), count(p.PriorityRound)}
}

func (h *Handler) pause(w http.ResponseWriter, r *http.Request) error {
	return h.decideQueue(w, r, ActionPause, "pause", "is paused. Jobs that run go on running.", func(name string) error {
		return h.inspector.Pause(r.Context(), name)
	})
}

func (h *Handler) resume(w http.ResponseWriter, r *http.Request) error {
	return h.decideQueue(w, r, ActionPause, "resume", "goes on.", func(name string) error {
		return h.inspector.Resume(r.Context(), name)
	})
}

func (h *Handler) remove(w http.ResponseWriter, r *http.Request) error {
	return h.decideQueue(w, r, ActionRemove, "remove", "is forgotten.", func(name string) error {
		return h.inspector.RemoveQueue(r.Context(), name)
	})
}

func (h *Handler) policy(w http.ResponseWriter, r *http.Request) error {
	return h.decideQueue(w, r, ActionPolicy, "policy", "has new rules.", func(name string) error {
		p, err := h.inspector.Policy(r.Context(), name)
		if err != nil {
			return err
		}
		was := formOf(p)
		// A field that was left alone keeps what it stands for to the microsecond.
		number := func(field, was string, n *int64) {
			if s := r.PostFormValue(field); s != was && err == nil {
				*n, err = parseCount(field, s)
			}
		}
		age := func(field, was string, d *time.Duration) {
			if s := r.PostFormValue(field); s != was && err == nil {
				*d, err = parseSpan(field, s)
			}
		}
		number("max-depth", was.MaxDepth, &p.MaxDepth)
		age("completed-age", was.CompletedAge, &p.RetainCompleted.Age)
		number("completed-count", was.CompletedCount, &p.RetainCompleted.Count)
		age("dead-age", was.DeadAge, &p.RetainDead.Age)
		number("dead-count", was.DeadCount, &p.RetainDead.Count)
		age("duplicate-age", was.DuplicateAge, &p.DuplicateSpan)
		number("priority-round", was.PriorityRound, &p.PriorityRound)
		if err == nil {
			_, err = h.inspector.SetPolicy(r.Context(), inspect.PolicyRequest{Queue: name, MaxDepth: &p.MaxDepth,
				RetainCompleted: &p.RetainCompleted, RetainDead: &p.RetainDead, DuplicateSpan: &p.DuplicateSpan, PriorityRound: &p.PriorityRound})
		}
		return err
	})
}

var fieldNames = map[string]string{
	"max-depth": "Maximum depth", "duplicate-age": "Refuse a given ID again for", "completed-age": "Keep completed for", "completed-count": "Keep completed, at most",
	"dead-age": "Keep dead for", "dead-count": "Keep dead, at most",
	"priority-round": "Jobs in a row, one of each priority", "older": "Older than", "newer": "Newer than", "rate": "Jobs per second", "in": "In",
}

// parseCount reads a whole number; nothing is zero.
func parseCount(field, s string) (int64, error) {
	s = strings.ReplaceAll(strings.TrimSpace(s), ",", "")
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0, &pageError{http.StatusBadRequest, fmt.Sprintf("%s: %q is no whole number from 0 on.", fieldNames[field], text(s))}
	}
	return n, nil
}

// parseSpan reads a duration, in which d stands for days; nothing is zero.
func parseSpan(field, s string) (time.Duration, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return 0, nil
	}
	wrong := &pageError{http.StatusBadRequest, fmt.Sprintf("%s: %q is no time span; write 90s, 15m, 12h or 7d.", fieldNames[field],
		text(s))}
	rest, days := s, int64(0)
	if number, after, ok := strings.Cut(s, "d"); ok {
		n, err := strconv.ParseInt(number, 10, 32)
		if err != nil || n < 0 || n > 100*365 {
			return 0, wrong
		}
		rest, days = after, n
	}
	var d time.Duration
	if rest != "" {
		var err error
		if d, err = time.ParseDuration(rest); err != nil || d < 0 {
			return 0, wrong
		}
	}
	return d + time.Duration(days)*24*time.Hour, nil
}

// decideQueue carries out a decision about the queue in the address, and goes
// back to its page.
func (h *Handler) decideQueue(w http.ResponseWriter, r *http.Request, action Action, verb, done string, do func(name string) error) error {
	who, err := h.authorize(r, action)
	if err != nil {
		return err
	}
	name := r.URL.Query().Get("queue")
	if verb != "remove" { // a policy for a name that was mistyped helps nobody
		_, err = h.inspector.Queue(r.Context(), name)
	}
	if err == nil {
		err = do(name)
	}
	h.poller.changed()
	h.audit(who, verb, err, "queue", name)
	if err != nil {
		return err
	}
	to := link("queue", "name", name, "notice", h.notices.add(fmt.Sprintf("The queue %s %s", text(name), done)))
	if verb == "remove" {
		to = link("queues", "notice", h.notices.add(fmt.Sprintf("The queue %s %s", text(name), done)))
	}
	redirect(w, to, "")
	return nil
}
