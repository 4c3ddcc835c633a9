package dashboard

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/parked"
)

func TestConfirm_SaysHowManyBeforeAndAfter(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Authorize: everything})
	for i := range 7 {
		s.die("a", fmt.Sprintf("a%d", i), "email", fmt.Sprintf("no route to 10.0.0.%d", i))
	}
	for i := range 5 {
		s.die("b", fmt.Sprintf("b%d", i), "email", "mailbox full")
	}
	for _, c := range []struct {
		path, verb, want string
	}{
		{"confirm?state=dead", "redrive", "12 jobs</strong> will be redriven"},
		{"confirm?state=dead&queue=a", "delete", "7 jobs</strong> will be deleted"},
		{"confirm?state=dead&error=mailbox", "redrive", "5 jobs</strong> will be redriven"},
		{"confirm?state=dead&of-type=email&like=" + url.QueryEscape("no route to #"), "redrive", "7 jobs</strong> will be redriven"},
	} {
		page := s.post(200, c.path, url.Values{"verb": {c.verb}, "rate": {"50"}})
		has(t, page, c.want, `action="bulk?`, `name="rate" value="50"`)
	}
	if n := s.count("a", broker.StateDead) + s.count("b", broker.StateDead); n != 12 || len(s.handler.bulk.list()) > 0 {
		t.Fatalf("asking changed something: %d dead jobs are left of 12, %d operations", n, len(s.handler.bulk.list()))
	}
	has(t, s.post(409, "confirm?state=dead&error=nothing", url.Values{"verb": {"redrive"}}), "no such jobs any more")
	s.post(403, "confirm?state=dead", url.Values{"verb": {"redrive"}}, "Sec-Fetch-Site", "cross-site")

	s.post(303, "bulk?state=dead&of-type=email&like="+url.QueryEscape("no route to #"), url.Values{"verb": {"redrive"}, "number": {"7"}})
	s.ended(1)
	if o := s.handler.bulk.list()[0]; o.most != 7 || o.report.Done != 7 {
		t.Errorf("of 7 jobs %d were confirmed and %d redriven", o.most, o.report.Done)
	}
	if a, b := s.count("a", broker.StateDead), s.count("b", broker.StateDead); a != 0 || b != 5 {
		t.Errorf("%d and %d dead jobs are left, want 0 and 5", a, b)
	}
	// Suppressed jobs have their own counter.
	s.post(303, "bulk?state=dead&queue=b", url.Values{"verb": {"suppress"}})
	s.ended(2)
	s.die("b", "listed", "email", "mailbox full")
	has(t, s.post(200, "confirm?state=dead&queue=b", url.Values{"verb": {"unsuppress"}}), "5 jobs</strong> will be listed again")
	has(t, s.post(200, "confirm?state=dead&queue=b&error=full", url.Values{"verb": {"unsuppress"}}), "5 jobs</strong> will be listed again")
	s.post(303, "bulk?state=dead&queue=b", url.Values{"verb": {"unsuppress"}})
	s.ended(3)
	if n := s.handler.bulk.list()[2].report.Done; n != 5 {
		t.Errorf("%d jobs are listed again, want 5", n)
	}
}

func TestSearch_HeadersAndCorrelationSelect(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Authorize: everything})
	for i := range 6 {
		s.enqueue("mail", fmt.Sprint("m", i), "email", func(j *broker.NewJob) {
			j.Body.Headers = map[string]string{"region": []string{"eu", "us"}[i%2]}
			j.Body.CorrelationID = fmt.Sprint("order-", i/2)
		})
	}
	s.enqueue("mail", "bare", "email")
	for query, want := range map[string]string{
		"header=region":                        "m0 m1 m2 m3 m4 m5",
		"header=region%3Deu":                   "m0 m2 m4",
		"correlation=order-1":                  "m2 m3",
		"correlation=order-1&header=region=us": "m3",
		"header=regio":                         "",
	} {
		if got := rows(s.get(200, "jobs?state=pending&"+query)); got != want {
			t.Errorf("%s lists %q, want %q", query, got, want)
		}
	}
	// A decision about all jobs that match changes only these.
	has(t, s.post(200, "confirm?state=pending&header=region%3Deu", url.Values{"verb": {"delete"}}), "3 jobs</strong> will be deleted",
		"header region=eu")
	s.post(303, "bulk?state=pending&header=region%3Deu", url.Values{"verb": {"delete"}})
	s.ended(1)
	if got := rows(s.get(200, "jobs?state=pending")); got != "m1 m3 m5 bare" {
		t.Errorf("after those of one region were deleted there are %q", got)
	}
}

