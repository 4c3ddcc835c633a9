package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

var rowID = regexp.MustCompile(`<th scope="row"><a class="id" href="job\?[^"]*"><bdi>([^<]*)</bdi>`)

// rows returns the IDs of the jobs in a page's table.
func rows(page string) string {
	var ids []string
	for _, m := range rowID.FindAllStringSubmatch(page, -1) {
		ids = append(ids, m[1])
	}
	return strings.Join(ids, " ")
}

func TestFiltersSelect(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{})
	key := func(k string) func(*broker.NewJob) { return func(j *broker.NewJob) { j.Body.Key = k } }
	s.enqueue("mail", "m1", "email:welcome", key("acme"))
	s.enqueue("mail", "m2", "email:invoice", key("zeta"))
	s.enqueue("post", "p1", "letter", key("acme"))
	s.die("mail", "d1", "email:welcome", "no route to host", key("acme"))
	s.die("mail", "d2", "email:welcome", "mailbox full")
	s.enqueue("mail", "late", "email:welcome", func(j *broker.NewJob) { j.Delay = time.Hour })
	s.worker("w1", 3, "post")
	s.claim("w1", "post", 1)
	if _, err := s.handler.inspector.Select(inspect.Query{Queue: "mail", IDs: []string{"d2"}}).Suppress(t.Context()); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		"":                                               "m1 m2", // pending jobs of all queues
		"state=pending&queue=mail":                       "m1 m2",
		"state=pending&queue=post":                       "",
		"state=pending&type=email:invoice":               "m2",
		"state=pending&key=acme":                         "m1",
		"state=any&key=acme":                             "m1 d1 p1",
		"state=active":                                   "p1",
		"worker=w1":                                      "p1",
		"state=scheduled":                                "late",
		"state=dead":                                     "d1",
		"state=dead&suppressed=1":                        "d1 d2",
		"state=dead&error=route":                         "d1",
		"state=dead&error=mailbox":                       "",
		"state=dead&reason=skip_retry":                   "d1",
		"state=dead&reason=expired":                      "",
		"state=dead&newer=1h":                            "d1",
		"state=dead&older=1h":                            "",
		"state=pending&older=7d":                         "",
		"state=pending&newer=1d12h&queue=mail":           "m1 m2",
		"state=completed":                                "",
		"state=dead&at=a&cursor=of-a-queue-that-is-gone": "d1",
		"state=pending&type=nothing&at=%00bogus":         "",
	} {
		page := s.get(200, "jobs?"+query)
		got := strings.Fields(rows(page))
		if len(got) != len(strings.Fields(want)) || strings.Join(sortedIDs(got), " ") != strings.Join(sortedIDs(strings.Fields(want)), " ") {
			t.Errorf("%s lists %q, want %q", query, got, want)
		}
	}
	for query, problem := range map[string]string{
		"state=asleep":                                  "is none of",
		"state=any":                                     "give one of them",
		"state=pending&older=soon":                      "Older than",
		"state=dead&reason=spite":                       "no such reason",
		"state=pending&cursor=x&queue=mail&at=mail":     "cursor",
		"state=pending&key=" + strings.Repeat("k", 300): "limit",
	} {
		has(t, s.get(400, "jobs?"+query), problem, `id="filters"`)
	}
	// The form shows the filter of the URL.
	has(t, s.get(200, "jobs?state=dead&queue=mail&type=email:welcome&error=a%22b&key=acme&older=1s&suppressed=1"), `value="a&#34;b"`,
		`value="acme"`, `<option value="mail" selected>mail</option>`,
		"<option selected>dead</option>", `value="1s"`, `name="suppressed" value="1" checked`)
}

func sortedIDs(s []string) []string {
	out := append([]string(nil), s...)
	for i := range out {
		for j := i + 1; j < len(out); j++ {
			if out[j] < out[i] {
				out[i], out[j] = out[j], out[i]
			}
		}
	}
	return out
}

func TestSearch_AnIDIsFoundInAnyQueue(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{})
	s.enqueue("mail", "both", "email")
	s.enqueue("post", "both", "letter")
	s.enqueue("post", "one", "letter")
	if to := s.get(303, "jobs?id=one"); to != "job?id=one&queue=post" {
		t.Errorf("it leads to %s", to)
	}
	if got := rows(s.get(200, "jobs?id=both")); got != "both both" {
		t.Errorf("an ID in two queues shows %q", got)
	}
	has(t, s.get(200, "jobs?id=none"), "No job matches")
	has(t, s.get(200, "jobs?state=completed&queue=mail"), "No completed job is kept in this queue.")
}

