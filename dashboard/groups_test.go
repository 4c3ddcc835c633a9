package dashboard

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

func TestDead_SaysHowManyJobsAreInNoGroup(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{})
	var req broker.EnqueueRequest
	for i := range inspect.MaxGroups + 3 {
		req.Jobs = append(req.Jobs, broker.NewJob{Queue: "mail", ID: fmt.Sprint(i),
			Body:    broker.Body{Type: fmt.Sprint("type", i), Priority: broker.PriorityNormal},
			Restore: &broker.Restored{State: broker.StateDead, CreatedAt: time.Now(), Head: broker.Head{FinishedAt: time.Now()}}})
	}
	if _, err := s.store.Enqueue(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	hasNot(t, s.get(200, "dead"), "other types or errors")
	has(t, s.get(200, "dead?all=1"), "4,950 smaller groups are not shown", "3 more jobs have other types or errors",
		"the page makes at most 5,000 groups")
}