func TestSearch_EndedJobsBeginWithTheNewest(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{})
	for i := range 6 {
		s.die([]string{"a", "b"}[i%2], fmt.Sprint("d", i), []string{"z", "y", "x"}[i%3], "no route")
		time.Sleep(time.Millisecond) // so that the jobs end at different times
	}
	for query, want := range map[string]string{
		"state=dead":                        "d5 d4 d3 d2 d1 d0",
		"state=dead&queue=a":                "d4 d2 d0",
		"state=dead&order=oldest":           "d0 d2 d4 d1 d3 d5",
		"state=dead&queue=a&order=oldest":   "d0 d2 d4",
		"state=dead&queue=a&sort=type":      "d2 d4 d0",
		"state=dead&sort=-id":               "d5 d4 d3 d2 d1 d0",
		"state=dead&sort=id":                "d0 d1 d2 d3 d4 d5",
		"state=dead&queue=a&sort=-type":     "d0 d4 d2",
		"state=dead&queue=a&sort=nonsense":  "d4 d2 d0",
		"state=dead&queue=a&older=0s":       "d4 d2 d0",
		"state=dead&type=x&order=oldest":    "d2 d5",
		"state=dead&type=x":                 "d5 d2",
		"state=dead&type=x&reason=expired":  "",
		"state=dead&queue=b&error=no+route": "d5 d3 d1",
	} {
		if got := rows(s.get(200, "jobs?"+query)); got != want {
			t.Errorf("%s lists %q, want %q", query, got, want)
		}
	}
	page := s.get(200, "jobs?state=dead&sort=type")
	has(t, page, `aria-sort="ascending"`, `href="jobs?sort=-type&amp;state=dead"`, "Oldest first")
	for i := range 60 { // more than a page in one of two queues
		s.die("a", fmt.Sprint("e", i), "x", "no route")
	}
	page = s.get(200, "jobs?state=dead")
	has(t, page, `There are more in`, `href="jobs?queue=a&amp;state=dead"`)
	if !strings.HasPrefix(rows(page), "e59 e58") {
		t.Errorf("the newest are not the first: %.40s", rows(page))
	}
}

func TestSearch_AnIDIsFoundByItsBeginning(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{})
	s.enqueue("mail", "01K8Z3N8Q0AAAAAAAAAAAAAAAA", "email")
	s.enqueue("mail", "01K8Z3N8Q0BBBBBBBBBBBBBBBB", "email")
	if to := s.get(303, "jobs?id=01k8z3n8q0a"); to != "job?id=01K8Z3N8Q0AAAAAAAAAAAAAAAA&queue=mail" {
		t.Errorf("it leads to %s", to)
	}
	if got := rows(s.get(200, "jobs?id=01K8Z3N8Q0")); got != "01K8Z3N8Q0AAAAAAAAAAAAAAAA 01K8Z3N8Q0BBBBBBBBBBBBBBBB" {
		t.Errorf("a beginning that two share shows %q", got)
	}
	has(t, s.get(200, "jobs?id=01K8Z3N8Q0C"), "No job matches.")
	has(t, s.get(200, "jobs"), "jobs-tick")
	hasNot(t, s.get(200, "jobs?id=01K8Z3N8Q0"), "jobs-tick") // it does not search again and again
}

var copyID = regexp.MustCompile(`name="as" value="([0-9A-Z]{26})"`)

func TestCopy_EnqueuesAFreshJob(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Authorize: everything})
	s.die("mail", "a", "email", "no route", func(j *broker.NewJob) {
		j.Body.Payload, j.Body.Headers, j.Body.Key = []byte(`{"to":"ada"}`), map[string]string{"region": "eu"}, "acme"
		j.Body.Deadline = time.Now().Add(time.Hour)
	})
	found := copyID.FindStringSubmatch(s.get(200, "job?queue=mail&id=a"))
	if found == nil {
		t.Fatal("the page offers no copy")
	}
	form := url.Values{"as": {found[1]}}
	for range 2 { // sent twice
		has(t, s.follow(s.post(303, "copy?queue=mail&id=a", form)), "a copy of the job a")
	}
	j := s.find("mail", found[1])
	if j.State != broker.StatePending || string(j.Payload) != `{"to":"ada"}` || j.Headers["region"] != "eu" || j.Key != "acme" ||
		!j.Deadline.IsZero() || j.Failures != 0 {
		t.Errorf("the copy is %+v", j)
	}
	if n := s.count("mail", broker.StatePending); n != 1 || s.find("mail", "a").State != broker.StateDead {
		t.Errorf("%d jobs are pending, want one copy, and the job as it was", n)
	}
	s.enqueue("mail", "node", "email", func(j *broker.NewJob) { j.Body.Headers = map[string]string{parked.HeaderWorkflow: "w"} })
	has(t, s.post(409, "copy?queue=mail&id=node", url.Values{"as": {"01K8Z3N8Q0AAAAAAAAAAAAAAAA"}}), "part of a workflow")
	s.post(400, "copy?queue=mail&id=a", url.Values{"as": {"mine"}})
	s.post(404, "copy?queue=mail&id=gone", url.Values{"as": {"01K8Z3N8Q0AAAAAAAAAAAAAAAA"}})
	s.post(403, "copy?queue=mail&id=a", form, "Sec-Fetch-Site", "cross-site")
	has(t, s.log.String(), "action=enqueue queue=mail")
	readOnly := newSite(t, Config{})
	readOnly.enqueue("mail", "a", "email")
	hasNot(t, readOnly.get(200, "job?queue=mail&id=a"), "Enqueue a copy")
	readOnly.post(403, "copy?queue=mail&id=a", form)
}

