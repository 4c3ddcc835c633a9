package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance/faulty"
	"github.com/seed81422ce9/jobs/inspect"
)

// follow follows the redirect of a decision and returns the page.
func (s *site) follow(to string) string {
	s.t.Helper()
	return s.get(200, to)
}

func TestAct_DecisionsAboutOneJob(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Authorize: everything})
	s.enqueue("mail", "a", "email")
	act := func(id, verb string, more ...string) string {
		form := url.Values{"verb": {verb}}
		if len(more) > 0 {
			form.Set("in", more[0])
		}
		return s.follow(s.post(303, link("act", "queue", "mail", "id", id), form))
	}
	has(t, s.get(200, "job?queue=mail&id=a"), `value="reschedule"`, `value="cancel"`, `value="delete"`)
	has(t, act("a", "reschedule", "2h"), "The job is rescheduled")
	if j := s.find("mail", "a"); j.State != broker.StateScheduled || time.Until(j.RunAt) < 119*time.Minute {
		t.Errorf("the job is %s and due at %v", j.State, j.RunAt)
	}
	has(t, act("a", "reschedule"), "The job is rescheduled")
	if j := s.find("mail", "a"); j.State != broker.StatePending {
		t.Errorf("rescheduled to now, the job is %s", j.State)
	}
	has(t, act("a", "redrive"), "0 of 1 job redriven", "Nothing was changed")
	s.enqueue("mail", "keep", "email", func(j *broker.NewJob) { j.Body.Retention = time.Hour })
	has(t, act("keep", "cancel"), "The job is cancelled", ">cancelled<")
	has(t, act("a", "delete"), "The job is deleted")
	if j := s.find("mail", "a"); j.ID != "" {
		t.Errorf("the job is %s after it was deleted", j.State)
	}

	s.die("mail", "b", "email", "no route")
	has(t, s.get(200, "job?queue=mail&id=b"), `value="redrive"`, `value="suppress"`, `value="delete"`)
	has(t, act("b", "suppress"), "The job is suppressed", `>suppressed<`)
	has(t, act("b", "unsuppress"), "The job is listed again")
	has(t, act("b", "redrive"), "The job is redriven", ">pending<")

	s.worker("w", 2, "mail")
	s.claim("w", "mail", 1)
	page := act("b", "cancel")
	has(t, page, "1 running job asked to end", "asked to cancel")
	hasNot(t, page, `value="delete"`)
	s.post(400, "act?queue=mail&id=b", url.Values{"verb": {"explode"}})
	s.post(400, "act?queue=mail&id=b", url.Values{"verb": {"reschedule"}, "in": {"soon"}})
	s.post(400, "act", url.Values{"verb": {"redrive"}})
	s.post(400, "act", url.Values{"verb": {"redrive"}, "job": {"%zz"}})
	has(t, s.log.String(), `who=tester action=reschedule queue=mail ids=[a]`, `action=cancel queue=mail ids=[b]`, `action=delete`,
		`done=1 refused=0`)
}

// A running job is only asked to end; the others are cancelled at once.
func TestAct_ANoticeTellsWhichJobsWereCancelledAndWhichAskedToEnd(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Authorize: everything})
	s.worker("w", 2, "mail")
	for _, id := range []string{"a", "b", "c", "d"} {
		s.enqueue("mail", id, "email")
	}
	s.claim("w", "mail", 2)
	rows := func(ids ...string) (checked []string) {
		for _, id := range ids {
			checked = append(checked, url.Values{"queue": {"mail"}, "id": {id}}.Encode())
		}
		return checked
	}
	form := url.Values{"verb": {"cancel"}, "job": rows("a", "b", "c", "gone")}
	has(t, s.follow(s.post(303, "act?state=pending", form)), "1 of 4 jobs cancelled. 2 running jobs asked to end. gone: There is no such job")
	form["job"] = rows("a", "b")
	has(t, s.follow(s.post(303, "act?state=active", form)), "2 running jobs asked to end.")
	s.post(303, "bulk?queue=mail&state=active", url.Values{"verb": {"cancel"}})
	s.handler.wg.Wait()
	has(t, s.get(200, "work"), "<strong>2 done</strong>, 2 of them running and asked to end")
}

