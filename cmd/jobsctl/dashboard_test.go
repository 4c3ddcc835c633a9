package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

// proxied returns the flags of a dashboard behind a proxy that names the user in X-User.
func proxied(addr string, hosts ...string) dashboardFlags {
	return dashboardFlags{addr: addr, behindProxy: true, write: true, userHeader: "X-User", hosts: hosts}
}

func TestDashboard_WhoMayUseTheDashboard(t *testing.T) {
	t.Parallel()
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("correct horse\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]dashboardFlags{
		"open to the network":         {addr: ":8383"},
		"open to the network, by IP":  {addr: "192.0.2.1:8383"},
		"open to the network, by IP6": {addr: "[::]:8383"},
		"a name":                      {addr: "ops.example:8383"},
		"no address":                  {addr: "8383"},
		"no password":                 {addr: "127.0.0.1:0", user: "ada"},
		"no user":                     {addr: "127.0.0.1:0", passwordFile: password},
		"no file":                     {addr: "127.0.0.1:0", user: "ada", passwordFile: password + "x"},
		"a short password":            {addr: "127.0.0.1:0", user: "ada", passwordFile: os.DevNull},
		"user and proxy":              {addr: "127.0.0.1:0", user: "ada", passwordFile: password, behindProxy: true},
		"token and proxy":             {addr: "127.0.0.1:0", token: true, behindProxy: true},
		"a proxy that names no user":  {addr: "127.0.0.1:0", behindProxy: true},
		"a host with a port":          {addr: "127.0.0.1:0", hosts: []string{"ops.example:8383"}},
		"a URL as host":               {addr: "127.0.0.1:0", hosts: []string{"https://ops.example"}},
	} {
		if _, err := f.gate(); exitCode(err, false) != 2 {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, c := range []struct {
		name   string
		f      dashboardFlags
		ask    func(*http.Request)
		status int
	}{
		{"read-only, here", dashboardFlags{addr: "127.0.0.1:0"}, nil, 200},
		{"another name for here", dashboardFlags{addr: "localhost:0"}, func(r *http.Request) { r.Host = "[::1]:8383" }, 200},
		{"a name that was made to mean here", dashboardFlags{addr: "127.0.0.1:0"}, func(r *http.Request) { r.Host = "evil.example:8383" }, 421},
		{"one that looks alike", dashboardFlags{addr: "127.0.0.1:0"}, func(r *http.Request) { r.Host = "localhost.evil.example" }, 421},
		{"the same with the password", dashboardFlags{addr: "127.0.0.1:0", user: "ada", passwordFile: password},
			func(r *http.Request) { r.Host = "evil.example"; r.SetBasicAuth("ada", "correct horse") }, 421},
		{"writing without the secret", dashboardFlags{addr: "127.0.0.1:0", write: true}, nil, 401},
		{"a wrong secret", dashboardFlags{addr: "127.0.0.1:0", write: true}, func(r *http.Request) { r.URL.RawQuery = "token=x" }, 401},
		{"a wrong cookie", dashboardFlags{addr: "127.0.0.1:0", write: true},
			func(r *http.Request) { r.AddCookie(&http.Cookie{Name: cookieName(r.Host), Value: ""}) }, 401},
		{"the network without the password", dashboardFlags{addr: ":0", user: "ada", passwordFile: password},
			func(r *http.Request) { r.Host = "ops.example" }, 401},
		{"a wrong password", dashboardFlags{addr: ":0", user: "ada", passwordFile: password},
			func(r *http.Request) { r.SetBasicAuth("ada", "correct horse\n") }, 401},
		{"a wrong name", dashboardFlags{addr: ":0", user: "ada", passwordFile: password},
			func(r *http.Request) { r.SetBasicAuth("bob", "correct horse") }, 401},
		{"the password", dashboardFlags{addr: ":0", user: "ada", passwordFile: password},
			func(r *http.Request) { r.SetBasicAuth("ada", "correct horse") }, 200},
		{"behind a proxy", proxied(":0"), func(r *http.Request) { r.Host = "ops.example"; r.Header.Set("X-User", "ada") }, 200},
		{"past the proxy", proxied(":0"), func(r *http.Request) { r.Host = "ops.example" }, 401},
		{"the proxy names nobody", proxied(":0"), func(r *http.Request) { r.Header.Set("X-User", " ") }, 401},
		{"the client named a user, and the proxy another one", proxied(":0"),
			func(r *http.Request) { r.Header["X-User"] = []string{"admin", "ada"} }, 401},
		{"another header names the user", proxied(":0"), func(r *http.Request) { r.Header.Set("X-Forwarded-User", "ada") }, 401},
		{"a proxy here", proxied("127.0.0.1:0"), func(r *http.Request) { r.Header.Set("X-User", "ada") }, 200},
		{"a script of another site, which sets the header", proxied("127.0.0.1:0"),
			func(r *http.Request) { r.Host = "evil.example:8383"; r.Header.Set("X-User", "ada") }, 421},
		{"the name of --host", proxied("127.0.0.1:0", "www.example", "ops.example"),
			func(r *http.Request) { r.Host = "OPS.example:443"; r.Header.Set("X-User", "ada") }, 200},
		{"none of the names of --host", proxied(":0", "ops.example"),
			func(r *http.Request) { r.Host = "evil.example"; r.Header.Set("X-User", "ada") }, 421},
		{"here, beside --host", dashboardFlags{addr: ":0", user: "ada", passwordFile: password, hosts: []string{"ops.example"}},
			func(r *http.Request) { r.Host = "localhost:8383"; r.SetBasicAuth("ada", "correct horse") }, 200},
	} {
		g, err := c.f.gate()
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = "127.0.0.1:8383"
		if c.ask != nil {
			c.ask(r)
		}
		w := httptest.NewRecorder()
		g.guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "in") })).ServeHTTP(w, r)
		if w.Code != c.status || (w.Body.String() == "in") != (c.status == 200) {
			t.Errorf("%s: %d %s, want %d", c.name, w.Code, w.Body, c.status)
		}
	}
}

