package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

func TestDemo_TheDemoAccountsForEveryJob(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"memory": "", "redis": testenv.RedisPlace(t), "postgres": storeOf(t, "postgres").url} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := []string{"demo", "--for", "5s", "--crash-every", "2s", "--rate", "100", "--fail", "0.5", "--json"}
			if url != "" {
				args = append(args, "--broker", url)
			}
			out, err := command(t, nil, args...).Output()
			var a struct{ Enqueued, Done, Waiting, Dead, Lost, Crashes int }
			if err != nil || json.Unmarshal(out, &a) != nil {
				t.Fatalf("it ends with %v and says %q", err, out)
			}
			if a.Enqueued == 0 || a.Done == 0 || a.Crashes != 2 || a.Lost != 0 || a.Enqueued != a.Done+a.Waiting+a.Dead {
				t.Errorf("the accounts are %s", out)
			}
			if url == "" {
				return
			}
			b, err := backends.Open(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			if q, err := b.Queues(t.Context(), broker.QueuesRequest{}); err != nil || len(q.Queues) > 0 {
				t.Errorf("left over: %+v, %v", q.Queues, err)
			}
		})
	}
}

func TestDemo_TheDemoInATerminal(t *testing.T) {
	t.Parallel()
	term := startInTerminal(t, "demo", "--rate", "50")
	term.awaitText("critical")
	term.awaitText("What to look for")
	term.press("q")
	if err := term.ends(); err != nil || !strings.Contains(term.text(), "lost             0") {
		t.Errorf("after q it ends with %v; the terminal got %q", err, term.text())
	}

	term = startInTerminal(t, "demo")
	term.awaitText("critical")
	if err := term.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := term.ends(); err != nil || !strings.Contains(term.text(), "lost             0") {
		t.Errorf("after SIGTERM it ends with %v; the terminal got %q", err, term.text())
	}
}

func TestDemo_TheDemoSaysWhatItTakes(t *testing.T) {
	t.Parallel()
	c := &cli{t: t}
	for flag, want := range map[string]string{"--rate=5001": "rate .*5000", "--fail=0.9 --hang=0.2": "fail and hang",
		"--crash-every=10ms": "--crash-every .*1s", "--workers=101": "workers .*100", "--for=-1s": "--for", "--addr=nowhere": "--addr"} {
		c.has(c.run(2, append([]string{"demo"}, strings.Fields(flag)...)...), want)
	}
}

// The dashboard opens in a browser if there is a terminal, and is served at the printed
// address only.
func TestDemo_TheDemoShowsADashboard(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	opened := filepath.Join(dir, "opened")
	if err := os.WriteFile(filepath.Join(dir, "xdg-open"),
		[]byte("#!/bin/sh\nprintf %s \"$1\" >"+opened+".part && mv "+opened+".part "+opened+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	env := []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "DISPLAY=:99"}

	term := startWith(t, env, "demo", "--no-browser")
	term.awaitText("Dashboard: http://127.0.0.1:")
	term.press("q")
	if err := term.ends(); err != nil {
		t.Error(err)
	}
	cmd := command(t, env, "demo", "--for", "1s")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "Controls and dashboard are at http://127.0.0.1:") {
		t.Errorf("without a terminal: %v, %s", err, out)
	}
	if _, err := os.Stat(opened); err == nil {
		t.Error("a browser was opened with --no-browser, or without a terminal")
	}

	term = startWith(t, env, "demo")
	var address []byte
	term.await("the browser to be opened", func() (ok bool) {
		var err error
		address, err = os.ReadFile(opened)
		return err == nil
	})
	bare, _, _ := strings.Cut(string(address), "?")
	if status, _ := get(t, oneOff, bare); status != http.StatusUnauthorized {
		t.Errorf("without the secret: %d", status)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar, Transport: oneOff.Transport}
	if status, page := get(t, client, string(address)); status != http.StatusOK || !strings.Contains(page, "Kill one") {
		t.Errorf("the controls, with the secret: %d, %.500s", status, page)
	}
	if status, page := get(t, client, strings.TrimSuffix(bare, "demo")); status != http.StatusOK || !strings.Contains(page, "critical") ||
		!strings.Contains(page, `href="demo"`) {
		t.Errorf("the dashboard, with the secret: %d, %.500s", status, page)
	}
	term.press("q")
	if err := term.ends(); err != nil || !strings.Contains(term.text(), "lost             0") {
		t.Errorf("it ends with %v; the terminal got %q", err, term.text())
	}
}

// oneOff keeps no connections: to close those of http.DefaultClient breaks the requests of
// other tests.
var oneOff = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func get(t *testing.T, c *http.Client, url string) (status int, page string) {
	t.Helper()
	r, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(body)
}