// A page can be older than a redrive by somebody else. Its dead jobs are alive again.
func TestAct_AJobThatWasRedrivenSinceThePageIsNotDeleted(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Authorize: everything})
	for _, id := range []string{"a", "b", "c"} {
		s.die("mail", id, "email", "no route")
	}
	s.post(303, "act?state=dead", url.Values{"verb": {"redrive"}, "job": {"id=a&queue=mail", "id=b&queue=mail"}})
	to := s.post(303, "act?state=dead", url.Values{"verb": {"delete"}, "job": {"id=a&queue=mail", "id=c&queue=mail"}})
	has(t, s.follow(to), "1 of 2 jobs deleted. a: This is not possible now: it was dead when the page was made, and is pending.")
	has(t, s.follow(s.post(303, "act?queue=mail&id=b&state=dead", url.Values{"verb": {"delete"}})),
		"0 of 1 job deleted. b: This is not possible")
	has(t, s.log.String(), "action=delete queue=mail ids=[b] jobs=1 done=0 refused=1")
	if a, b, c := s.find("mail", "a"), s.find("mail", "b"), s.find("mail", "c"); a.State != broker.StatePending ||
		b.State != broker.StatePending || c.ID != "" {
		t.Errorf("the jobs are %s, %s and %s", a.State, b.State, c.State)
	}
	has(t, s.follow(s.post(303, "act?queue=mail&id=b&state=pending", url.Values{"verb": {"delete"}})), "The job is deleted")
}

func TestAct_DecisionsAboutCheckedRows(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Authorize: everything})
	const odd = `a b&id=x"<é>`
	s.die("mail", odd, "email", "no route")
	s.die("mail", "b", "email", "no route")
	s.die("other", "c", "email", "no route")
	s.die("mail", "d", "email", "no route")
	row := func(queue, id string) string { return url.Values{"queue": {queue}, "id": {id}}.Encode() }
	has(t, s.get(200, "jobs?state=dead"), `value="id=a&#43;b%26id%3Dx%22%3C%C3%A9%3E&amp;queue=mail"`)
	to := s.post(303, "act?state=dead&error=route", url.Values{"verb": {"redrive"},
		"job": {row("mail", odd), row("mail", "b"), row("other", "c"), row("mail", "gone")}})
	if !strings.HasPrefix(to, "jobs?") || !strings.Contains(to, "state=dead") || !strings.Contains(to, "error=route") {
		t.Errorf("it goes back to %s, want the search it came from", to)
	}
	has(t, s.follow(to), "3 of 4 jobs redriven", "gone: There is no such job")
	for _, ref := range [][2]string{{"mail", odd}, {"mail", "b"}, {"other", "c"}} {
		if j := s.find(ref[0], ref[1]); j.State != broker.StatePending {
			t.Errorf("%q is %s", ref, j.State)
		}
	}
	if j := s.find("mail", "d"); j.State != broker.StateDead {
		t.Errorf("the job that was not checked is %s", j.State)
	}
}

func TestAct_ADecisionThatIsHalfDoneSaysSo(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Authorize: everything})
	s.die("a", "1", "email", "no route")
	s.die("b", "2", "email", "no route")
	s.faults.Set(faulty.Plan{{Method: "Operate", Call: 2, Fault: faulty.Unavailable}})
	row := func(queue, id string) string { return url.Values{"queue": {queue}, "id": {id}}.Encode() }
	form := url.Values{"verb": {"redrive"}, "job": {row("b", "2"), row("a", "1")}}
	has(t, s.post(503, "act?state=dead", form), "1 job redriven before this", "The store does not answer")
	s.faults.Set(faulty.Plan{{Method: "Operate", Fault: faulty.ReplyLost}})
	has(t, s.post(502, "act?state=dead", form), "may have been carried out")
}

// A refusal of one job must not hide that the store failed for others of its queue.
func TestAct_AFailureOfTheStoreBesideRefusals(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Authorize: everything})
	form := url.Values{"verb": {"cancel"}}
	s.die("mail", "0000", "email", "no route")
	for i := range 600 { // in several pages
		if i > 0 {
			s.enqueue("mail", fmt.Sprintf("%04d", i), "email")
		}
		form.Add("job", url.Values{"queue": {"mail"}, "id": {fmt.Sprintf("%04d", i)}}.Encode())
	}
	s.faults.Set(faulty.Plan{{Method: "Operate", Call: 2, Fault: faulty.Unavailable}})
	has(t, s.post(503, "act?state=pending", form), "The store does not answer")
}