// dashboardRun is jobsctl dashboard while it runs.
type dashboardRun struct {
	url   string
	log   *strings.Builder // complete when the command has ended
	end   context.CancelFunc
	ended chan int
}

func runDashboard(t *testing.T, store *membroker.Store, args ...string) *dashboardRun {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, says := io.Pipe()
	d := &dashboardRun{end: cancel, ended: make(chan int, 1), log: new(strings.Builder)}
	go func() {
		defer says.Close()
		d.ended <- run(ctx, append([]string{"--broker", "memory://", "--json", "dashboard", "--addr", "127.0.0.1:0"}, args...),
			environment{in: strings.NewReader(""),
				out: says, err: d.log, getenv: func(string) string { return "" }, home: func() (string, error) { return "", errors.New("none") },
				open: func(context.Context, string) (broker.Broker, error) { return store.Open(), nil }})
	}()
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var said struct{ URL string }
	if err == nil {
		err = json.Unmarshal(line, &said)
	}
	if err != nil {
		t.Fatalf("jobsctl dashboard says %q: %v", line, err)
	}
	d.url = said.URL
	t.Cleanup(func() { d.stop(t) })
	return d
}

func (d *dashboardRun) stop(t *testing.T) {
	if d.end == nil {
		return
	}
	d.end()
	d.end = nil
	if code := <-d.ended; code != 0 {
		t.Errorf("jobsctl dashboard exits with %d: %s", code, d.log)
	}
}

