package dashboard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/conformance/faulty"
	"github.com/seed81422ce9/jobs/workflow"
)

func TestWorkflows_AreListedAndShown(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{})
	has(t, s.get(200, "workflows"), "There are no workflows here")
	ship := step("ship")
	ship.Compensate = jobs.NewTask("order:unship", nil)
	s.workflow("order-42", workflow.Chain(step("reserve"), workflow.Node{Name: "approval", Signal: "approve"}, ship,
		workflow.Node{Name: "inner", Workflow: workflow.New("").Add(step("pack"))}))
	page := s.get(200, "workflows")
	has(t, page, `href="workflow?id=order-42"`, ">running<", "1 of 1 workflows", `href="workflows" aria-current="page"`)
	has(t, s.get(200, "workflows?state=failed"), "0 of 1 workflows")
	has(t, s.get(400, "workflows?state=tired"), "There is no state")

	page = s.get(200, "workflow?id=order-42")
	has(t, page, "Level 1", "Level 4", ">reserve<", `href="job?id=order-42.`, "signal <bdi>approve</bdi>", ">orders<",
		`<bdi>approval</bdi></td>`, `href="workflow?id=order-42.`)
	hasNot(t, page, "secret", "Decide") // it is read-only
	inner := page[strings.LastIndex(page, `href="workflow?id=`)+len(`href="`):]
	inner, _, _ = strings.Cut(inner, `"`)
	has(t, s.get(200, inner), ">pack<", "the parent workflow")
	has(t, s.get(404, "workflow?id=nothing"), "There is no such workflow")
	has(t, s.get(404, "workflow?id=order-42&level=9"), "There is no such level")
	s.get(400, "workflow")
	s.faults.Set(faulty.Plan{{Method: "Find", Fault: faulty.Unavailable}})
	has(t, s.get(503, "workflows"), "The store does not answer")
}

// A level with very many nodes is cut, and has its own page.
func TestWorkflows_LargeLevelsAreCut(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{})
	var parts []workflow.Part
	for i := range 1000 {
		parts = append(parts, step(fmt.Sprintf("n%04d", i)))
	}
	s.workflow("large", workflow.Chord(step("sum"), parts...))
	page := s.get(200, "workflow?id=large")
	has(t, page, "1,000", "950 more are not shown", ">n0049<", ">sum<")
	hasNot(t, page, ">n0050<")
	alone := page[strings.Index(page, `href="workflow?id=large&amp;level=`)+len(`href="`):]
	alone, _, _ = strings.Cut(alone, `"`)
	page = s.get(200, strings.ReplaceAll(alone, "&amp;", "&"))
	has(t, page, ">n0999<", "all levels")
	hasNot(t, page, ">sum<", "left out")
}

func TestWorkflows_DecisionsAreGuarded(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Authorize: func(r *http.Request, a Action) (string, error) {
		if a != ActionWorkflow || r.Header.Get("User") != "ada" {
			return r.Header.Get("User"), errors.New("ask the operators")
		}
		return "ada", nil
	}})
	client := jobs.NewClient(s.store, jobs.ClientConfig{})
	defer client.Close()
	server, err := jobs.NewServer(s.store, jobs.Config{Queues: map[string]int{"orders": 1}, Logger: slog.New(slog.DiscardHandler),
		Extensions: []jobs.Extension{workflow.Extension(client, workflow.ExtensionConfig{})}})
	mended := make(chan bool, 1)
	if err == nil {
		err = server.Start(context.Background(), jobs.HandlerFunc(func(_ context.Context, j *jobs.Job) error {
			if j.Type() == "order:ship" && len(mended) == 0 {
				return jobs.SkipRetry
			}
			return nil
		}))
	}
	if err != nil {
		t.Fatal(err)
	}
	defer server.Shutdown(context.Background())
	s.workflow("order-1", workflow.Chain(step("reserve"), step("ship")))
	s.workflow("order-2", workflow.Node{Name: "approval", Signal: "approve"})
	end := func(id string) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, _ = workflow.Wait(ctx, client, id) // the page shows the result
	}
	end("order-1")
	decide := func(id, verb string) string {
		return s.get(200, s.post(303, link("workflow", "id", id), url.Values{"verb": {verb}}, "User", "ada"), "User", "ada")
	}
	page := s.get(200, "workflow?id=order-1", "User", "ada")
	has(t, page, `value="retry"`, `value="delete"`, ">failed<", "is dead")
	hasNot(t, page, `value="cancel"`)
	has(t, s.get(200, "workflow?id=order-2", "User", "ada"), `value="cancel"`)
	hasNot(t, s.get(200, "workflow?id=order-1", "User", "bob"), `value="retry"`)
	s.post(403, "workflow?id=order-1", url.Values{"verb": {"delete"}}, "User", "bob")
	s.post(403, "workflow?id=order-1", url.Values{"verb": {"delete"}}, "User", "ada", "Sec-Fetch-Site", "cross-site")
	s.post(400, "workflow?id=order-1", url.Values{"verb": {"explode"}}, "User", "ada")
	s.post(404, "workflow?id=nothing", url.Values{"verb": {"cancel"}}, "User", "ada")

	mended <- true
	has(t, decide("order-1", "retry"), "The workflow order-1 goes on")
	end("order-1")
	has(t, s.get(200, "workflow?id=order-1"), ">completed<")
	has(t, s.post(409, "workflow?id=order-1", url.Values{"verb": {"retry"}}, "User", "ada"), "only failed ones can be retried")
	has(t, decide("order-2", "cancel"), "The workflow order-2 will be cancelled")
	end("order-2")
	has(t, s.get(200, "workflow?id=order-2"), "cancelled by ada")
	has(t, decide("order-2", "delete"), "The workflow order-2 is deleted", "1 of 1 workflows")
	if _, err := workflow.Get(t.Context(), client, "order-2"); !errors.Is(err, broker.ErrNotFound) {
		t.Errorf("after it was deleted: %v", err)
	}
	has(t, s.log.String(), "who=ada action=retry workflow=order-1", "who=ada action=cancel workflow=order-2", "who=bob action=workflow")
}