func TestAct_DecisionsAboutQueues(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Authorize: everything})
	s.enqueue("mail", "a", "email")
	has(t, s.follow(s.post(303, "pause?queue=mail", nil)), "The queue mail is paused", ">paused<", `id="resume"`)
	hasNot(t, s.get(200, "queue?name=mail"), `id="pause"`)
	has(t, s.follow(s.post(303, "resume?queue=mail", nil)), "The queue mail goes on", ">open<", `id="pause"`)
	hasNot(t, s.get(200, "queue?name=mail"), `id="resume"`)
	form := url.Values{"max-depth": {"5,000"}, "keep-completed": {"7d"}, "keep-completed-count": {"100"}, "keep-dead": {"1d12h"},
		"keep-dead-count": {""}, "duplicate-span": {"30m"}, "priority-round": {"20"}}
	has(t, s.follow(s.post(303, "policy?queue=mail", form)), "has new rules", `value="5000"`, `value="7d"`, `value="36h"`, `value="20"`)
	want := inspect.Policy{MaxDepth: 5000, RetainCompleted: inspect.Retention{Age: 7 * 24 * time.Hour, Count: 100},
		RetainDead: inspect.Retention{Age: 36 * time.Hour}, DuplicateSpan: 30 * time.Minute, PriorityRound: 20}
	if p, err := s.handler.inspector.Policy(t.Context(), "mail"); err != nil || p != want {
		t.Errorf("the policy is %+v, %v; want %+v", p, err, want)
	}
	// A value that is shown rounded stays exact when it is saved unchanged.
	exact := inspect.Retention{Age: 90*time.Minute + 17*time.Second}
	if _, err := s.handler.inspector.SetPolicy(t.Context(), inspect.PolicyRequest{Queue: "mail", RetainDead: &exact}); err != nil {
		t.Fatal(err)
	}
	form = url.Values{"max-depth": {""}, "keep-completed": {"7d"}, "keep-completed-count": {"100"}, "keep-dead": {"1h30m"},
		"keep-dead-count": {""}, "duplicate-span": {"30m"}}
	s.post(303, "policy?queue=mail", form)
	if p, err := s.handler.inspector.Policy(t.Context(), "mail"); err != nil || p.RetainDead != exact || p.MaxDepth != 0 {
		t.Errorf("the policy is %+v, %v; want dead ones kept for %v, and no bound", p, err, exact.Age)
	}
	for field, value := range map[string]string{"max-depth": "many", "keep-dead": "soon", "keep-completed-count": "-1",
		"priority-round": "twice"} {
		wrong := url.Values{}
		wrong.Set(field, value)
		has(t, s.post(400, "policy?queue=mail", wrong), strings.ReplaceAll(field, "-", " "))
	}
	has(t, s.post(400, "policy?queue=mail", url.Values{"priority-round": {"3"}}), "priority round", "4 to 1000")
	s.post(404, "pause?queue=typo", nil)
	if _, err := s.handler.inspector.Queue(t.Context(), "typo"); !errors.Is(err, broker.ErrNotFound) {
		t.Errorf("pausing a queue that does not exist made it: %v", err)
	}
	has(t, s.post(409, "remove?queue=mail", nil), "Nothing was changed")
	s.follow(s.post(303, "act?queue=mail&id=a", url.Values{"verb": {"delete"}}))
	has(t, s.follow(s.post(303, "remove?queue=mail", nil)), "The queue mail is forgotten", ">0 queues.")
	has(t, s.log.String(), "action=pause queue=mail", "action=policy queue=mail", "action=remove queue=mail", "not carried out")
}

func TestAct_WithoutAnAuthorizerNothingCanBeDone(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{})
	s.die("mail", "a", "email", "no route", func(j *broker.NewJob) { j.Body.Payload = []byte("a secret") })
	for _, page := range []string{"", "queues", "queue?name=mail", "jobs?state=dead", "job?queue=mail&id=a", "dead", "workers"} {
		hasNot(t, s.get(200, page), `method="post"`, "a secret")
	}
	s.faults.Set(nil)
	for _, path := range []string{"act?queue=mail&id=a", "bulk?state=dead", "pause?queue=mail", "resume?queue=mail", "policy?queue=mail",
		"remove?queue=mail"} {
		has(t, s.post(403, path, url.Values{"verb": {"redrive"}}), "read-only")
	}
	s.get(403, "job?queue=mail&id=a&show=payload")
	hasNot(t, s.get(403, "payload?queue=mail&id=a"), "a secret")
	for _, method := range []string{"Operate", "Policy"} {
		if n := s.faults.Calls(method); n > 0 {
			t.Errorf("%s was called %d times", method, n)
		}
	}
}

