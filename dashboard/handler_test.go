package dashboard

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

func TestHandler_PagesShowTheStore(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Title: "shop"})
	s.fill()
	if err := s.handler.inspector.Pause(t.Context(), "reports"); err != nil {
		t.Fatal(err)
	}
	overview := s.get(200, "")
	has(t, overview, "<title>Overview · shop</title>", "The queue reports is paused", "9 dead jobs in the queue mail",
		`href="queue?name=mail"`, `href="jobs?queue=mail&amp;state=dead"`, "6 of 14", "Read-only")
	queues := s.get(200, "queues")
	has(t, queues, ">3 queues.", ">mail<", ">images<", ">paused<")
	has(t, s.get(200, "queues?search=MAI"), "1 of 3 queues", ">mail<")
	queue := s.get(200, "queue?name=mail")
	has(t, queue, "Queue mail", "01J9WORKERA", "6 / 10", "Maximum depth", "no limit", ">34<")
	hasNot(t, queue, "<button id=\"pause\"", "Save rules", `method="post"`)
	has(t, s.get(200, "workers"), "01J9WORKERA", "01J9WORKERB", "app-7.example", "shop v1.4.2", "3h ago")
	worker := s.get(200, "workers?worker=01J9WORKERA")
	has(t, worker, "email:welcome", "Running for", "6 of 10")
	has(t, s.get(200, "workers?worker=gone"), "not alive any more")
	has(t, s.get(404, "nothing"), "no such page")
	if page := s.get(404, "queues/mail"); strings.Contains(page, "<") {
		t.Errorf("below a page, where relative links lead nowhere, the answer is a page:\n%s", page)
	}
	has(t, s.get(404, "queue?name=nothing"), "no such job or queue")
	has(t, s.get(404, "job?queue=mail&id=nothing"), "no such job or queue")
	s.get(404, "static/nothing.js")
	s.send(405, http.MethodPut, "", nil)
}

func TestHandler_AWorkersPageSaysForHowLongItRunsWhat(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{})
	for _, id := range []string{"another", "nightly", "quick"} {
		s.enqueue("mail", id, "report")
	}
	s.worker("w", 5, "mail") // it reports the job nightly
	s.claim("w", "mail", 3)
	page := s.get(200, "workers?worker=w")
	has(t, page, ">2h<", ">just started<")
	if first, other := strings.Index(page, "nightly"), strings.Index(page, "another"); first > other {
		t.Error("the job that has run for two hours is not the first")
	}
}

func TestHandler_AJobsPageTellsItsLife(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{TraceURL: "https://traces.example/t/{trace}?x"})
	s.enqueue("mail", "a", "email:welcome", func(j *broker.NewJob) {
		j.Body.Headers = map[string]string{"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "region": "eu"}
		j.Body.Key, j.Body.Source, j.Body.CorrelationID = "acme", "shop-api", "order-7"
		j.Body.Unique = broker.Unique{Key: "welcome:7"}
	})
	has(t, s.get(200, "job?queue=mail&id=a"), "no live worker serves the queue mail", "Why it has not run", ">pending<", "acme", "shop-api",
		"order-7", "welcome:7", ">region<", ">eu<",
		`href="https://traces.example/t/4bf92f3577b34da6a3ce929d0e0e4736?x"`, "not shown here")
	s.worker("w", 1, "mail")
	s.settle("w", s.claim("w", "mail", 1), broker.Retry(time.Hour,
		broker.Failure{At: time.Now(), Class: "retryable", Code: "smtp-421", Message: "try later", Stack: "goroutine 1", Worker: "w",
			Version: "v9"}))
	has(t, s.get(200, "job?queue=mail&id=a"), "Attempt 1 failed: retryable", "try later", "smtp-421", "goroutine 1", "v9", "Next run due",
		"1 (3 retries allowed)", `data-code="not-due"`)

	s.die("mail", "b", "email:welcome", "no route")
	has(t, s.get(200, "job?queue=mail&id=b"), "What happened to it", "no route", "Dead: skip_retry")
	s.enqueue("mail", "c", "email:welcome", func(j *broker.NewJob) { j.Body.Retention = time.Hour })
	s.settle("w", s.claim("w", "mail", 1), broker.Complete([]byte("done")))
	has(t, s.get(200, "job?queue=mail&id=c"), "it completed", "Completed</strong>")
}