func TestDashboard_TheSecretInTheAddressBecomesACookie(t *testing.T) {
	t.Parallel()
	store := membroker.NewStore()
	b := store.Open()
	defer b.Close()
	if _, err := b.Enqueue(t.Context(), broker.EnqueueRequest{Jobs: []broker.NewJob{{Queue: "mail", ID: "a",
		Body: broker.Body{Type: "email", Priority: 2, Payload: []byte("a secret")}}}}); err != nil {
		t.Fatal(err)
	}
	d := runDashboard(t, store, "--write", "--payloads")
	address, secret, ok := strings.Cut(d.url, "?token=")
	if !ok || len(secret) < 20 {
		t.Fatalf("the address is %q", d.url)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar, Transport: oneOff.Transport}
	get := func(client *http.Client, url string) (int, string, *http.Response) {
		t.Helper()
		resp, err := client.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body), resp
	}
	if code, body, resp := get(client, d.url); code != 200 || !strings.Contains(body, "Overview") ||
		strings.Contains(resp.Request.URL.String(), secret) {
		t.Errorf("the printed address leads to %s: %d", resp.Request.URL, code)
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	_, _, first := get(client, d.url)
	for _, c := range first.Cookies() {
		if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Value == secret {
			t.Errorf("the cookie is %+v", c)
		}
	}
	if code, body, _ := get(client, address+"job?queue=mail&id=a&show=payload"); code != 200 || !strings.Contains(body, "a secret") ||
		!strings.Contains(body, `value="cancel"`) {
		t.Errorf("the job's page answers %d:\n%s", code, body)
	}
	if code, body, _ := get(oneOff, address+"job?queue=mail&id=a&show=payload"); code != 401 ||
		strings.Contains(body, "secret\"") {
		t.Errorf("without the cookie the page answers %d", code)
	}
	resp, err := client.Post(address+"act?queue=mail&id=a", "application/x-www-form-urlencoded", strings.NewReader("verb=cancel"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusSeeOther {
		t.Errorf("a decision answers %d", resp.StatusCode)
	}
	events, err := client.Get(address + "events") // an open page must not delay the shutdown
	if err != nil {
		t.Fatal(err)
	}
	defer events.Body.Close()
	d.stop(t)
	if log := d.log.String(); !strings.Contains(log, "action=cancel") || strings.Contains(log, secret) || strings.Contains(log, "a secret") {
		t.Errorf("the log is\n%s", log)
	}
}

func TestDashboard_TheDashboardIsReadOnlyUnlessTold(t *testing.T) {
	t.Parallel()
	d := runDashboard(t, membroker.NewStore(), "--payloads")
	if strings.Contains(d.url, "token") {
		t.Errorf("the address is %s; reading here needs no secret", d.url)
	}
	resp, err := oneOff.Post(d.url+"pause?queue=mail", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != 403 || !strings.Contains(string(body), "read-only; start it with --write") {
		t.Errorf("pausing answers %d:\n%s", resp.StatusCode, body)
	}
}

func TestDashboard_AnAddressInUseIsAnError(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	store := membroker.NewStore()
	c := &cli{t: t, url: "memory://", open: func(context.Context, string) (broker.Broker, error) { return store.Open(), nil }}
	c.has(c.run(1, "dashboard", "--addr", l.Addr().String()), "address already in use")
	c.has(c.run(2, "dashboard", "--addr", ":8383"), ":8383.*--token")
	c.has(c.run(2, "dashboard", "--trace-url", "javascript:{trace}"), "trace URL")
}

// A container prints its address in its log, for people to open.
func TestDashboard_ThePrintedAddressCanBeOpened(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{":0", "0.0.0.0:0", "[::]:0"} {
		d := runDashboard(t, membroker.NewStore(), "--addr", addr, "--token")
		if at, err := url.Parse(d.url); err != nil || at.Hostname() != "localhost" {
			t.Errorf("with --addr %s it is at %s", addr, d.url)
		}
	}
}

// Browsers send a cookie to every port of a host.
func TestDashboard_TwoDashboardsOnOneHostDoNotLogEachOtherOut(t *testing.T) {
	t.Parallel()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar, Transport: oneOff.Transport}
	var opened []string
	for range 2 {
		d := runDashboard(t, membroker.NewStore(), "--write")
		if status, _ := get(t, client, d.url); status != http.StatusOK {
			t.Fatalf("the printed address answers %d", status)
		}
		address, _, _ := strings.Cut(d.url, "?")
		opened = append(opened, address)
	}
	for _, address := range opened {
		if status, page := get(t, client, address); status != http.StatusOK {
			t.Errorf("%s answers %d: %.200s", address, status, page)
		}
	}
}
