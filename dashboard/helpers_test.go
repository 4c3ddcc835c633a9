package dashboard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance/faulty"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/internal/testenv"
	"github.com/seed81422ce9/jobs/schedule"
	"github.com/seed81422ce9/jobs/workflow"
)

// site is a dashboard on its own server, over a store that can fail and counts its
// calls.
type site struct {
	t       testing.TB
	store   broker.Broker // without faults, and not counted
	faults  *faulty.Broker
	handler *Handler
	url     string // ends with a slash
	log     *lines
	server  *httptest.Server
	client  *http.Client // with connections of its own: a server that closes breaks those of http.DefaultClient
	away    atomic.Bool  // the dashboard does not answer
	number  int64        // number of settles
}

// lines is a log that tests read.
type lines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// everything permits every action to a user named tester.
func everything(*http.Request, Action) (string, error) { return "tester", nil }

func newSite(t testing.TB, cfg Config) *site { return siteOf(t, membroker.New(), cfg) }

func siteOf(t testing.TB, store broker.Broker, cfg Config) *site {
	t.Helper()
	s := &site{t: t, store: store, faults: faulty.Wrap(store, nil), log: new(lines)}
	cfg.Logger = slog.New(slog.NewTextHandler(s.log, nil))
	if cfg.Interval == 0 {
		cfg.Interval = 250 * time.Millisecond
	}
	cfg.Schedules = schedule.New(s.faults, "shop")
	cfg.Workflows = jobs.NewClient(s.faults, jobs.ClientConfig{})
	h, err := New(inspect.New(s.faults), cfg)
	if err != nil {
		t.Fatal(err)
	}
	h.allTime = time.Minute // a slow machine must not change what pages show
	s.handler = h
	mux := http.NewServeMux()
	mux.Handle("/ops/jobs/", http.StripPrefix("/ops/jobs", h))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.away.Load() {
			panic(http.ErrAbortHandler)
		}
		mux.ServeHTTP(w, r)
	}))
	s.server = server
	s.client = server.Client()
	s.url = server.URL + "/ops/jobs/"
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		server.Close()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// enqueue stores a job, after change.
func (s *site) enqueue(queue, id, typ string, change ...func(*broker.NewJob)) {
	s.t.Helper()
	j := broker.NewJob{Queue: queue, ID: id, Body: broker.Body{Type: typ, Priority: broker.PriorityNormal, MaxRetries: 3}}
	for _, f := range change {
		f(&j)
	}
	receipts, err := s.store.Enqueue(context.Background(), broker.EnqueueRequest{Jobs: []broker.NewJob{j}})
	if err == nil {
		err = receipts[0].Err
	}
	if err != nil {
		s.t.Fatalf("enqueueing %q: %v", id, err)
	}
}

// workflow starts a workflow; nothing runs it.
func (s *site) workflow(id string, parts ...workflow.Part) {
	s.t.Helper()
	client := jobs.NewClient(s.store, jobs.ClientConfig{})
	defer client.Close()
	if err := workflow.Start(context.Background(), client, workflow.New(id).Add(parts...)); err != nil {
		s.t.Fatal(err)
	}
}

// order starts the workflow of allPages.
func (s *site) order() {
	s.workflow("order-42", workflow.Chain(step("reserve"), step("charge"), workflow.Group(step("ship"), step("thank"))))
}

// step returns a node of a workflow.
func step(name string) workflow.Node {
	return workflow.Node{Name: name, Task: jobs.NewTask("order:"+name, []byte("secret"), jobs.WithQueue("orders"))}
}

// schedule stores a schedule.
func (s *site) schedule(id string, spec schedule.Spec, opts ...schedule.Option) {
	s.t.Helper()
	task := jobs.NewTask("report:monthly", []byte("secret"), jobs.WithQueue("reports"))
	if _, err := schedule.New(s.store, "shop").Put(context.Background(), id, spec, task, opts...); err != nil {
		s.t.Fatal(err)
	}
}

// worker registers a worker, or renews it.
func (s *site) worker(id string, slots int, queues ...string) {
	s.t.Helper()
	_, err := s.store.Renew(context.Background(), broker.RenewRequest{Worker: id, Queues: queues, Lease: time.Hour, Register: true,
		Info: broker.WorkerInfo{ID: id, Host: "app-7.example", PID: 4711, Program: "shop v1.4.2", Concurrency: slots, Queues: queues,
			StartedAt: time.Now().Add(-3 * time.Hour),
			Longest:   []broker.Running{{Queue: queues[0], ID: "nightly", Since: time.Now().Add(-2 * time.Hour)}}}})
	if err != nil {
		s.t.Fatal(err)
	}
}

// claim lets a worker claim up to n jobs of a queue.
func (s *site) claim(worker, queue string, n int) []broker.Job {
	s.t.Helper()
	claimed, err := s.store.Claim(context.Background(),
		broker.ClaimRequest{Worker: worker, Queues: []broker.Share{{Queue: queue, Max: n}}, Max: n})
	if err != nil {
		s.t.Fatal(err)
	}
	return claimed.Jobs
}

