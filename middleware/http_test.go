package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/internal/chaintest"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/middleware"
)

func TestHttp_StatusesMeanWhatTheySay(t *testing.T) {
	t.Parallel()
	wait := http.Header{"Retry-After": {"7"}}
	for _, c := range []struct {
		status int
		header http.Header
		want   middleware.Finding
	}{
		{400, nil, middleware.Finding{Kind: middleware.Permanent, Code: "HTTP_400"}},
		{403, nil, middleware.Finding{Kind: middleware.Permanent, Code: "HTTP_403"}},
		{404, nil, middleware.Finding{Kind: middleware.Retryable, Code: "HTTP_404"}},
		{408, nil, middleware.Finding{Kind: middleware.Retryable, Code: "HTTP_408"}},
		{409, nil, middleware.Finding{Kind: middleware.Retryable, Code: "HTTP_409"}},
		{422, nil, middleware.Finding{Kind: middleware.Permanent, Code: "HTTP_422"}},
		{429, nil, middleware.Finding{Kind: middleware.RateLimited, Code: "HTTP_429"}},
		{429, wait, middleware.Finding{Kind: middleware.RateLimited, Code: "HTTP_429", RetryAfter: 7 * time.Second}},
		{500, wait, middleware.Finding{Kind: middleware.Retryable, Code: "HTTP_500", RetryAfter: 7 * time.Second}},
		{501, nil, middleware.Finding{Kind: middleware.Permanent, Code: "HTTP_501"}},
		{503, nil, middleware.Finding{Kind: middleware.Retryable, Code: "HTTP_503"}},
		{503, wait, middleware.Finding{Kind: middleware.RateLimited, Code: "HTTP_503", RetryAfter: 7 * time.Second}},
	} {
		if got := middleware.FindingOfHTTP(c.status, c.header); got != c.want {
			t.Errorf("status %d with %v is %+v, want %+v", c.status, c.header, got, c.want)
		}
	}
}

func TestHttp_RetryAfterIsReadInAllItsForms(t *testing.T) {
	t.Parallel()
	now := time.Now()
	date := func(t time.Time) string { return t.UTC().Format(http.TimeFormat) }
	const year = 365 * 24 * time.Hour
	for _, c := range []struct {
		value, date string
		min, max    time.Duration
	}{
		{value: "", max: 0},
		{value: "120", min: 2 * time.Minute, max: 2 * time.Minute},
		{value: " 120 ", min: 2 * time.Minute, max: 2 * time.Minute},
		{value: "0", max: 0},
		{value: "-5", max: 0},
		{value: "1.5", max: 0},
		{value: "soon", max: 0},
		{value: "18446744073709551615", min: 200 * year, max: 1<<63 - 1},
		{value: "99999999999999999999999999", min: 200 * year, max: 1<<63 - 1},
		{value: date(now.Add(time.Hour)), min: 58 * time.Minute, max: time.Hour},
		{value: date(now.Add(-time.Hour)), max: 0},
		// The server's clock is a day ahead: its own date tells.
		{value: date(now.Add(25 * time.Hour)), date: date(now.Add(24 * time.Hour)), min: time.Hour, max: time.Hour},
		{value: date(now.Add(time.Hour)), date: "nonsense", min: 58 * time.Minute, max: time.Hour},
	} {
		h := http.Header{"Retry-After": {c.value}}
		if c.date != "" {
			h.Set("Date", c.date)
		}
		if got := middleware.FindingOfHTTP(429, h).RetryAfter; got < c.min || got > c.max {
			t.Errorf("Retry-After %q with Date %q is %v, want %v to %v", c.value, c.date, got, c.min, c.max)
		}
	}
}

// sdkError is as the errors of the AWS SDK are.
type sdkError struct{}

func (sdkError) Error() string       { return "sdk" }
func (sdkError) HTTPStatusCode() int { return 400 }

func TestHttp_ErrorsOfOtherLibrariesAreKnownByTheirMethod(t *testing.T) {
	t.Parallel()
	got := middleware.ClassifyHTTP(fmt.Errorf("put: %w", sdkError{}), chaintest.AJob("a"))
	if want := (middleware.Finding{Kind: middleware.Permanent, Code: "HTTP_400"}); got != want {
		t.Errorf("found %+v, want %+v", got, want)
	}
	if got := middleware.ClassifyHTTP(chaintest.ErrFlaky, chaintest.AJob("a")); got != (middleware.Finding{}) {
		t.Errorf("of an error that is none of HTTP: found %+v", got)
	}
}

func TestHttp_AnAnswerBecomesAnErrorWithoutItsSecrets(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/fine" {
			return
		}
		w.Header().Set("Retry-After", "30")
		http.Error(w, "secret body", http.StatusTooManyRequests)
	}))
	defer server.Close()
	defer server.Client().CloseIdleConnections()
	get := func(path string) error {
		req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return middleware.CheckResponse(resp)
	}
	if err := get("/fine"); err != nil {
		t.Errorf("an answer that is fine is %v", err)
	}
	err := get("/limited?token=secret")
	var answer *middleware.HTTPError
	if !errors.As(err, &answer) || answer.StatusCode != 429 || answer.RetryAfter != 30*time.Second {
		t.Fatalf("the error is %#v, want status 429 and 30s", err)
	}
	if text := err.Error(); text != "HTTP status 429 Too Many Requests, retry after 30s" || strings.Contains(text, "secret") {
		t.Errorf("the error reads %q", text)
	}
	if got := middleware.ClassifyHTTP(fmt.Errorf("call: %w", err), (*jobs.Job)(nil)); got.Kind != middleware.RateLimited {
		t.Errorf("found %+v, want rate limited", got)
	}
}
