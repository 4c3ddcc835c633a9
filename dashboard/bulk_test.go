package dashboard

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance/faulty"
	"github.com/seed81422ce9/jobs/inspect"
)

// ended waits until n bulk operations have ended and none is running.
func (s *site) ended(n int) {
	s.t.Helper()
	eventually(s.t, func() string {
		all, running := s.handler.bulk.list(), s.handler.bulk.running()
		if running > 0 || len(all) != n {
			return fmt.Sprintf("of %d operations %d are running, want %d that have ended", len(all), running, n)
		}
		return ""
	})
}

func (s *site) count(queue string, state broker.State) int64 {
	s.t.Helper()
	q, err := inspect.New(s.store).Queue(s.t.Context(), queue)
	if err != nil {
		s.t.Fatal(err)
	}
	return q.Counts[state]
}

func TestBulk_ABulkOperationTakesWhatTheFilterSelects(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Authorize: everything})
	for i := range 5 {
		s.die("a", fmt.Sprintf("a%d", i), "email", "no route")
		s.die("b", fmt.Sprintf("b%d", i), "email", "mailbox full")
	}
	s.enqueue("a", "p", "email")
	has(t, s.get(200, "jobs?state=dead&error=route"), "dead jobs, error with route", `action="confirm?error=route&amp;state=dead"`)
	page := s.follow(s.post(303, "bulk?state=dead&error=route", url.Values{"verb": {"delete"}, "rate": {"1000"}}))
	has(t, page, "It has begun", "Delete: <bdi>dead jobs, error with route</bdi>")
	s.ended(1)
	if a, b := s.count("a", broker.StateDead), s.count("b", broker.StateDead); a != 0 || b != 5 {
		t.Errorf("%d and %d dead jobs are left, want 0 and 5", a, b)
	}
	s.post(303, "bulk?state=dead&queue=b", url.Values{"verb": {"redrive"}})
	s.ended(2)
	s.post(303, "bulk?state=pending&queue=b", url.Values{"verb": {"reschedule"}, "in": {"3h"}})
	s.ended(3)
	if n := s.count("b", broker.StateScheduled); n != 5 {
		t.Errorf("%d jobs are scheduled, want 5", n)
	}
	s.post(303, "bulk?state=scheduled&queue=b", url.Values{"verb": {"cancel"}})
	s.ended(4)
	if b, p := s.count("b", broker.StateScheduled), s.count("a", broker.StatePending); b != 0 || p != 1 {
		t.Errorf("%d jobs are scheduled and %d pending, want 0 and 1", b, p)
	}
	for path, problem := range map[string]string{"bulk?state=dead": "no such jobs", "bulk?state=asleep": "none of",
		"bulk?state=pending&older=x": "Older than"} {
		form := url.Values{"verb": {"redrive"}}
		if strings.Contains(path, "dead") {
			has(t, s.post(409, path, form), problem)
		} else {
			has(t, s.post(400, path, form), problem)
		}
	}
	s.post(400, "bulk?state=pending", url.Values{"verb": {"cancel"}, "rate": {"99999"}})
	s.post(400, "bulk?state=pending", url.Values{"verb": {"nothing"}})
}

func TestBulk_ABulkOperationCanBeStopped(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Authorize: everything})
	for i := range 20 {
		s.die("a", fmt.Sprintf("a%d", i), "email", "no route")
	}
	s.post(303, "bulk?state=dead", url.Values{"verb": {"redrive"}, "rate": {"2"}})
	eventually(t, func() string { return lacks(s.get(200, "work", "HX-Request", "true"), "2 of about 20 done") })
	id := s.handler.bulk.list()[0].id
	has(t, s.follow(s.post(303, "stop?operation="+id, nil)), "It ends after the current step")
	s.ended(1)
	has(t, s.get(200, "work"), "Stopped.")
	if n := s.count("a", broker.StateDead); n < 14 || n > 18 {
		t.Errorf("%d dead jobs are left of 20, at 2 a second", n)
	}
	s.post(404, "stop?operation=nothing", nil)
}

func lacks(page, text string) string {
	if strings.Contains(page, text) {
		return ""
	}
	return fmt.Sprintf("the page lacks %q:\n%.2000s", text, body(page))
}

func TestBulk_OperationsAreFew(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Authorize: everything})
	for i := range 3 {
		s.die("a", fmt.Sprintf("a%d", i), "email", "no route")
	}
	s.faults.Set(faulty.Plan{{Method: "Find", Fault: faulty.Slow(time.Minute)}})
	for range maxBulk {
		s.post(303, "bulk?state=dead", url.Values{"verb": {"redrive"}})
	}
	has(t, s.post(409, "bulk?state=dead", url.Values{"verb": {"redrive"}}), "4 operations are running already")
	began := time.Now()
	if err := s.handler.Close(); err != nil || time.Since(began) > 3*time.Second {
		t.Errorf("Close took %v: %v", time.Since(began), err)
	}
	if n := s.handler.bulk.running(); n != 0 {
		t.Errorf("%d operations run on after Close", n)
	}
	if s.handler.goWhileOpen(func() {}) {
		t.Error("a closed handler begins work")
	}
}

func TestBulk_ABulkOperationSaysThatTheStoreWentAway(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Authorize: everything})
	s.die("a", "a1", "email", "no route")
	s.faults.Set(faulty.Plan{{Method: "Operate", Fault: faulty.Unavailable}})
	s.post(303, "bulk?state=dead", url.Values{"verb": {"redrive"}})
	s.ended(1)
	s.faults.Set(nil)
	has(t, s.get(200, "work"), "0 done", "The store does not answer")
}

func TestBulk_OldOperationsAreForgotten(t *testing.T) {
	t.Parallel()
	var b bulkWork
	for i := range 3 * keptBulk {
		b.add(&operation{id: fmt.Sprint(i), ended: time.Now()})
	}
	if all := b.list(); len(all) > keptBulk+maxBulk || all[len(all)-1].id != fmt.Sprint(3*keptBulk-1) {
		t.Errorf("%d operations are kept", len(all))
	}
}
