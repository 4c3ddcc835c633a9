package dashboard

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/internal/readable"
)

// ruleField is a rule as a text field of a form. An empty text means zero.
type ruleField struct {
	*broker.Rule
	Field, Value string
	Number       bool
}

// Shown returns the name of the hidden field that has the text which the form showed.
func (f ruleField) Shown() string { return "shown-" + f.Field }

// formOf returns the rules of a queue, or of a key, as fields.
func formOf(p inspect.Policy, ofKey bool) (fields []ruleField) {
	for _, rule := range broker.Rules() {
		if ofKey && !rule.Key || !ofKey && !rule.Queue || rule.Unit == broker.RuleFlag { // pause and resume are buttons
			continue
		}
		f := ruleField{Rule: rule, Field: strings.ReplaceAll(rule.Name, "_", "-"), Number: rule.Unit == broker.RuleCount}
		if n := rule.Of(&p); n != 0 {
			f.Value = inspect.RuleText(rule, n)
		}
		fields = append(fields, f)
	}
	return fields
}

// typed returns the texts of the changed fields, by the names of their rules. Unchanged
// fields are left out, so that their values are not rounded. A field is unchanged if it
// has the text that the form showed, whatever the rule is now: somebody else may have
// changed it since. A form without that text is compared with the rule as it is now.
func typed(r *http.Request, fields []ruleField) map[string]string {
	texts := make(map[string]string)
	for _, f := range fields {
		if !r.PostForm.Has(f.Field) {
			continue
		}
		shown := f.Value
		if r.PostForm.Has(f.Shown()) {
			shown = r.PostForm.Get(f.Shown())
		}
		if s := r.PostForm.Get(f.Field); s != shown {
			texts[f.Name] = s
		}
	}
	return texts
}

// queueDecision returns the handler of a decision about the queue in the URL.
func (h *Handler) queueDecision(action Action, verb, done string,
	do func(i *inspect.Inspector, ctx context.Context, queue string) error) handlerFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		queue := r.URL.Query().Get("queue")
		d := decision{action: action, verb: verb, about: []any{"queue", queue}, subject: the("queue", queue),
			to: []string{"queue", "name", queue}}
		if verb == "remove" {
			d.to = []string{"queues"}
		}
		d.do = func(ctx context.Context, who string) (string, error) {
			if verb != "remove" { // otherwise a mistyped name would create a queue
				if _, err := h.inspector.Queue(ctx, queue); err != nil {
					return "", err
				}
			}
			return done, do(h.inspector.As(who), ctx, queue)
		}
		return h.carryOut(w, r, d)
	}
}

func (h *Handler) policy(w http.ResponseWriter, r *http.Request) error {
	change := func(i *inspect.Inspector, ctx context.Context, queue string) error {
		now, err := i.Policy(ctx, queue)
		if err != nil {
			return err
		}
		return h.changeRules(r, queue, "", now)
	}
	return h.queueDecision(ActionPolicy, "policy", "has new rules.", change)(w, r)
}

// changeRules changes the rules of a queue, or of a key of it, as the form says.
func (h *Handler) changeRules(r *http.Request, queue, key string, now inspect.Policy) error {
	wanted, err := inspect.Change(now, typed(r, formOf(now, key != "")))
	if err == nil {
		_, err = h.inspector.SetPolicy(r.Context(), broker.PolicyFrom(queue, key, now, wanted))
	}
	return err
}

// parseCount parses a whole number; the empty text is zero.
func parseCount(label, s string) (int64, error) {
	s = strings.ReplaceAll(strings.TrimSpace(s), ",", "")
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0, badRequest("%s: %q is not a whole number of 0 or more.", label, text(s))
	}
	return n, nil
}

// parseSpan parses a duration, with d for days; the empty text is zero.
func parseSpan(label, s string) (time.Duration, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return 0, nil
	}
	d, err := readable.ParseSpan(s)
	if err != nil || d < 0 {
		return 0, badRequest("%s: %q is not a time span; write 90s, 15m, 12h or 7d.", label, text(s))
	}
	return d, nil
}
