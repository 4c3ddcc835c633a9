package dashboard

import (
	"errors"
	"html"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
)

var (
	inputs     = regexp.MustCompile(`<input [^>]*>`)
	attributes = regexp.MustCompile(` (name|value)="([^"]*)"`)
)

// formTo returns the fields of the form of a page that is sent to a path, and the URL.
func formTo(t *testing.T, page, path string) (to string, fields url.Values) {
	t.Helper()
	for form := range strings.SplitSeq(page, "<form ") {
		form, _, _ = strings.Cut(form, "</form>")
		if _, to, _ = strings.Cut(form, `action="`); !strings.HasPrefix(to, path+"?") || !strings.Contains(form, "<input ") {
			continue
		}
		to, _, _ = strings.Cut(to, `"`)
		fields = url.Values{}
		for _, input := range inputs.FindAllString(form, -1) {
			of := make(map[string]string)
			for _, a := range attributes.FindAllStringSubmatch(input, -1) {
				of[a[1]] = html.UnescapeString(a[2])
			}
			fields.Add(of["name"], of["value"])
		}
		return html.UnescapeString(to), fields
	}
	t.Fatalf("there is no form to %s with fields:\n%.2000s", path, body(page))
	return "", nil
}

func TestPolicy_APageOpenedEarlierChangesOnlyWhatItsUserChanged(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Authorize: everything})
	s.enqueue("mail", "a", "email", func(j *broker.NewJob) { j.Body.Key = "acme" })
	for _, c := range []struct{ page, form, key string }{{"queue?name=mail", "policy", ""}, {"keys?queue=mail&key=acme", "key", "acme"}} {
		set := func(req inspect.PolicyRequest) {
			t.Helper()
			req.Queue, req.Key = "mail", c.key
			if _, err := s.handler.inspector.SetPolicy(t.Context(), req); err != nil {
				t.Fatal(err)
			}
		}
		rules := func() inspect.Policy {
			t.Helper()
			p, err := s.handler.inspector.Policy(t.Context(), "mail")
			if c.key != "" {
				one, failed := s.handler.inspector.Key(t.Context(), "mail", c.key)
				p, err = one.Policy, failed
			}
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		five, seven, none := int64(5), int64(7), int64(broker.NoLimit)
		set(inspect.PolicyRequest{MaxActive: &five})
		to, form := formTo(t, s.get(200, c.page), c.form)

		// Meanwhile somebody else removes one rule and sets another.
		set(inspect.PolicyRequest{MaxActive: &none, Rate: &inspect.Rate{Jobs: 10, Per: time.Minute}})
		form.Set("max-depth", "100")
		s.post(303, to, form)
		if p := rules(); p.MaxActive != 0 || p.Rate.Jobs != 10 || p.Rate.Per != time.Minute || p.MaxDepth != 100 {
			t.Errorf("%s: the rules are %+v; want a depth of 100 from the form, and else what was set meanwhile", c.page, p)
		}

		// A form without a field leaves its rule alone, an empty field removes it.
		set(inspect.PolicyRequest{MaxActive: &seven})
		s.post(303, to, url.Values{"max-depth": {""}})
		if p := rules(); p.MaxActive != 7 || p.MaxDepth != 0 {
			t.Errorf("%s: after a form of the depth alone the rules are %+v", c.page, p)
		}
	}
}

// Spaces belong to a key: acme is another tenant.
func TestPolicy_AKeyThatEndsWithASpaceIsPausedAndNotAnother(t *testing.T) {
	t.Parallel()
	s := newSite(t, Config{Authorize: everything})
	for _, key := range []string{"acme", "acme "} {
		s.enqueue("mail", "of "+key, "email", func(j *broker.NewJob) { j.Body.Key = key })
	}
	page := s.get(200, "keys?queue=mail&key=acme+")
	has(t, page, `action="key?key=acme&#43;&amp;queue=mail"`)
	s.post(303, "key?key=acme+&queue=mail", url.Values{"verb": {"pause"}})
	has(t, s.get(200, "keys?queue=mail&key=acme+"), "paused")
	hasNot(t, s.get(200, "keys?queue=mail&key=acme"), "paused</span>")
	for _, form := range []url.Values{{"verb": {"pause"}}, {"verb": {"resume"}}, {"max-active": {"1"}}} {
		s.post(404, "key?key=acme&queue=gone", form)
	}
	if _, err := s.handler.inspector.Queue(t.Context(), "gone"); !errors.Is(err, broker.ErrNotFound) {
		t.Errorf("a rule for a key made its queue: %v", err)
	}
}
