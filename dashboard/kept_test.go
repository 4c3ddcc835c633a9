package dashboard

import (
	"testing"

	"github.com/seed81422ce9/jobs/broker"
)

func TestHandler_AJobsPageShowsProgressAndSteps(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{})
	s.enqueue("mail", "a", "import")
	hasNot(t, s.get(200, "job?queue=mail&id=a"), "<progress", "Checkpoint", "Steps done")
	s.worker("w", 1, "mail")
	held := s.claim("w", "mail", 1)
	s.settle("w", held, broker.Keep(broker.Kept{Checkpoint: []byte("a secret"),
		Steps:    []broker.DoneStep{{Name: "charge", Result: []byte(`"a secret"`)}, {Name: "<ship>"}},
		Progress: broker.Progress{Done: 30, Total: 120, Note: "<b>sending\u202e"}}))
	page := s.get(200, "job?queue=mail&id=a")
	has(t, page, `<progress value="30" max="120" aria-label="Progress">`, "30 of 120 (25 %): &lt;b&gt;sending", "Steps done",
		"charge, &lt;ship&gt;", "8 bytes")
	hasNot(t, page, "a secret", "\u202e")
	s.settle("w", held, broker.Release().With(broker.Kept{Progress: broker.Progress{Note: "looking"}}))
	page = s.get(200, "job?queue=mail&id=a")
	has(t, page, ">looking<")
	hasNot(t, page, "<progress", "Steps done", "Checkpoint")
}
