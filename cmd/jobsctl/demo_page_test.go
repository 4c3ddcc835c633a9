package main

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/internal/demo"
)

func controlledDemo(t *testing.T) *demo.Demo {
	t.Helper()
	d, err := demo.Start(t.Context(), demo.Config{Broker: membroker.New(), Knobs: demo.Knobs{Latency: 1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := d.Stop(t.Context()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	return d
}

func TestDemo_ThePageHasControls(t *testing.T) {
	t.Parallel()
	d := controlledDemo(t)
	s := httptest.NewServer(newDemoPage(d, http.NotFoundHandler()))
	defer s.Close()
	post := func(origin, form string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/demo", strings.NewReader(form))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", origin)
		reply, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer reply.Body.Close()
		body, err := io.ReadAll(reply.Body)
		if err != nil {
			t.Fatal(err)
		}
		return reply.StatusCode, string(body)
	}
	enqueue := url.Values{"do": {"enqueue"}, "n": {"7"}, "kind": {"email:welcome"}}.Encode()
	if status, _ := post("https://elsewhere.example", enqueue); status != http.StatusForbidden || d.Totals().Enqueued != 0 {
		t.Errorf("another site's form: %d, and %d jobs are there; want 403 and none", status, d.Totals().Enqueued)
	}
	if status, page := post(s.URL, enqueue); status != http.StatusOK || !strings.Contains(page, `id="enqueued">7<`) ||
		!strings.Contains(page, `id="waiting">7<`) {
		t.Errorf("after 7 jobs were enqueued: %d %.2000s", status, page)
	}
	set := "do=set&rate=0&latency=0.5&fail=0.25&hang=0.125&workers=2"
	if status, page := post(s.URL, set); status != http.StatusOK ||
		d.Knobs() != (demo.Knobs{Latency: 0.5, Fail: 0.25, Hang: 0.125, Workers: 2}) ||
		!strings.Contains(page, `value="0.125"`) {
		t.Errorf("Apply: %d, and the knobs are %+v", status, d.Knobs())
	}
	if status, page := post(s.URL, "do=kill"); status != http.StatusOK || len(d.Kills()) != 1 ||
		!strings.Contains(page, ">"+d.Kills()[0].Worker+"<") {
		t.Errorf("Kill one: %d, and the kills are %+v", status, d.Kills())
	}
	for form, want := range map[string]string{"do=enqueue&n=0&kind=email:welcome": "1 to 1000", "do=enqueue&n=1&kind=x": "the type must be",
		"do=enqueue&n=1e3&kind=email:welcome": "n must be a whole number", set + "00": "0 to 100", "do=set": "rate must be a number",
		"do=dance": "no such control", "n=" + strings.Repeat("1", maxDemoForm): "too large"} {
		if status, page := post(s.URL, form); status != http.StatusBadRequest || !strings.Contains(page, want) {
			t.Errorf("%.60s: %d, want 400 and %q in %.900s", form, status, want, page)
		}
	}
}

// The controls are served on loopback only, where other machines cannot reach them.
func TestDemo_ControlsAreOnLoopback(t *testing.T) {
	t.Parallel()
	d := controlledDemo(t)
	for addr, want := range map[string]int{"127.0.0.1:0": http.StatusOK, "0.0.0.0:0": http.StatusNotFound} {
		address, closed, err := (&app{}).demoDashboard(t.Context(), d, addr)
		if err != nil {
			t.Fatal(err)
		}
		at, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		at.Path = "/demo"
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		status, page := get(t, &http.Client{Jar: jar, Transport: oneOff.Transport}, at.String())
		if status != want || (want == http.StatusOK) != strings.Contains(page, "Kill one") {
			t.Errorf("the controls of a demo on %s: %d %.300s, want %d", addr, status, page, want)
		}
		at.RawQuery = ""
		if status, _ := get(t, oneOff, at.String()); status != http.StatusUnauthorized {
			t.Errorf("without the secret, on %s: %d, want 401", addr, status)
		}
		closed()
	}
}