func TestAct_TheAuthorizerDecidesActionByAction(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Authorize: func(r *http.Request, a Action) (string, error) {
		if a != ActionRedrive || r.Header.Get("User") != "ada" {
			return r.Header.Get("User"), errors.New("ask the <b>operators</b>")
		}
		return "ada", nil
	}})
	s.die("mail", "a", "email", "no route")
	page := s.get(200, "job?queue=mail&id=a", "User", "ada")
	has(t, page, `value="redrive"`)
	hasNot(t, page, `value="delete"`, `value="suppress"`)
	hasNot(t, s.get(200, "job?queue=mail&id=a", "User", "bob"), `value="redrive"`)
	refused := s.post(403, "act?queue=mail&id=a", url.Values{"verb": {"delete"}}, "User", "ada")
	has(t, refused, "ask the &lt;b&gt;operators&lt;/b&gt;")
	s.post(403, "bulk?state=dead", url.Values{"verb": {"delete"}}, "User", "ada")
	s.post(403, "pause?queue=mail", nil, "User", "ada")
	s.post(303, "act?queue=mail&id=a", url.Values{"verb": {"redrive"}}, "User", "ada")
	has(t, s.log.String(), "refused", "who=ada action=delete", "who=ada action=redrive queue=mail ids=[a]")
	if !slices.Equal(Actions(), []Action{"payload", "cancel", "delete", "redrive", "reschedule", "edit", "suppress", "pause", "policy",
		"remove", "schedule", "workflow", "enqueue"}) {
		t.Errorf("the actions are %v", Actions())
	}
}

func TestHandler_SurvivesWhatTheProgramSupplies(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(){"panics": func() { panic("4111") }, "ends its goroutine": runtime.Goexit} {
		s := newSite(t, Config{
			Authorize: func(r *http.Request, a Action) (string, error) {
				if r.Header.Get("User") != "ada" {
					fail()
				}
				return "ada", nil
			},
			Decode: func(context.Context, *jobs.Job) ([]byte, error) { fail(); return nil, nil },
		})
		s.enqueue("q", "a", "t", func(j *broker.NewJob) { j.Body.Payload = []byte("stored form") })
		hasNot(t, s.get(200, "job?queue=q&id=a"), `value="delete"`)
		has(t, s.post(403, "act?queue=q&id=a", url.Values{"verb": {"delete"}}), "failed to decide")
		has(t, s.get(200, "job?queue=q&id=a&show=payload", "User", "ada"), "stored form", "Decode failed")
		has(t, s.log.String(), "Authorize failed", "Decode failed")
		if s.find("q", "a").State != broker.StatePending {
			t.Errorf("Authorize %s, and the job was deleted all the same", name)
		}
	}
}

func TestAct_RequestsFromOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Authorize: everything})
	s.die("mail", "a", "email", "no route")
	form := url.Values{"verb": {"delete"}}
	for name, headers := range map[string][]string{
		"another site":        {"Sec-Fetch-Site", "cross-site"},
		"a sibling":           {"Sec-Fetch-Site", "same-site"},
		"an old browser":      {"Sec-Fetch-Site", "", "Origin", "https://evil.example"},
		"a page without name": {"Sec-Fetch-Site", "", "Origin", "null"},
	} {
		if got := s.post(403, "act?queue=mail&id=a", form, headers...); !strings.Contains(got, "another site") {
			t.Errorf("%s: %.300s", name, got)
		}
	}
	s.get(404, "act?queue=mail&id=a&verb=delete") // a link or a picture does nothing
	s.get(404, "pause?queue=mail")
	if j := s.find("mail", "a"); j.State != broker.StateDead {
		t.Fatalf("the job is %s", j.State)
	}
	has(t, s.log.String(), "another site was refused", "https://evil.example")
	s.post(413, "act", url.Values{"verb": {"delete"}, "job": {strings.Repeat("x", maxForm+1)}})
}
