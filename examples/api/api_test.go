package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs/jobstest"
)

// ask sends a request to the API and returns its answer.
func ask(t *testing.T, api http.Handler, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	api.ServeHTTP(w, r)
	return w
}

func TestAPI_AReportIsAcceptedMadeAndFetched(t *testing.T) {
	t.Parallel()
	b := jobstest.New(t)
	api := API(b.Client(), b, http.NotFoundHandler())
	accepted := ask(t, api, "POST", "/reports", `{"year": 2026}`, "Idempotency-Key", "abc")
	again := ask(t, api, "POST", "/reports", `{"year": 2026}`, "Idempotency-Key", "abc")
	location := accepted.Header().Get("Location")
	if accepted.Code != 202 || again.Code != 202 || location != again.Header().Get("Location") {
		t.Errorf("it answers %d %q, and the same again %d %q; want 202 and one place",
			accepted.Code, location, again.Code, again.Header().Get("Location"))
	}
	jobstest.Enqueued(t, b, MakeReport, jobstest.Args(Report{Year: 2026})) // one
	if w := ask(t, api, "GET", location, ""); w.Code != 200 || !strings.Contains(w.Body.String(), `"state":"pending"`) {
		t.Errorf("before it is made: %d %q", w.Code, w.Body)
	}
	jobstest.Drain(t, b, Handlers())
	if w := ask(t, api, "GET", location, ""); w.Code != 200 || !strings.Contains(w.Body.String(), `"done":12,"of":12,"result":{"orders":`) {
		t.Errorf("when it is made: %d %q", w.Code, w.Body)
	}
}

func TestAPI_RefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	b := jobstest.New(t)
	api := API(b.Client(), b, http.NotFoundHandler())
	for _, c := range []struct {
		method, path, body string
		want               int
	}{
		{"POST", "/reports", `{"year": 1900}`, 400},
		{"POST", "/reports", `{`, 400},
		{"GET", "/reports/none", "", 404},
	} {
		if w := ask(t, api, c.method, c.path, c.body); w.Code != c.want {
			t.Errorf("%s %s %s answers %d, want %d", c.method, c.path, c.body, w.Code, c.want)
		}
	}
	if w := ask(t, api, "POST", "/reports", `{"year": 2026}`, "Idempotency-Key", strings.Repeat("x", 300)); w.Code != 400 {
		t.Errorf("a key that is too long answers %d, want 400", w.Code)
	}
	b.FailCall("Enqueue", 1)
	b.FailCall("Enqueue", 2)
	b.FailCall("Enqueue", 3) // the client tries three times
	if w := ask(t, api, "POST", "/reports", `{"year": 2026}`); w.Code != 503 {
		t.Errorf("without a store it answers %d, want 503", w.Code)
	}
	jobstest.NotEnqueued(t, b, MakeReport)
}

func TestRun_ServesAndEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	address := make(chan string, 1)
	go func() {
		ended <- run(ctx, "127.0.0.1:0", func(format string, args ...any) {
			address <- strings.TrimPrefix(fmt.Sprintf(format, args...), "api: serving on ")
		})
	}()
	resp, err := http.Post(<-address+"/reports", "application/json", strings.NewReader(`{"year": 2026}`))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if err := <-ended; err != nil || resp.StatusCode != 202 {
		t.Errorf("it answers %d and ends with %v", resp.StatusCode, err)
	}
}

// A stop that waited for requests first would take longer than the grace of an orchestrator.
func TestEnd_RequestsAndJobsAtOnce(t *testing.T) {
	t.Parallel()
	draining := make(chan struct{})
	err := end(func(ctx context.Context) error {
		select {
		case <-draining:
		case <-ctx.Done():
			t.Error("the drain did not begin while requests were ending")
		}
		return nil
	}, func(context.Context) error {
		close(draining)
		return errors.New("a handler is left")
	})
	if err == nil || err.Error() != "a handler is left" {
		t.Errorf("it ends with %v, not with the error of the drain", err)
	}
}
