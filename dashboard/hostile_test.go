package dashboard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/schedule"
	"github.com/seed81422ce9/jobs/workflow"
)

// Texts of an attacker who wants to control a page.
const (
	script = `"><img src=x onerror=window.hacked=1><script>window.hacked=1</script>`
	turned = "abc\u202etxt.exe\u2066\u200f"
	binary = "\x00\xff\xfe{{.}}\x1b[2J"
)

var values = regexp.MustCompile(`<option value="[^"]*"`)

// infest stores the hostile text in each field that accepts it.
func (s *site) infest() {
	s.t.Helper()
	name := script + turned
	wrong := broker.Failure{At: time.Now(), Class: script, Code: turned, Message: script + turned + binary, Stack: script, Worker: script,
		Version: script}
	change := func(j *broker.NewJob) {
		j.Body.Key, j.Body.Source, j.Body.CorrelationID, j.Body.IdempotencyKey = script, script, turned, script
		j.Body.Unique = broker.Unique{Key: script + j.ID}
		j.Body.Headers = map[string]string{script: script, turned: turned, "binary": binary,
			"traceparent": `00-"><script>window.hacked=1</scrip-00-01`}
		j.Body.Payload = []byte(`{"html":"<script>window.hacked=1</script>","turned":"` + turned + `"}`)
		j.Body.Retention = time.Hour
	}
	s.enqueue(name, script, script, change)
	s.worker("<script>", 3, name)
	s.settle("<script>", s.claim("<script>", name, 1), broker.Die(broker.ReasonRetries, wrong))
	s.enqueue(name, turned, turned, change)
	s.enqueue(name, "active", "<b>active</b>", change)
	s.claim("<script>", name, 2)
	s.enqueue(name, "large", strings.Repeat("W", 255), func(j *broker.NewJob) { j.Body.Payload = []byte(strings.Repeat("<script>", 128<<10)) })
	s.enqueue(name, "deep", "json", func(j *broker.NewJob) {
		j.Body.Payload = []byte(strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000))
	})
	s.schedule(script, schedule.Cron("@daily", "Europe/Berlin"))
	if err := schedule.New(s.store, "").Pause(context.Background(), script, script+turned); err != nil {
		s.t.Fatal(err)
	}
	if _, err := schedule.New(s.store, script+turned).Put(context.Background(), turned, schedule.Every(time.Hour),
		jobs.NewTask(script, nil, jobs.WithQueue(script)), schedule.WithMisfire(schedule.RunUpTo(2, time.Hour))); err != nil {
		s.t.Fatal(err)
	}
	s.enqueue(schedule.Queue, "unreadable"+script, script, func(j *broker.NewJob) {
		j.Body.Key, j.Body.Payload = "schedule", []byte(`{"v":1,"owner":"`+turned+`","<script>window.hacked=1</script>":1}`)
	})
	s.workflow(hostileWorkflow, workflow.Chain(step(hostileWorkflow), workflow.Node{Name: turned, Signal: hostileWorkflow}))
	s.enqueue(name, "binary", "bytes", func(j *broker.NewJob) { j.Body.Payload = []byte(binary) })
}

// hostileWorkflow is the hostile text without slashes, as a workflow's ID cannot have
// any.
var hostileWorkflow = strings.ReplaceAll(script, "/", "")