func TestHandler_TheHandlerMountsAnywhere(t *testing.T) {
	t.Parallel()
	b := membroker.New()
	defer b.Close()
	handler := func(cfg Config) http.Handler {
		h, err := New(inspect.New(b), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { h.Close() })
		return h
	}
	stripped, prefixed, root := http.NewServeMux(), http.NewServeMux(), handler(Config{})
	stripped.Handle("/ops/jobs/", http.StripPrefix("/ops/jobs", handler(Config{})))
	prefixed.Handle("/ops/jobs/", handler(Config{Prefix: "/ops/jobs/"}))
	bare := http.StripPrefix("/ops/jobs", handler(Config{})) // without a mux, which would add a slash
	for _, c := range []struct {
		name   string
		h      http.Handler
		path   string
		status int
		to     string
	}{
		{"root", root, "/", 200, ""},
		{"root", root, "/queues", 200, ""},
		{"root", root, "/static/app.css", 200, ""},
		{"stripped", stripped, "/ops/jobs/", 200, ""},
		{"stripped", stripped, "/ops/jobs/queues", 200, ""},
		{"stripped", stripped, "/ops/jobs/static/app.css", 200, ""},
		{"prefixed", prefixed, "/ops/jobs/", 200, ""},
		{"prefixed", prefixed, "/ops/jobs/queues", 200, ""},
		{"prefixed", prefixed, "/ops/jobs", 307, "/ops/jobs/"},
		{"bare", bare, "/ops/jobs?notice=1", 303, "./jobs/?notice=1"},
		{"not stripped", root, "/ops/jobs/queues", 404, ""},
		{"elsewhere", handler(Config{Prefix: "/ops"}), "/queues", 404, ""},
		{"alike", handler(Config{Prefix: "/ops"}), "/opsqueues", 404, ""},
	} {
		w := httptest.NewRecorder()
		c.h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, c.path, nil))
		if w.Code != c.status || c.to != "" && w.Header().Get("Location") != c.to {
			t.Errorf("%s: %s answers %d to %q, want %d to %q", c.name, c.path, w.Code, w.Header().Get("Location"), c.status, c.to)
		}
		for _, link := range []string{`href="/`, `src="/`, `action="/`} {
			if w.Code == 200 && strings.Contains(w.Body.String(), link) {
				t.Errorf("%s: %s has a link that leaves its prefix: %s", c.name, c.path, link)
			}
		}
	}
}

func TestHandler_AWrongConfigurationIsRefused(t *testing.T) {
	t.Parallel()
	b := membroker.New()
	defer b.Close()
	for name, cfg := range map[string]Config{
		"interval":  {Interval: time.Millisecond},
		"prefix":    {Prefix: "ops"},
		"script":    {TraceURL: "javascript:alert({trace})"},
		"no place":  {TraceURL: "https://traces.example/"},
		"no scheme": {TraceURL: "//traces.example/{trace}"},
	} {
		if _, err := New(inspect.New(b), cfg); !errors.Is(err, broker.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New(nil, Config{}); !errors.Is(err, broker.ErrInvalid) {
		t.Errorf("without an inspector: %v", err)
	}
}

func TestHandler_EveryAnswerForbidsWhatPagesDoNotNeed(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{})
	for _, path := range []string{"", "jobs", "static/app.js", "nothing", "history"} {
		resp, err := s.client.Get(s.url + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		for name, want := range map[string]string{"Content-Security-Policy": "default-src 'none'", "X-Frame-Options": "DENY",
			"Cross-Origin-Resource-Policy": "same-origin",
			"X-Content-Type-Options":       "nosniff",
			"Referrer-Policy":              "same-origin", "Cache-Control": "no-store"} {
			if got := resp.Header.Get(name); !strings.Contains(got, want) {
				t.Errorf("%s: %s is %q, want %q in it", path, name, got, want)
			}
		}
		if policy := resp.Header.Get("Content-Security-Policy"); strings.Contains(policy, "unsafe") ||
			!strings.Contains(policy, "frame-ancestors 'none'") {
			t.Errorf("%s: the content policy is %q", path, policy)
		}
	}
	page := s.get(200, "")
	hasNot(t, page, " style=", "<style", " onclick=", "http://", "https://")
	at := strings.Index(page, "static/app.css?v=")
	resp, err := s.client.Get(s.url + page[at:at+len("static/app.css?v=")+12])
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if cache := resp.Header.Get("Cache-Control"); !strings.Contains(cache, "immutable") {
		t.Errorf("an asset is kept as %q; its address changes with it", cache)
	}
}

func TestHandler_AClosedHandlerRefuses(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Authorize: everything})
	ended, began := make(chan error, 1), make(chan bool, 100)
	go func() { ended <- s.listen(t.Context(), func(tick) bool { began <- true; return false }) }()
	<-began
	if err := errors.Join(s.handler.Close(), s.handler.Close()); err != nil {
		t.Error(err)
	}
	select {
	case <-ended:
	case <-time.After(hung):
		t.Error("a page still listens after Close")
	}
	has(t, s.get(503, ""), "closed")
	s.get(503, "events")
	s.post(503, "pause?queue=a", nil)
}

func TestHandler_AWorkerThatFellSilentIsNotCountedOn(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{})
	s.enqueue("mail", "a", "email")
	_, err := s.store.Renew(t.Context(), broker.RenewRequest{Worker: "w", Queues: []string{"mail"}, Lease: time.Minute, Register: true,
		Now:  time.Now().Add(-time.Hour),
		Info: broker.WorkerInfo{ID: "w", Concurrency: 5, Queues: []string{"mail"}}})
	if err != nil {
		t.Fatal(err)
	}
	has(t, s.get(200, ""), "No live worker serves the queue mail", "0 of 0", ">no worker<")
	has(t, s.get(200, "workers"), ">silent<")
}

