package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
)

var editForm = regexp.MustCompile(`(?s)action="(edit\?[^"]*)".*<textarea[^>]*>\n(.*)</textarea>`)

// editor returns the form on a job's page: its URL and its text.
func editor(page string) (to, text string) {
	m := editForm.FindStringSubmatch(page)
	if m == nil {
		return "", ""
	}
	return html.UnescapeString(m[1]), html.UnescapeString(m[2])
}

func payload(p string) func(*broker.NewJob) {
	return func(j *broker.NewJob) { j.Body.Payload = []byte(p) }
}

func TestEdit_APayloadIsEditedAndTheJobRedriven(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Authorize: everything})
	s.die("mail", "a", "email", "no such user", payload(`{"user": 1.0, "user": 2, "t": "`+"\u202e\U000e0001"+`"}`))
	hasNot(t, s.get(200, "job?queue=mail&id=a"), "textarea")
	to, text := editor(s.get(200, "job?queue=mail&id=a&show=payload"))
	if want := "{\n  \"user\": 1.0,\n  \"user\": 2,\n  \"t\": \"\\u202e\\udb40\\udc01\"\n}"; text != want {
		t.Fatalf("the form has %q, want %q", text, want)
	}
	var said string
	if err := json.Unmarshal([]byte(text[strings.LastIndex(text, ": ")+2:len(text)-2]), &said); err != nil || said != "\u202e\U000e0001" {
		t.Errorf("the escapes mean %q, %v", said, err)
	}
	text = strings.ReplaceAll(strings.Replace(text, "1.0", "3", 1), "\n", "\r\n") // as browsers send it
	has(t, s.follow(s.post(303, to, url.Values{"payload": {text}})), "The payload was changed.", ">dead<")
	if got, want := string(s.find("mail", "a").Payload), `{"user":3,"user":2,"t":"\u202e\udb40\udc01"}`; got != want {
		t.Errorf("the payload is %s, want %s", got, want)
	}
	has(t, s.post(409, to, url.Values{"payload": {"{}"}}), "changed since it was read") // the URL has the former epoch
	to, _ = editor(s.get(200, "job?queue=mail&id=a&show=payload"))
	has(t, s.post(400, to, url.Values{"payload": {"{<script>"}}), "is not JSON, nothing was changed")
	has(t, s.follow(s.post(303, to, url.Values{"payload": {`{"user":4}`}, "redrive": {"1"}})), "The job was redriven", ">pending<")
	if j := s.find("mail", "a"); string(j.Payload) != `{"user":4}` || j.State != broker.StatePending {
		t.Errorf("the job is %s with %s", j.State, j.Payload)
	}
	s.post(400, "edit?queue=mail&id=a", url.Values{"payload": {"{}"}})
	s.post(404, "edit?queue=mail&id=gone&epoch=0", url.Values{"payload": {"{}"}})
	log := s.log.String()
	has(t, log, "action=edit queue=mail id=a bytes=10", "action=redrive queue=mail id=a")
	hasNot(t, log, "user\\\":", `"user"`)
}

// White space after the JSON is no character to escape: the form could not be sent.
func TestEdit_WhiteSpaceAroundAPayloadDoesNoHarm(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Authorize: everything})
	s.enqueue("mail", "a", "email", payload("\t{\"user\":1}\r\n\t"))
	to, text := editor(s.get(200, "job?queue=mail&id=a&show=payload"))
	if !json.Valid([]byte(text)) {
		t.Errorf("the form has %q, which is not JSON", text)
	}
	s.post(303, to, url.Values{"payload": {strings.Replace(text, "1", "2", 1)}})
	if got := string(s.find("mail", "a").Payload); got != `{"user":2}` {
		t.Errorf("the payload is %s", got)
	}
}

func TestEdit_AnEditedJobThatCannotBeRedrivenIsSaidSo(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Authorize: everything})
	unique := func(j *broker.NewJob) { j.Body.Unique = broker.Unique{Key: "k"} }
	s.die("mail", "a", "email", "no such user", payload(`{}`), unique)
	s.enqueue("mail", "b", "email", unique)
	to, _ := editor(s.get(200, "job?queue=mail&id=a&show=payload"))
	has(t, s.follow(s.post(303, to, url.Values{"payload": {"[1]"}, "redrive": {"1"}})),
		"The payload was changed, but the job was not redriven: The job b holds its unique key")
}

// editedTwice edits a job once more after each edit, as a second operator may.
type editedTwice struct{ broker.Broker }

