package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// decision is what a form asks for about one thing, such as a queue or a schedule.
type decision struct {
	action  Action
	verb    string // as the log names it
	about   []any  // names and values for the log
	subject string // begins the text about what was done, such as "The queue mail"
	do      func(ctx context.Context, who string) (done string, err error)
	to      []string // the page that shows the result, with its parameters
}

// carryOut carries out a decision, logs it, and redirects to the page that shows the result.
func (h *Handler) carryOut(w http.ResponseWriter, r *http.Request, d decision) error {
	who, err := h.authorize(r, d.action)
	if err != nil {
		return err
	}
	done, err := d.do(r.Context(), who)
	if errors.Is(err, errNoVerb) {
		return err
	}
	h.poller.changed()
	h.audit(who, d.verb, err, d.about...)
	if err != nil {
		return err
	}
	notice := h.notices.add(strings.TrimSpace(d.subject + " " + done))
	redirect(w, link(d.to[0], append(d.to[1:], "notice", notice)...), "")
	return nil
}

// the returns what a decision is about, for the text about what was done.
func the(kind, name string) string { return fmt.Sprintf("The %s %s", kind, text(name)) }

// audit logs a decision. The line never has a payload.
func (h *Handler) audit(who, verb string, err error, about ...any) {
	args := append([]any{"who", who, "action", verb}, about...)
	if err != nil {
		_, outcome := describe(err)
		h.log.Warn("jobs dashboard: a decision was not carried out", append(args, "outcome", strings.TrimSpace(outcome))...)
		return
	}
	h.log.Info("jobs dashboard: a decision was carried out", args...)
}