func TestAct_RunNowTakesNoTime(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Authorize: everything})
	s.enqueue("mail", "late", "email", func(j *broker.NewJob) { j.Delay = time.Hour })
	has(t, s.get(200, "job?queue=mail&id=late"), ">Run now</button>")
	has(t, s.follow(s.post(303, "act?queue=mail&id=late", url.Values{"verb": {"run-now"}, "in": {"3h"}})), "The job is due now")
	if j := s.find("mail", "late"); j.State != broker.StatePending {
		t.Errorf("the job is %s", j.State)
	}
	hasNot(t, s.get(200, "job?queue=mail&id=late"), ">Run now</button>")
}

func TestQueue_SaysWhoPausedItAndWhatRuns(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Authorize: everything})
	s.die("mail", "d1", "email", "no route to 10.0.0.1")
	s.die("mail", "d2", "email", "no route to 10.0.0.2")
	for i := range 9 {
		s.enqueue("mail", fmt.Sprint(i), "email", func(j *broker.NewJob) { j.Body.Retention = time.Hour })
	}
	s.worker("w", 5, "mail")
	s.settle("w", s.claim("w", "mail", 2), broker.Complete(nil))
	s.claim("w", "mail", 7)
	hasNot(t, s.get(200, "queue?name=mail"), "pause-note")
	has(t, s.follow(s.post(303, "pause?queue=mail", nil)), "Paused by <bdi>tester</bdi> at")
	s.post(303, "pause?queue=mail", nil)
	page := s.get(200, "queue?name=mail")
	has(t, page, "<dt>Running</dt><dd>5</dd>", "<dt>Prefetched</dt><dd>2</dd>", "no route to #", "Of all dead jobs")
	has(t, s.follow(s.post(303, "resume?queue=mail", nil)), "Resumed by <bdi>tester</bdi> at")
	paused := true
	// another program pauses the queue
	if _, err := s.store.Policy(t.Context(), broker.PolicyRequest{Queue: "mail", Paused: &paused}); err != nil {
		t.Fatal(err)
	}
	s.handler.poller.changed()
	hasNot(t, s.get(200, "queue?name=mail"), "pause-note")
	ada := s.handler.inspector.As("ada").WithNote("a <deploy>")
	if err := errors.Join(ada.Resume(t.Context(), "mail"), ada.Pause(t.Context(), "mail")); err != nil {
		t.Fatal(err)
	}
	has(t, s.get(200, "queue?name=mail"), "Paused by <bdi>ada</bdi> at", " ago: <bdi>a &lt;deploy&gt;</bdi>")
}

func TestHandler_CompressesWhatIsNoSecret(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Authorize: everything})
	s.enqueue("mail", "a", "email", payload(`{"user": 1}`))
	for path, want := range map[string]string{"": "gzip", "jobs": "gzip", "stats": "gzip", "nothing": "gzip", "static/app.js": "gzip",
		"job?queue=mail&id=a": "gzip", "job?queue=mail&id=a&show=payload": "", "payload?queue=mail&id=a": "", "events": ""} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept-Encoding", "br, gzip;q=0.8")
		resp, err := s.client.Transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		if got := resp.Header.Get("Content-Encoding"); got != want {
			t.Errorf("%q is encoded as %q, want %q", path, got, want)
		}
		if want != "" {
			plain, err := gzip.NewReader(resp.Body)
			if err != nil {
				t.Fatalf("%q: %v", path, err)
			}
			text, err := io.ReadAll(plain)
			whole := s.get(resp.StatusCode, path)
			if end := "</html>"; strings.HasSuffix(whole, end) { // the two pages tell different ages
				text, whole = text[max(0, len(text)-len(end)):], end
			}
			if err != nil || string(text) != whole {
				t.Errorf("%q ends with %.300q (error %v), without compression with %.300q", path, text, err, whole)
			}
			if !strings.Contains(strings.Join(resp.Header.Values("Vary"), ","), "Accept-Encoding") {
				t.Errorf("%q varies by %q", path, resp.Header.Values("Vary"))
			}
		}
		resp.Body.Close()
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept-Encoding", "gzip;q=0")
	resp, err := s.client.Transport.RoundTrip(req)
	if err != nil || resp.Header.Get("Content-Encoding") != "" {
		t.Errorf("who refuses gzip gets %q, %v", resp.Header.Get("Content-Encoding"), err)
	}
	resp.Body.Close()
}

// "Newer than 0" would otherwise be a decision about all jobs.
func TestDecide_NewerThanZeroSelectsNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Authorize: everything})
	s.enqueue("mail", "a", "email")
	for _, age := range []string{"newer=0", "newer=0d"} {
		has(t, s.get(400, "jobs?state=pending&"+age), "write more than 0")
		for _, page := range []string{"confirm", "bulk"} {
			has(t, s.post(400, page+"?state=pending&"+age, url.Values{"verb": {"delete"}}), "write more than 0")
		}
	}
	has(t, s.get(200, "job?queue=mail&id=a"), "pending")
}