// A worker may hold more jobs than it has slots: it prefetches some.
func TestSlots_NoMoreAreTakenThanThereAre(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{})
	s.worker("w", 2, "mail")
	for i := range 5 {
		s.enqueue("mail", fmt.Sprint(i), "email")
	}
	s.claim("w", "mail", 5)
	s.handler.poller.changed()
	has(t, s.get(200, ""), "2 of 2", "2 / 2")
	has(t, s.get(200, "queue?name=mail"), "2 of 2", "2 / 2 + 3")
	has(t, s.get(200, "workers"), "2 / 2 + 3")
	has(t, s.get(200, "workers?worker=w"), "2 of 2, and 3 prefetched")
	for _, page := range []string{"", "queue?name=mail", "workers", "workers?worker=w"} {
		hasNot(t, s.get(200, page), "5 of 2", "5 / 2")
	}
}

func TestHandler_JobsThatAreHeldAreShown(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{})
	s.enqueue("mail", "a", "email")
	hasNot(t, s.get(200, "jobs"), "state=waiting")
	_, err := s.store.Operate(t.Context(), broker.Operation{Kind: broker.OpHold, Holder: "the move to other",
		Refs: []broker.Ref{{Queue: "mail", ID: "a", Epoch: broker.AnyEpoch}}})
	if err != nil {
		t.Fatal(err)
	}
	s.handler.poller.changed()
	has(t, s.get(200, "jobs?state=waiting"), ">a<", ">waiting<", "state=waiting")
	has(t, s.get(200, "job?queue=mail&id=a"), "the move to other", "Held: was pending")
	has(t, s.get(200, "queue?name=mail"), "state=waiting")
}

func TestHandler_LinksOfTheHost(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Links: []Link{{Text: "Runbook <1>", URL: "https://runbooks.example/jobs?a=1&b=2"}, {Text: "Home", URL: "../"}}})
	has(t, s.get(200, ""), `href="https://runbooks.example/jobs?a=1&amp;b=2"`, "Runbook &lt;1&gt;", `href="../"`)
	for _, bad := range []Link{{Text: "x", URL: "javascript:alert(1)"}, {Text: "x"}, {URL: "home"}} {
		if _, err := New(s.handler.inspector, Config{Links: []Link{bad}}); !errors.Is(err, broker.ErrInvalid) {
			t.Errorf("New with the link %+v: %v, want ErrInvalid", bad, err)
		}
	}
}

func TestQueues_AreSortedByEachHead(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{})
	for n, queue := range []string{"b", "c", "a"} {
		for i := range []int{1, 12, 3}[n] {
			s.enqueue(queue, fmt.Sprint(i), "x")
		}
	}
	order := func(path string) (names string) {
		for _, found := range regexp.MustCompile(`<th scope="row"><a href="queue\?name=(.)"`).FindAllStringSubmatch(s.get(200, path), -1) {
			names += found[1]
		}
		return names
	}
	for sort, want := range map[string]string{"": "abc", "name": "abc", "-name": "cba", "-pending": "cab", "pending": "bac",
		"-dead": "abc", "nonsense": "abc"} {
		if got := order("queues?sort=" + sort); got != want {
			t.Errorf("sorted by %q the queues are %s, want %s", sort, got, want)
		}
	}
	has(t, s.get(200, "queues?sort=-pending&search=b"),
		`aria-sort="descending"><a class="sort" href="queues?search=b&amp;sort=pending">Pending`)
}

// Many queues with the same trouble share one line.
func TestOverview_OneLineSaysWhatManyQueuesLack(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{})
	for n := range 30 {
		s.enqueue(fmt.Sprintf("tenant-%02d", n), "a", "x")
		if n < 3 {
			s.die(fmt.Sprintf("tenant-%02d", n), "d", "x", "no")
		}
	}
	s.enqueue("tenant-17", "b", "x")
	page := s.get(200, "")
	has(t, page, "No live worker serves 30 queues, and 31 jobs are waiting: tenant-17, tenant-00, tenant-01 and 27 more.",
		"1 dead job in the queue tenant-02 waits for a decision.")
	if n := strings.Count(page, `<span class="what">`); n != 4 {
		t.Errorf("%d things need attention, want 4: of 30 queues in a line, and of 3 in a line each", n)
	}
}

// A search ends after ten queues; that for the jobs of a worker must reach the worker's own.
func TestHandler_AWorkersJobsAreShownAmongManyBusyQueues(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{})
	var queues []string
	for n := range 2 * pageFinds {
		queues = append(queues, fmt.Sprintf("busy-%02d", n))
	}
	s.worker("busy", 2*pageFinds, queues...)
	s.worker("late", 1, "the-last")
	for n, queue := range queues {
		s.enqueue(queue, fmt.Sprint(n), "email")
		s.claim("busy", queue, 1)
	}
	s.enqueue("the-last", "its-job", "email")
	s.claim("late", "the-last", 1)
	page := s.get(200, "workers?worker=late")
	has(t, page, "its-job")
	hasNot(t, page, "There are more")
}