func (b editedTwice) Operate(ctx context.Context, op broker.Operation) ([]broker.OperationResult, error) {
	results, err := b.Broker.Operate(ctx, op)
	if err == nil && op.Kind == broker.OpEdit {
		op.Payload = []byte(`"other"`)
		op.Refs = []broker.Ref{{Queue: op.Refs[0].Queue, ID: op.Refs[0].ID, Epoch: op.Refs[0].Epoch + 1}}
		_, err = b.Broker.Operate(ctx, op)
	}
	return results, err
}

func TestEdit_AJobThatIsChangedBeforeItsRedriveIsNotRedriven(t *testing.T) {
	t.Parallel()
	s := siteOf(t, editedTwice{membroker.New()}, Config{Authorize: everything})
	s.die("mail", "a", "email", "no such user", payload(`{}`))
	to, _ := editor(s.get(200, "job?queue=mail&id=a&show=payload"))
	has(t, s.follow(s.post(303, to, url.Values{"payload": {"[1]"}, "redrive": {"1"}})),
		"The payload was changed, but the job was not redriven: ", "it was changed meanwhile", ">dead<")
}

// A form can be sent without the page that offers it.
func TestEdit_WhatHasNoFormIsRefusedWhenSentAnyway(t *testing.T) {
	t.Parallel()
	without := func(refused ...Action) func(*http.Request, Action) (string, error) {
		return func(_ *http.Request, a Action) (string, error) {
			if slices.Contains(refused, a) {
				return "ada", errors.New("no")
			}
			return "ada", nil
		}
	}
	decode := func(context.Context, *jobs.Job) ([]byte, error) { return []byte("{}"), nil }
	elsewhere := func(j *broker.NewJob) { j.Body.PayloadRef = "blob" }
	for name, c := range map[string]struct {
		cfg    Config
		job    []func(*broker.NewJob)
		status int
	}{
		"permitted":        {Config{Authorize: without()}, nil, 303},
		"payload refused":  {Config{Authorize: without(ActionPayload)}, nil, 403},
		"edit refused":     {Config{Authorize: without(ActionEdit)}, nil, 403},
		"shown decoded":    {Config{Authorize: without(), Decode: decode}, nil, 409},
		"stored elsewhere": {Config{Authorize: without()}, []func(*broker.NewJob){elsewhere}, 409},
		"not JSON":         {Config{Authorize: without()}, []func(*broker.NewJob){payload("text")}, 409},
	} {
		s := newSite(t, c.cfg)
		s.die("mail", "a", "email", "no such user", append([]func(*broker.NewJob){payload("{}")}, c.job...)...)
		was := s.find("mail", "a")
		s.post(c.status, fmt.Sprint("edit?queue=mail&id=a&epoch=", was.Epoch), url.Values{"payload": {"[1]"}})
		if got := string(s.find("mail", "a").Payload); (got == "[1]") != (c.status == 303) {
			t.Errorf("%s: the payload is %s after the answer %d", name, got, c.status)
		}
	}
}

func TestEdit_WhatCannotBeEditedHasNoForm(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Authorize: everything})
	for i, p := range []string{"", "text", "{\"a\": \"\xff\"}", strings.Repeat("[", 100) + strings.Repeat("]", 100), `"` +
		strings.Repeat("a", maxShown) + `"`,
		"[" + strings.Repeat("1,", maxShown/4) + "1]"} {
		id := fmt.Sprint(i)
		s.enqueue("mail", id, "email", payload(p))
		hasNot(t, s.get(200, "job?queue=mail&id="+id+"&show=payload"), "textarea")
	}
	s.enqueue("mail", "elsewhere", "email", payload("{}"), func(j *broker.NewJob) { j.Body.PayloadRef = "blob" })
	hasNot(t, s.get(200, "job?queue=mail&id=elsewhere&show=payload"), "textarea")
	s.enqueue("fresh", "active", "email", payload("{}"))
	s.worker("w", 1, "fresh")
	s.claim("w", "fresh", 1)
	hasNot(t, s.get(200, "job?queue=fresh&id=active&show=payload"), "textarea")

	some := newSite(t, Config{Authorize: func(_ *http.Request, a Action) (string, error) {
		if a == ActionEdit {
			return "", errors.New("no")
		}
		return "", nil
	}})
	some.enqueue("mail", "a", "email", payload("{}"))
	page := some.get(200, "job?queue=mail&id=a&show=payload")
	has(t, page, "shown as JSON")
	hasNot(t, page, "textarea")
	some.post(403, "edit?queue=mail&id=a&epoch=0", url.Values{"payload": {"[]"}})
}
