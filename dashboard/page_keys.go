package dashboard

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

// keysPage lists the keys of a queue with the most jobs, or one key. It does not
// refresh itself: it reads up to ten thousand keys.
type keysPage struct {
	Queue string
	One   string // the key that was asked for
	Rows  []inspect.KeyInfo
	Part  bool // there are more keys than were examined
	Now   time.Time
	Form  []ruleField // of the one key
}

// topKeys is how many keys a page shows: one screen.
const topKeys = 50

func (h *Handler) keys(w http.ResponseWriter, r *http.Request, s *snapshot) error {
	p := keysPage{Queue: r.URL.Query().Get("queue"), One: r.URL.Query().Get("key"), Now: s.survey.now()}
	if _, err := h.inspector.Queue(r.Context(), p.Queue); err != nil {
		return err
	}
	if p.One != "" {
		one, err := h.inspector.Key(r.Context(), p.Queue, p.One)
		if err != nil {
			return aboutKeys(err)
		}
		p.Rows, p.Form = []inspect.KeyInfo{one}, formOf(one.Policy, true)
	} else {
		rows, all, err := h.inspector.TopKeys(r.Context(), p.Queue, topKeys)
		if err != nil {
			return aboutKeys(err)
		}
		p.Rows, p.Part = rows, !all
	}
	return h.view(r, "queues", "Keys of "+text(p.Queue)).still().show(w, r, "keys", p)
}

// aboutKeys rewords the error of a store without limits for keys.
func aboutKeys(err error) error {
	if errors.Is(err, broker.ErrUnsupported) {
		return notFound("This store serves all keys alike, and does not list them.")
	}
	return err
}

// decideKey changes the rules of one key, and pauses or resumes it.
func (h *Handler) decideKey(w http.ResponseWriter, r *http.Request) error {
	queue, key := r.URL.Query().Get("queue"), r.URL.Query().Get("key")
	verb, action := r.PostFormValue("verb"), ActionPause
	if verb == "" {
		verb, action = "policy", ActionPolicy
	}
	do := func(ctx context.Context, _ string) (string, error) {
		if _, err := h.inspector.Queue(ctx, queue); err != nil {
			return "", err // otherwise the form would create a queue that was removed meanwhile
		}
		switch verb {
		case "pause":
			return "is paused. Running jobs continue.", h.inspector.PauseKey(ctx, queue, key)
		case "resume":
			return "goes on.", h.inspector.ResumeKey(ctx, queue, key)
		case "policy":
			now, err := h.inspector.Key(ctx, queue, key)
			if err == nil {
				err = h.changeRules(r, queue, key, now.Policy)
			}
			return "has new rules.", err
		}
		return "", errNoVerb
	}
	return h.carryOut(w, r, decision{action: action, verb: verb + " key", about: []any{"queue", queue, "key", key},
		subject: the("key", key), do: do, to: []string{"keys", "queue", queue, "key", key}})
}