// settle settles jobs that a worker holds.
func (s *site) settle(worker string, held []broker.Job, outcome broker.Outcome) {
	s.t.Helper()
	s.number++
	req := broker.SettleRequest{Worker: worker, Number: s.number}
	for i := range held {
		req.Items = append(req.Items, broker.Settlement{Job: &held[i], Outcome: outcome})
	}
	verdicts, err := s.store.Settle(context.Background(), req)
	for _, v := range verdicts {
		err = errors.Join(err, v.Err)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// die enqueues a job and makes it dead with an error message.
func (s *site) die(queue, id, typ, message string, change ...func(*broker.NewJob)) {
	s.t.Helper()
	s.enqueue(queue, id, typ, append(change, func(j *broker.NewJob) { j.Body.Priority = broker.PriorityUrgent })...)
	s.worker("undertaker-"+id, 1, queue)
	s.settle("undertaker-"+id, s.claim("undertaker-"+id, queue, 1),
		broker.Die(broker.ReasonSkipRetry, broker.Failure{At: time.Now(), Class: "permanent", Message: message, Worker: "undertaker"}))
	if _, err := s.store.Retire(context.Background(), broker.RetireRequest{Worker: "undertaker-" + id, Queues: []string{queue}}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) find(queue, id string) *broker.Job {
	s.t.Helper()
	page, err := s.store.Find(context.Background(), broker.Query{Queue: queue, IDs: []string{id}, Suppressed: true})
	if err != nil {
		s.t.Fatal(err)
	}
	if len(page.Jobs) == 0 {
		return &broker.Job{}
	}
	return &page.Jobs[0]
}

// get requests a page and checks the status.
func (s *site) get(status int, path string, headers ...string) string {
	s.t.Helper()
	return s.send(status, http.MethodGet, path, nil, headers...)
}

// post sends a form as a page of the site would.
func (s *site) post(status int, path string, form url.Values, headers ...string) string {
	s.t.Helper()
	return s.send(status, http.MethodPost, path, form, append([]string{"Sec-Fetch-Site", "same-origin"}, headers...)...)
}

// send sends a request without following redirects. For a redirect it returns the URL.
func (s *site) send(status int, method, path string, form url.Values, headers ...string) string {
	s.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, s.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		s.t.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := s.client.Transport.RoundTrip(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if resp.StatusCode != status {
		s.t.Errorf("%s %s answers %d, want %d:\n%.2000s", method, path, resp.StatusCode, status, body)
	}
	if to := resp.Header.Get("Location"); to != "" {
		return to
	}
	return string(body)
}

// has checks that a page has each of the texts.
func has(t *testing.T, page string, wanted ...string) {
	t.Helper()
	for _, w := range wanted {
		if !strings.Contains(page, w) {
			t.Errorf("the page lacks %q:\n%.3000s", w, body(page))
		}
	}
}

// hasNot checks that a page has none of the texts.
func hasNot(t *testing.T, page string, unwanted ...string) {
	t.Helper()
	for _, w := range unwanted {
		if strings.Contains(page, w) {
			t.Errorf("the page has %q:\n%.3000s", w, body(page))
		}
	}
}

// body returns the part of a page that differs between pages.
func body(page string) string {
	if _, after, ok := strings.Cut(page, "</header>"); ok {
		return after
	}
	return page
}

// eventually waits until f returns "", or fails with the last text that it returned.
func eventually(t testing.TB, f func() string) {
	t.Helper()
	var last string
	testenv.Eventually(t, "nothing is wrong", func() bool { last = f(); return last == "" }, func() string { return last })
}

// fill fills the store as on a working day.
func (s *site) fill() {
	s.t.Helper()
	at := time.Now()
	for i := range 40 {
		s.enqueue("mail", fmt.Sprintf("mail-%03d", i), "email:welcome", func(j *broker.NewJob) { j.Body.Key = fmt.Sprintf("tenant-%d", i%3) })
	}
	for i := range 12 {
		s.enqueue("reports", fmt.Sprintf("report-%03d", i), "report:monthly", func(j *broker.NewJob) { j.Delay = time.Duration(i+1) * time.Hour })
	}
	for i := range 5 {
		s.enqueue("images", fmt.Sprintf("image-%03d", i), "image:resize")
	}
	s.worker("01J9WORKERA", 10, "mail", "images")
	s.worker("01J9WORKERB", 4, "images")
	for i := range 9 {
		s.die("mail", fmt.Sprintf("dead-%03d", i), "email:welcome", fmt.Sprintf("dial tcp 10.0.%d.4:587: connection refused", i))
	}
	for i := range 4 {
		s.die("images", fmt.Sprintf("broken-%03d", i), "image:resize", fmt.Sprintf(`decoding "photo-%d.jpg": unexpected end of file`, i))
	}
	s.claim("01J9WORKERA", "mail", 6)
	failed := s.claim("01J9WORKERB", "images", 2)
	s.schedule("nightly-report", schedule.Cron("0 3 * * *", "Europe/Berlin"))
	s.schedule("leap-day", schedule.Cron("0 0 29 2 *", ""))
	s.schedule("every-minute", schedule.Every(time.Minute))
	s.settle("01J9WORKERB", failed, broker.Retry(5*time.Minute,
		broker.Failure{At: at, Class: "retryable", Code: "timeout", Message: "context deadline exceeded", Worker: "01J9WORKERB",
			Version: "v1.4.2"}))
}

// delayed delays a job.
func delayed(by time.Duration) func(*broker.NewJob) { return func(j *broker.NewJob) { j.Delay = by } }