// hostilePages returns the pages that show hostile text.
func hostilePages() []string {
	name := script + turned
	job := func(id string) string { return link("job", "queue", name, "id", id, "show", "payload") }
	return []string{"", "queues", "queues?search=" + url.QueryEscape(script), link("queue", "name", name), "jobs", "jobs?state=active",
		"jobs?state=dead",
		"jobs?state=dead&type=" + url.QueryEscape(script) + "&error=" + url.QueryEscape(script), "jobs?state=asleep" + url.QueryEscape(script),
		"dead", "dead?error=" + url.QueryEscape(script),
		"workers", "workers?worker=%3Cscript%3E", "jobs?id=" + url.QueryEscape(script), job(script), job(turned), job("active"), job("large"),
		job("deep"), job("binary"),
		"schedules", "schedules?search=" + url.QueryEscape(script), "schedules?status=" + url.QueryEscape(script), link("schedule", "id", script),
		link("schedule", "id", turned), link("schedule", "id", "unreadable"+script), link("schedule", "id", "none"+script+turned),
		"workflows", "workflows?state=" + url.QueryEscape(script), link("workflow", "id", hostileWorkflow), link("workflow", "id", script+turned),
		link("workflow", "id", hostileWorkflow, "level", script),
		"job?queue=" + url.QueryEscape(script) + "&id=none", "?notice=" + url.QueryEscape(script), "jobs?state=pending&older=" +
			url.QueryEscape(script)}
}

func TestHostile_WhatOthersWroteIsOnlyShown(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Authorize: everything, TraceURL: "https://traces.example/{trace}", Title: script})
	s.infest()
	for _, path := range hostilePages() {
		for _, headers := range [][]string{nil, {"HX-Request", "true"}} {
			req, err := http.NewRequest(http.MethodGet, s.url+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if headers != nil {
				req.Header.Set(headers[0], headers[1])
			}
			resp, err := s.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			page := read(t, resp)
			if resp.StatusCode >= 500 {
				t.Errorf("%s answers %d:\n%.500s", path, resp.StatusCode, page)
			}
			if !utf8.ValidString(page) {
				t.Errorf("%s is not valid UTF-8", path)
			}
			if len(page) > 1<<20 {
				t.Errorf("%s has %d bytes", path, len(page))
			}
			for _, bad := range []string{"<img", "<script>window", "\u202e", "\u2066", "\x00", "\x1b"} {
				page := values.ReplaceAllString(page, "") // attributes that are not shown
				if at := strings.Index(page, bad); at >= 0 {
					t.Errorf("%s has %q: %q", path, bad, page[max(0, at-100):min(len(page), at+100)])
				}
			}
		}
	}
	hasNot(t, s.get(200, hostilePages()[14]), "traces.example") // it is not a trace ID
	has(t, s.get(200, hostilePages()[14]), `\u202e`, "&lt;script&gt;window.hacked=1")
}

func read(t *testing.T, resp *http.Response) string {
	t.Helper()
	defer resp.Body.Close()
	var b strings.Builder
	if _, err := io.Copy(&b, resp.Body); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestHostile_PayloadsAreShownToWhoMaySeeThem(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Authorize: func(r *http.Request, a Action) (string, error) {
		if a == ActionPayload && r.Header.Get("User") == "ada" {
			return "ada", nil
		}
		return r.Header.Get("User"), errors.New("no")
	}, Decode: func(_ context.Context, job *jobs.Job) ([]byte, error) {
		plain, ok := strings.CutPrefix(string(job.Payload()), "zip:")
		if !ok {
			return nil, errors.New("not \u202ezipped")
		}
		return []byte(plain), nil
	}})
	s.enqueue("q", "zipped", "t", func(j *broker.NewJob) { j.Body.Payload = []byte(`zip:{"card":"4111","n":[1,2]}`) })
	s.enqueue("q", "plain", "t", func(j *broker.NewJob) { j.Body.Payload, j.Body.Retention = []byte("not so\x00"), time.Hour })
	for _, path := range []string{"job?queue=q&id=zipped", "jobs", "job?queue=q&id=plain"} {
		hasNot(t, s.get(200, path, "User", "ada"), "4111", "not so")
	}
	has(t, s.get(200, "job?queue=q&id=zipped", "User", "ada"), `id="see"`)
	hasNot(t, s.get(200, "job?queue=q&id=zipped", "User", "bob"), `id="see"`)
	hasNot(t, s.get(403, "job?queue=q&id=zipped&show=payload", "User", "bob"), "4111")
	hasNot(t, s.get(403, "payload?queue=q&id=zipped", "User", "bob"), "4111")
	has(t, s.get(200, "job?queue=q&id=zipped&show=payload", "User", "ada"), "shown as JSON", "&#34;card&#34;: &#34;4111&#34;,\n", "25 bytes")
	has(t, s.get(200, "job?queue=q&id=plain&show=payload", "User", "ada"), `could not be decoded`, `not \u202ezipped`, "shown as bytes",
		"6e 6f 74 20 73 6f 00")
	if got := s.get(200, "payload?queue=q&id=zipped", "User", "ada"); got != `{"card":"4111","n":[1,2]}` {
		t.Errorf("the file has %q", got)
	}
	hasNot(t, s.get(200, "job?queue=q&id=zipped&show=payload", "User", "ada", "HX-Request", "true"), "4111") // not on every refresh
	log := s.log.String()
	has(t, log, "who=ada action=payload queue=q id=zipped", "who=bob action=payload")
	hasNot(t, log, "4111", "card")

	s.worker("w", 2, "q")
	s.settle("w", s.claim("w", "q", 2)[1:], broker.Complete([]byte("the result")))
	hasNot(t, s.get(200, "job?queue=q&id=plain", "User", "ada"), "the result")
	has(t, s.get(200, "job?queue=q&id=plain&show=payload", "User", "ada"), "the result", "shown as text")
}