// A store can have more queues than a page of a search examines.
func TestSearch_AnIDIsFoundAmongManyQueues(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Authorize: everything})
	for n := range 3 * pageFinds {
		s.enqueue(fmt.Sprintf("queue-%02d", n), fmt.Sprintf("job-%02d", n), "email")
	}
	if to := s.get(303, "jobs?id=job-29"); to != "job?id=job-29&queue=queue-29" {
		t.Errorf("it leads to %s", to)
	}
	s.enqueue("queue-00", "same", "email")
	s.enqueue("queue-29", "same", "email")
	page := s.get(200, "jobs?id=same")
	if got := rows(page); got != "same same" {
		t.Errorf("an ID in two queues shows %q", got)
	}
	has(t, page, "2 shown.")
	has(t, s.post(400, "act?id=same&state=pending", url.Values{"verb": {"delete"}}), "No job is checked")
}

// A form without the chosen queue would search, and decide about, all queues.
func TestSearch_TheFormKeepsTheChosenQueue(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{})
	for n := range maxChoices {
		s.enqueue(fmt.Sprintf("queue-%03d", n), "job", "email")
	}
	s.enqueue("the-last", "job", "email")
	for _, page := range []string{"jobs?state=pending&queue=the-last", "dead?queue=the-last"} {
		has(t, s.get(200, page), `<option value="the-last" selected>`)
	}
	has(t, s.get(200, "jobs?state=pending&queue=gone"), `<option value="gone" selected>`)
}

func TestSearch_EveryJobIsOnSomePage(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{})
	const each = 130
	for _, queue := range []string{"a", "b", "c"} {
		for i := range each {
			s.enqueue(queue, fmt.Sprintf("%s-%03d", queue, i), "email")
		}
	}
	seen := make(map[string]bool)
	next := "jobs?state=pending"
	for pages := 0; next != ""; pages++ {
		page := s.get(200, next)
		for _, id := range strings.Fields(rows(page)) {
			seen[id] = true
		}
		next = nextPage(page)
		if pages > 20 {
			t.Fatal("the pages do not end")
		}
	}
	if len(seen) != 3*each {
		t.Errorf("%d jobs were shown, want %d", len(seen), 3*each)
	}
}

var nextLink = regexp.MustCompile(`id="next" href="([^"]*)"`)

func nextPage(page string) string {
	if m := nextLink.FindStringSubmatch(page); m != nil {
		return strings.ReplaceAll(m[1], "&amp;", "&")
	}
	return ""
}

// A page takes no more calls with a large store than with a small one.
func TestSearch_NoPageScansAQueue(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Authorize: everything})
	s.flood(15_000) // more pending and dead jobs than a page examines
	for _, c := range []struct {
		path  string
		finds int // at most
	}{
		{"", 0},
		{"queues", 0},
		{"queue?name=flood", 0},
		{"workers", 0},
		{"jobs?state=pending", 1},
		{"jobs?state=pending&type=nothing", pageFinds},
		{"jobs?state=pending&error=nothing&queue=flood", pageFinds},
		{"jobs?state=dead", 1},
		{"job?queue=flood&id=dead-00001", 1},
		{"dead", sampleFinds},
		{"dead?error=nothing", sampleFinds},
	} {
		s.get(200, c.path) // warm up
		s.faults.Set(nil)
		page := s.get(200, c.path, "HX-Request", "true")
		if n := s.faults.Calls("Find"); n > c.finds {
			t.Errorf("%q makes %d calls of Find, want %d at most", c.path, n, c.finds)
		}
		if n := s.faults.Calls(""); n > c.finds+1 { // plus one look at the counters
			t.Errorf("%q makes %d calls, want %d at most", c.path, n, c.finds+1)
		}
		if len(page) > 1<<20 {
			t.Errorf("%q has %d bytes", c.path, len(page))
		}
	}
	has(t, s.get(200, "jobs?state=pending&type=nothing"), "No job matches on this page. There may be more",
		"at most 1,000 records of 1 queue examined. There is more.", "Continue")
	has(t, s.get(200, "dead"), "3,000 dead jobs by the counters", "2,000 of them", "Continue with the next",
		`href="dead?state=dead&amp;all=1"`)
	s.faults.Set(nil)
	has(t, s.get(200, "dead?all=1"), "3,000 dead jobs by the counters", "All of them are grouped", "<strong>3,000</strong>")
	if n := s.faults.Calls("Find"); n != 3000/allRecords {
		t.Errorf("grouping 3,000 jobs makes %d calls of Find, want %d", n, 3000/allRecords)
	}
}

// BenchmarkPages measures the live part of each page with 100,000 jobs.
func BenchmarkPages(b *testing.B) {
	s := newSite(b, Config{Authorize: everything, Interval: time.Hour})
	s.flood(100_000)
	for _, path := range []string{"", "queues", "queue?name=flood", "workers", "jobs?state=pending", "jobs?state=pending&type=nothing",
		"jobs?state=dead", "job?queue=flood&id=dead-00001", "dead"} {
		b.Run("/"+path, func(b *testing.B) {
			for b.Loop() {
				w := httptest.NewRecorder()
				s.handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/"+path, nil))
				if w.Code != 200 {
					b.Fatalf("%d: %s", w.Code, w.Body)
				}
			}
		})
	}
}

