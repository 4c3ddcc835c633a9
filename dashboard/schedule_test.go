package dashboard

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance/faulty"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/schedule"
)

func TestSchedules_AreListedAndShown(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{})
	has(t, s.get(200, "schedules"), "There are no schedules here")
	s.schedule("nightly-report", schedule.Cron("0 3 * * *", "Europe/Berlin"), schedule.WithOverlap(schedule.OverlapSkip),
		schedule.WithMisfire(schedule.RunUpTo(3, 2*time.Hour)), schedule.WithJitter(time.Minute), schedule.WithExpiry(time.Hour))
	s.schedule("old", schedule.Every(time.Hour), schedule.WithEnd(time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)))
	page := s.get(200, "schedules")
	has(t, page, `href="schedule?id=nightly-report"`, "0 3 * * *", "Europe/Berlin", ">waiting<", ">ended<", "report:monthly", ">shop<",
		"2 of 2 schedules",
		`href="schedules" aria-current="page"`)
	hasNot(t, page, "secret", "hx-trigger") // it does not refresh itself: each schedule costs a call
	if strings.Index(page, "nightly-report") > strings.Index(page, "schedule?id=old") {
		t.Error("the schedules are not sorted")
	}
	has(t, s.get(200, "schedules?search=NIGHT"), "nightly-report", "1 of 2 schedules")
	hasNot(t, s.get(200, "schedules?status=ended"), "nightly-report")
	has(t, s.get(400, "schedules?status=tired"), "There is no status")
	has(t, s.get(200, "schedule?id=nightly-report"), "up to 3, not older than 2h", ">skip<", "Jitter", "Expiry", ">waiting<", "Too late",
		">reports<")
	hasNot(t, s.get(200, "schedule?id=nightly-report"), `value="pause"`, "Decide") // it is read-only
	has(t, s.get(404, "schedule?id=nothing"), "There is no such schedule")
	s.get(400, "schedule")
	s.faults.Set(faulty.Plan{{Method: "Ping", Fault: faulty.Unavailable}})
	has(t, s.get(503, "schedules"), "The store does not answer")
}

func TestSchedules_VeryManyArePaged(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{})
	for i := range 501 {
		s.schedule(fmt.Sprintf("s%03d", i), schedule.Every(time.Hour))
	}
	first := s.get(200, "schedules?search=s")
	has(t, first, "500 of 500 schedules that were read; there are more")
	at := strings.Index(first, `href="schedules?at=`)
	if at < 0 {
		t.Fatal("there is no link to the next page")
	}
	next, _, _ := strings.Cut(first[at+len(`href="`):], `"`)
	next = strings.ReplaceAll(next, "&amp;", "&")
	has(t, s.get(200, next), "1 of 1 schedules", `href="schedules">First`)
	s.get(400, "schedules?at=nonsense")
}

func TestSchedules_DecisionsAreGuarded(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Authorize: func(r *http.Request, a Action) (string, error) {
		if a != ActionSchedule || r.Header.Get("User") != "ada" {
			return r.Header.Get("User"), errors.New("ask the operators")
		}
		return "ada", nil
	}})
	s.schedule("nightly", schedule.Cron("0 3 * * *", ""))
	s.schedule("old", schedule.Cron("0 3 * * *", ""))
	schedules := schedule.New(s.store, "")
	decide := func(id, verb string) string {
		return s.get(200, s.post(303, link("schedule", "id", id), url.Values{"verb": {verb}}, "User", "ada"), "User", "ada")
	}
	page := s.get(200, "schedule?id=nightly", "User", "ada")
	has(t, page, `value="pause"`, `value="run"`, `value="delete"`, "This cannot be undone")
	hasNot(t, s.get(200, "schedule?id=nightly", "User", "bob"), `value="pause"`)

	has(t, decide("nightly", "pause"), "The schedule nightly is paused", ">paused<", "by <bdi>ada</bdi>", `value="resume"`)
	if info, err := schedules.Get(t.Context(), "nightly"); err != nil || info.Paused == nil || info.Paused.By != "ada" {
		t.Errorf("the schedule is paused by %+v (%v)", info.Paused, err)
	}
	has(t, decide("nightly", "resume"), "The schedule nightly continues", ">waiting<")
	has(t, decide("nightly", "run"), "The schedule nightly runs as nightly@20")
	has(t, decide("old", "delete"), "The schedule old is deleted", "1 of 1 schedules")
	if _, err := schedules.Get(t.Context(), "old"); !errors.Is(err, broker.ErrNotFound) {
		t.Errorf("after it was deleted: %v", err)
	}

	s.post(403, "schedule?id=nightly", url.Values{"verb": {"delete"}}, "User", "bob")
	s.post(403, "schedule?id=nightly", url.Values{"verb": {"delete"}}, "User", "ada", "Sec-Fetch-Site", "cross-site")
	s.get(200, "schedule?id=nightly&verb=delete", "User", "ada") // a link does nothing
	s.post(400, "schedule?id=nightly", url.Values{"verb": {"explode"}}, "User", "ada")
	has(t, s.post(404, "schedule?id=nothing", url.Values{"verb": {"pause"}}, "User", "ada"), "There is no such schedule")
	if info, err := schedules.Get(t.Context(), "nightly"); err != nil || info.Status != schedule.StatusWaiting {
		t.Errorf("after what was refused the schedule is %s (%v)", info.Status, err)
	}
	has(t, s.log.String(), "who=ada action=pause schedule=nightly", "who=ada action=run", "who=ada action=delete schedule=old",
		"who=bob action=schedule")
}

// Without Config.Schedules there are no pages of schedules.
func TestSchedules_AreLeftOutUnlessConfigured(t *testing.T) {
	t.Parallel()
	b := membroker.New()
	defer b.Close()
	h, err := New(inspect.New(b), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	for path, want := range map[string]int{"/queues": 200, "/schedules": 404, "/schedule": 404} {
		w := httptest.NewRecorder()
		req, err := http.NewRequest(http.MethodGet, path, nil)
		if err != nil {
			t.Fatal(err)
		}
		h.ServeHTTP(w, req)
		if w.Code != want || strings.Contains(w.Body.String(), `href="schedules"`) {
			t.Errorf("%s answers %d, want %d, and no link to schedules", path, w.Code, want)
		}
	}
}