func TestHostile_BytesBecomeReadable(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in   string
		kind string
		text string
		cut  bool
	}{
		"nothing": {"", "", "", false},
		"json":    {`{"a":[1]}`, "JSON", "{\n  \"a\": [\n    1\n  ]\n}", false},
		"string":  {`"\u202e` + "\u202e" + `"`, "JSON", `"\u202e\u202e"`, false},
		"text":    {"a\tb\r\nc", "text", "a    b\\r\nc", false},
		"braces":  {`"` + strings.Repeat("[", 200) + `"`, "JSON", `"` + strings.Repeat("[", 200) + `"`, false},
		"quoted":  {`"\"` + strings.Repeat("[", 200) + `"`, "JSON", `"\"` + strings.Repeat("[", 200) + `"`, false},
		"deep":    {strings.Repeat("[", 65) + strings.Repeat("]", 65), "text", strings.Repeat("[", 65) + strings.Repeat("]", 65), false},
		"hidden depth": {strings.Repeat(`{"]":`, 65) + "1" + strings.Repeat("}", 65), "text", strings.Repeat(`{"]":`, 65) + "1" +
			strings.Repeat("}", 65), false},
		"bytes":      {"\xff", "bytes", "00000000  ff                                                |.|\n", false},
		"long":       {strings.Repeat("é", maxShown), "text", strings.Repeat("é", maxShown/2), true},
		"long bytes": {strings.Repeat("\xff", 2*maxDumped), "bytes", "", true},
	} {
		got := show([]byte(c.in))
		if got.Kind != c.kind || got.Cut != c.cut || got.Size != len(c.in) || c.text != "" && got.Text != c.text {
			t.Errorf("%s: %s, cut %v, %.200q; want %s, %v, %.200q", name, got.Kind, got.Cut, got.Text, c.kind, c.cut, c.text)
		}
	}
	if long := show([]byte(strings.Repeat("\xff", 1<<20))); len(long.Text) > 64<<10 {
		t.Errorf("a dump has %d bytes", len(long.Text))
	}
}

func TestHostile_AnUnreadableJobIsShownAsOne(t *testing.T) {
	t.Parallel()
	v := &view{had: map[Action]bool{}, may: func(Action) bool { return true }}
	j := &broker.Job{Queue: "q", ID: "a", State: broker.StatePending, Broken: fmt.Errorf("%w: body", broker.ErrMalformed)}
	v.Data = jobPage{Job: j, Why: inspect.Explain(inspect.Evidence{Job: j}), Events: life(j, time.Now()), MaySee: true}
	var page strings.Builder
	if err := pages()["job"].ExecuteTemplate(&page, "live", v); err != nil {
		t.Fatal(err)
	}
	has(t, page.String(), ">unreadable<", "cannot be read: malformed")
}