// flood adds n jobs to a queue, a fifth of them dead.
func (s *site) flood(n int) {
	s.t.Helper()
	ctx := context.Background()
	for from := 0; from < n; from += broker.MaxBatch {
		var batch []broker.NewJob
		for i := from; i < min(n, from+broker.MaxBatch); i++ {
			j := broker.NewJob{Queue: "flood", ID: fmt.Sprintf("job-%06d", i), Body: broker.Body{Type: "email", Priority: broker.PriorityNormal}}
			if i < n/5 {
				j.ID, j.Body.Priority = fmt.Sprintf("dead-%05d", i), broker.PriorityUrgent
			}
			batch = append(batch, j)
		}
		if _, err := s.store.Enqueue(ctx, broker.EnqueueRequest{Jobs: batch}); err != nil {
			s.t.Fatal(err)
		}
	}
	s.worker("reaper", 1000, "flood")
	for killed := 0; killed < n/5; {
		held := s.claim("reaper", "flood", min(broker.MaxClaim, n/5-killed))
		s.settle("reaper", held, broker.Die(broker.ReasonRetries,
			broker.Failure{At: time.Now(), Message: fmt.Sprintf("shard %d is away", killed)}))
		killed += len(held)
	}
}

// A queue with many dead jobs does not hide those of the others.
func TestSearch_DeadJobsAreOfEachQueueInTurn(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{})
	s.flood(10_000) // 2,000 dead jobs
	s.die("zebra", "z", "letter", "no such street")
	s.faults.Set(nil)
	page := s.get(200, "dead")
	has(t, page, "no such street", "There are more in", `href="dead?queue=flood"`)
	if n := s.faults.Calls("Find"); n > sampleFinds {
		t.Errorf("the page makes %d calls of Find, want %d at most", n, sampleFinds)
	}
	hasNot(t, s.get(200, "dead?queue=zebra"), "There is more")
}

func TestSearch_DeadJobsAreGroupedByWhatTheyDiedOf(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Authorize: everything})
	for i := range 6 {
		s.die("mail", fmt.Sprintf("m%d", i), "email", fmt.Sprintf("user %d has no <address>", i))
	}
	s.die("mail", "x", "email", "mailbox full")
	s.die("post", "y", "letter", "user 7 has no <address>")
	page := s.get(200, "dead")
	has(t, page, "8 dead jobs by the counters", "user # has no &lt;address&gt;", "<strong>6</strong>", "mailbox full", "75 %", "m5", "m3")
	if strings.Count(page, `<li class="group">`) != 3 {
		t.Errorf("there are %d groups, want 3", strings.Count(page, `<li class="group">`))
	}
	has(t, s.get(200, "dead?queue=post"), "1 dead job by the counters", "letter")
	hasNot(t, s.get(200, "dead?queue=post"), "mailbox full")

	group := url.Values{"state": {"dead"}, "of-type": {"email"}, "like": {"user # has no <address>"}}
	has(t, page, strings.ReplaceAll(strings.ReplaceAll("confirm?"+group.Encode(), "&", "&amp;"), "+", "&#43;"))
	s.follow(s.post(303, "bulk?"+group.Encode(), url.Values{"verb": {"redrive"}}))
	s.ended(1)
	has(t, s.get(200, "work"), "6 done", "Finished.", "errors like: user # has no &lt;address&gt;", "tester")
	for _, c := range []struct {
		queue, id string
		want      broker.State
	}{{"mail", "m0", broker.StatePending}, {"mail", "m5", broker.StatePending}, {"mail", "x", broker.StateDead},
		{"post", "y", broker.StateDead}} {
		if j := s.find(c.queue, c.id); j.State != c.want {
			t.Errorf("%s is %s, want %s", c.id, j.State, c.want)
		}
	}
	has(t, s.log.String(), "an operation ended", "done=6")
}

func TestSearch_SuppressedJobsWaitForNobody(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{})
	for _, queue := range []string{"mail", "post"} {
		s.die(queue, "a", "email", "no route to host")
	}
	s.die("mail", "b", "email", "mailbox full")
	for queue, ids := range map[string][]string{"mail": {"b"}, "post": {"a"}} {
		if _, err := s.handler.inspector.Select(inspect.Query{Queue: queue, IDs: ids}).Suppress(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	page := s.get(200, "")
	has(t, page, "1 dead job in the queue mail waits for a decision", "2 suppressed")
	hasNot(t, page, "in the queue post wait for a decision")
	has(t, s.get(200, "queue?name=mail"), "1 suppressed")
	has(t, s.get(200, "dead"), "1 dead job by the counters", "2 suppressed ones are left out")
}
