package dashboard

import (
	"net/url"
	"reflect"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

func TestBackends_TheDashboardOnEachServer(t *testing.T) {
	t.Parallel()
	postgres := testenv.PostgresPlace(t)
	if err := backends.Migrate(t.Context(), postgres); err != nil {
		t.Fatal(err)
	}
	for name, place := range map[string]string{"redis": testenv.RedisPlace(t), "postgres": postgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, err := backends.Open(t.Context(), place)
			if err != nil {
				t.Fatal(err)
			}
			s := siteOf(t, store, Config{Authorize: everything})
			s.fill()
			// Rates, from the store's events.
			n := 0
			err = s.listen(t.Context(), func(one tick) bool {
				n++
				s.enqueue("live", string(rune('a'+n)), "email")
				if n == 1 {
					s.worker("live", 9, "live")
				}
				s.settle("live", s.claim("live", "live", 1), broker.Complete(nil))
				return n > 20 || one.Point[7] != nil && *one.Point[7] > 0
			})
			if err != nil || n > 20 {
				t.Errorf("after %d looks no job is known to have completed: %v", n, err)
			}
			eventually(t, func() string { // counters may lag behind
				s.handler.poller.changed()
				return lacks(s.get(200, ""), "9 dead jobs in the queue mail")
			})
			has(t, s.get(200, "queues"), ">mail<", ">images<", ">reports<")
			has(t, s.get(200, "queue?name=mail"), "01J9WORKERA", "6 / 10")
			has(t, s.get(200, "jobs?state=dead&error=photo-2"), "broken-002")
			redriven := s.follow(s.post(303, "act?state=dead", url.Values{"verb": {"redrive"},
				"job": {url.Values{"queue": {"images"}, "id": {"broken-000"}}.Encode()}}))
			if found := undoForm.FindStringSubmatch(redriven); found == nil {
				t.Error("a redrive has no way back")
			} else {
				has(t, s.follow(s.post(303, found[1], nil)), "Undone for 1 of 1 job.")
			}
			if j := s.find("images", "broken-000"); j.State != broker.StateDead || j.Reason != broker.ReasonSkipRetry ||
				j.Errors.Last().Message == "" {
				t.Errorf("after a redrive was taken back the job is %+v", j)
			}
			has(t, s.get(200, "jobs?state=any&key=tenant-1"), "mail-001")
			has(t, s.get(200, "workers?worker=01J9WORKERA"), "email:welcome", "mail-00")
			has(t, s.get(200, "schedules"), "nightly-report", "leap-day", "every-minute", "3 of 3 schedules")
			has(t, s.follow(s.post(303, "schedule?id=leap-day", url.Values{"verb": {"pause"}})), ">paused<", "by <bdi>tester</bdi>")
			has(t, s.follow(s.post(303, "schedule?id=leap-day", url.Values{"verb": {"delete"}})), "2 of 2 schedules")
			has(t, s.get(200, "job?queue=mail&id=dead-004"), "10.0.4.4:587", "Dead: skip_retry")
			has(t, s.get(200, "dead"), "dial tcp #: connection refused", "decoding &#34;…&#34;: unexpected end of file")

			group := url.Values{"state": {"dead"}, "of-type": {"email:welcome"}, "like": {"dial tcp #: connection refused"}}
			s.post(303, "bulk?"+group.Encode(), url.Values{"verb": {"redrive"}, "rate": {"1000"}})
			s.ended(1)
			if j := s.find("mail", "dead-004"); j.State != broker.StatePending {
				t.Errorf("the job is %s after its group was redriven", j.State)
			}
			was := s.find("images", "broken-002")
			s.post(303, s.checked("redrive", was.Ref()), nil)
			if j := s.find("images", "broken-002"); j.State != broker.StateDead || !j.FinishedAt.Equal(was.FinishedAt) ||
				!reflect.DeepEqual(j.Errors, was.Errors) || len(j.Errors.Entries) == 0 {
				t.Errorf("after a redrive was undone the job is %+v, and was %+v", j, was)
			}
			s.post(303, "act?queue=images&id=broken-001", url.Values{"verb": {"delete"}})
			s.post(303, "act?queue=mail&id=mail-030", url.Values{"verb": {"reschedule"}, "in": {"2h"}})
			if j := s.find("mail", "mail-030"); j.State != broker.StateScheduled || time.Until(j.RunAt) < time.Hour {
				t.Errorf("the job is %s, due at %v", j.State, j.RunAt)
			}
			has(t, s.follow(s.post(303, "pause?queue=images", nil)), ">paused<")
			s.post(303, "policy?queue=images", url.Values{"keep-dead": {"7d"}, "max-depth": {"99"}})
			if p, err := s.handler.inspector.Policy(t.Context(), "images"); err != nil || !p.Paused || p.MaxDepth != 99 ||
				p.RetainDead.Age != 7*24*time.Hour {
				t.Errorf("the policy is %+v, %v", p, err)
			}
		})
	}
}
