package dashboard

import (
	"errors"
	"fmt"
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
	v := h.view(r, "queues", "Keys of "+text(p.Queue))
	v.Live, v.Data = false, p
	return render(w, r, "keys", v, http.StatusOK)
}

// aboutKeys rewords the error of a store without limits for keys.
func aboutKeys(err error) error {
	if errors.Is(err, broker.ErrUnsupported) {
		return notFound("This store serves all keys alike, and does not list them.")
	}
	return err
}

// keyPolicy changes the rules of one key, and pauses or resumes it.
func (h *Handler) keyPolicy(w http.ResponseWriter, r *http.Request) error {
	verb, action := r.PostFormValue("verb"), ActionPause
	if verb == "" {
		verb, action = "policy", ActionPolicy
	}
	who, err := h.authorize(r, action)
	if err != nil {
		return err
	}
	queue, key := r.URL.Query().Get("queue"), r.URL.Query().Get("key")
	if _, err := h.inspector.Queue(r.Context(), queue); err != nil {
		return err // otherwise the form would create a queue that was removed meanwhile
	}
	done := "has new rules."
	switch verb {
	case "pause":
		err, done = h.inspector.PauseKey(r.Context(), queue, key), "is paused. Running jobs continue."
	case "resume":
		err, done = h.inspector.ResumeKey(r.Context(), queue, key), "goes on."
	case "policy":
		err = h.changeKey(r, queue, key)
	default:
		err = badRequest("There is no such verb.")
	}
	h.poller.changed()
	h.audit(who, verb+" key", err, "queue", queue, "key", key)
	if err != nil {
		return err
	}
	redirect(w, link("keys", "queue", queue, "key", key, "notice", h.notices.add(fmt.Sprintf("The key %s %s", text(key), done))), "")
	return nil
}

func (h *Handler) changeKey(r *http.Request, queue, key string) error {
	now, err := h.inspector.Key(r.Context(), queue, key)
	if err != nil {
		return err
	}
	wanted, err := inspect.Change(now.Policy, typed(r, formOf(now.Policy, true)))
	if err == nil {
		_, err = h.inspector.SetPolicy(r.Context(), broker.PolicyFrom(queue, key, now.Policy, wanted))
	}
	return err
}
