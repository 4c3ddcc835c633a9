package observe

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

// Prometheus answers a scrape with an error, and OTLP drops what it should send, if one text is not UTF-8.
// The library refuses such types, keys and IDs, but another program may have stored them.
func TestMetricsBounds_ALabelThatIsNotUTF8SpoilsNoScrape(t *testing.T) {
	t.Parallel()
	m := newMeasured(t, MetricsConfig{Keys: 10})
	job := broker.Job{Queue: "q\xff", ID: "a", Body: broker.Body{Type: "t\xff", Key: "k\xff"}}
	hooks := m.metrics.Hooks()
	for range 2 {
		hooks.Claim(jobs.ClaimEvent{Jobs: []broker.Job{job}})
	}
	hooks.Settle(jobs.SettleEvent{Items: []broker.Settlement{{Job: &job,
		Outcome: broker.Retry(0, broker.Failure{Class: "c\xff", Message: "no"})}}, Verdicts: []broker.Verdict{{State: broker.StatePending}}})
	all := values(t, m.registry)
	const labels = "key=k\ufffd,priority=normal,queue=q\ufffd,type=t\ufffd}"
	if got := all["jobs_claimed_total{"+labels]; got != 2 {
		t.Errorf("two claims were counted as %v in %v", got, all)
	}
	if got := all["jobs_failed_total{class=c\ufffd,"+labels]; got != 1 {
		t.Errorf("a failure was counted as %v in %v", got, all)
	}
}

func TestTracing_TextsOfOthersAreBoundedAndUTF8(t *testing.T) {
	t.Parallel()
	r := record(TracingConfig{})
	failure := jobs.Classified(errors.New("no user \xff"+strings.Repeat("é", 1<<20)), jobs.Classification{Code: "c\xff", Class: "c\xff"})
	_ = r.run(t.Context(), &broker.Job{Queue: "q\xff", ID: "a\xff", Worker: "w", Body: broker.Body{Type: "t\xff", CorrelationID: "c\xff",
		MaxRetries: 3}}, func(context.Context) error { return failure })
	span := r.only(t)
	texts := textsOf(span)
	if len(texts) < 10 || !strings.HasPrefix(span.Status().Description, "no user \ufffdéé") {
		t.Errorf("the span has the texts %.1000q", texts)
	}
	for _, text := range texts {
		if !utf8.ValidString(text) || len(text) > maxErrorText+len("…") {
			t.Errorf("a text of %d bytes is in the span: %.60q", len(text), text)
		}
	}
}

func TestTracing_AnIDThatIsNotUTF8SpoilsNoLink(t *testing.T) {
	t.Parallel()
	r := record(TracingConfig{})
	client, _ := enqueueThrough(t, r.Tracing)
	receipts, err := client.EnqueueMany(t.Context(), []*jobs.Task{jobs.NewTask("t", nil, jobs.WithID("a\xff")), jobs.NewTask("t", nil)})
	if err == nil || !errors.Is(receipts[0].Err, jobs.ErrInvalid) || receipts[1].Err != nil {
		t.Fatalf("a job whose ID is not UTF-8, and a valid one: %v", receipts)
	}
	for _, span := range r.spans.Ended() {
		for _, text := range textsOf(span) {
			if !utf8.ValidString(text) {
				t.Errorf("the span %q has the text %q", span.Name(), text)
			}
		}
	}
}

// textsOf returns the texts in a span, in its events and in its links.
func textsOf(span trace.ReadOnlySpan) []string {
	texts := []string{span.Name(), span.Status().Description}
	list := slices.Clone(span.Attributes())
	for _, e := range span.Events() {
		list = append(list, e.Attributes...)
	}
	for _, l := range span.Links() {
		list = append(list, l.Attributes...)
	}
	for _, a := range list {
		if a.Value.Type() == attribute.STRING {
			texts = append(texts, a.Value.AsString())
		}
	}
	return texts
}

// faulty is an error whose text cannot be read.
type faulty struct{ panics bool }

func (e faulty) Error() string {
	if !e.panics {
		runtime.Goexit()
	}
	panic("no text")
}

func TestTracing_AnErrorWhoseTextCannotBeReadComesThrough(t *testing.T) {
	t.Parallel()
	for _, want := range []error{faulty{panics: true}, faulty{}, (*jobs.PanicError)(nil)} {
		r := record(TracingConfig{})
		var got any
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() {
				if value := recover(); value != nil {
					got = value
				}
			}()
			got = r.run(t.Context(), &broker.Job{Queue: "q"}, func(context.Context) error { return want })
		}()
		<-done
		if got != want {
			t.Errorf("a %T came through the middleware as %v", want, got)
		}
		if span := r.only(t); span.Status().Code != codes.Error {
			t.Errorf("after a %T the span says %v", want, span.Status())
		}
	}
}
