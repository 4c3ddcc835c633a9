package observe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	api "go.opentelemetry.io/otel/trace"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

// greedy propagates baggage of any size, which OpenTelemetry's propagator refuses.
type greedy struct {
	propagation.TraceContext
	bytes int
	got   int
}

func (g *greedy) Inject(ctx context.Context, c propagation.TextMapCarrier) {
	c.Set("baggage", strings.Repeat("x", g.bytes))
	g.TraceContext.Inject(ctx, c)
}

func (g *greedy) Extract(ctx context.Context, c propagation.TextMapCarrier) context.Context {
	g.got = len(c.Get("baggage"))
	return g.TraceContext.Extract(ctx, c)
}

func TestTracingHeaders_AMegabyteOfBaggageIsLeftOutAndTheJobIsStored(t *testing.T) {
	t.Parallel()
	var headers map[string]string
	var client *jobs.Client
	for bytes, want := range map[int]string{1 << 20: "traceparent", 10_000: "traceparent", 8192 - len("baggage"): "baggage traceparent"} {
		r := record(TracingConfig{Propagator: &greedy{bytes: bytes}})
		var b broker.Broker
		client, b = enqueueThrough(t, r.Tracing)
		info, err := client.Enqueue(t.Context(), jobs.NewTask("t", nil))
		if err != nil {
			t.Fatalf("with %d bytes of baggage a job was refused: %v", bytes, err)
		}
		headers = stored(t, b, info.ID).Headers
		if got := strings.Join(slices.Sorted(maps.Keys(headers)), " "); got != want {
			t.Errorf("with %d bytes of baggage the job has headers %s, want %s", bytes, got, want)
		}
	}

	// If the caller sets a header that is too large, Enqueue returns an error.
	_, err := client.Enqueue(t.Context(), jobs.NewTask("t", nil), jobs.WithHeader("baggage", "a="+strings.Repeat("x", 1<<20)))
	if !errors.Is(err, jobs.ErrTooLarge) || !strings.Contains(err.Error(), "header") {
		t.Errorf("a header of 1 MB: %v; want that it is too large", err)
	}

	// Another producer may send as much as the store takes.
	headers["baggage"] = "a=" + strings.Repeat("x", broker.MaxHeaderBytes-200)
	any := &greedy{}
	_ = record(TracingConfig{Propagator: any}).run(t.Context(), &broker.Job{Queue: "q", Body: broker.Body{Headers: headers}},
		func(context.Context) error { return nil })
	if any.got != 0 {
		t.Errorf("a propagator was shown %d bytes of baggage", any.got)
	}
	r := record(TracingConfig{})
	_ = r.run(t.Context(), &broker.Job{Queue: "q", Body: broker.Body{Headers: headers}}, func(ctx context.Context) error {
		if n := baggage.FromContext(ctx).Len(); n != 0 {
			t.Errorf("the handler got %d members of baggage of 64 KiB", n)
		}
		return nil
	})
	if span := r.only(t); !span.Parent().IsValid() {
		t.Error("the run lost its trace for its baggage")
	}
}

func TestTracingHeaders_ATraceparentIsReadAsThePropagatorReadsIt(t *testing.T) {
	t.Parallel()
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	texts := []string{"", good, good + "-x", good[:54], "00-00000000000000000000000000000000-b7ad6b7169203331-01", strings.ToUpper(good),
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", strings.Repeat("-", 55)}
	for i := range len(good) {
		texts = append(texts, good[:i]+"x"+good[i+1:], good[:i]+"-"+good[i+1:])
	}
	for flags := range 256 {
		texts = append(texts, fmt.Sprintf("%s%02x", good[:53], flags))
	}
	for _, text := range texts {
		ctx := propagation.TraceContext{}.Extract(t.Context(), propagation.MapCarrier{"traceparent": text})
		if got, want := parseTraceparent(text), api.SpanContextFromContext(ctx); !got.Equal(want) {
			t.Errorf("%q is read as %+v, want %+v", text, got, want)
		}
	}
}

func TestTracingHeaders_TracingNeverMakesAJobRefused(t *testing.T) {
	t.Parallel()
	many := make(map[string]string)
	for i := range broker.MaxHeaders {
		many[fmt.Sprint(i)] = "x"
	}
	client, _ := enqueueThrough(t, record(TracingConfig{}).Tracing)
	for name, option := range map[string]jobs.Option{
		"as many headers as can be":     jobs.WithHeaders(many),
		"headers as large as can be":    jobs.WithHeader("x", strings.Repeat("x", broker.MaxHeaderBytes-1)),
		"one that tracing would change": jobs.WithHeader("traceparent", strings.Repeat("x", broker.MaxHeaderBytes-11)),
	} {
		if _, err := client.Enqueue(t.Context(), jobs.NewTask("t", nil), option); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTracingHeaders_TheContextOfATraceIsWrittenAsThePropagatorWritesIt(t *testing.T) {
	t.Parallel()
	state, err := api.ParseTraceState("vendor=x")
	if err != nil {
		t.Fatal(err)
	}
	member, err := baggage.NewMemberRaw("tenant", "a b")
	if err != nil {
		t.Fatal(err)
	}
	bag, err := baggage.New(member)
	if err != nil {
		t.Fatal(err)
	}
	ids := api.SpanContextConfig{TraceID: api.TraceID{1, 0xab}, SpanID: api.SpanID{0xcd, 2}}
	for name, c := range map[string]struct {
		span api.SpanContextConfig
		bag  baggage.Baggage
	}{
		"nothing":           {},
		"baggage alone":     {bag: bag},
		"a span":            {span: ids},
		"a span, baggage":   {span: ids, bag: bag},
		"a span with state": {span: api.SpanContextConfig{TraceID: ids.TraceID, SpanID: ids.SpanID, TraceState: state}, bag: bag},
		"all flags":         {span: api.SpanContextConfig{TraceID: ids.TraceID, SpanID: ids.SpanID, TraceFlags: 0xff}},
		"sampled":           {span: api.SpanContextConfig{TraceID: ids.TraceID, SpanID: ids.SpanID, TraceFlags: api.FlagsSampled}},
	} {
		tracing := record(TracingConfig{})
		ctx := baggage.ContextWithBaggage(api.ContextWithSpanContext(t.Context(), api.NewSpanContext(c.span)), c.bag)
		want := propagation.MapCarrier{}
		tracing.cfg.Propagator.Inject(ctx, want)
		var job jobs.Outgoing
		tracing.inject(ctx, &job)
		if got := job.Body.Headers; !maps.Equal(got, want) {
			t.Errorf("%s: the headers are %v, want %v", name, got, want)
		}
		ctx = tracing.cfg.Propagator.Extract(t.Context(), want)
		got, found := tracing.extract(t.Context(), want)
		if span := api.SpanContextFromContext(ctx); !found.Equal(span) || !api.SpanContextFromContext(got).Equal(span) {
			t.Errorf("%s: read as %v in a context with %v, want %v", name, found, api.SpanContextFromContext(got), span)
		}
		if bag, want := baggage.FromContext(got).String(), baggage.FromContext(ctx).String(); bag != want {
			t.Errorf("%s: the baggage is read as %q, want %q", name, bag, want)
		}
	}
}

func TestTracingHeaders_ATraceparentOfALaterVersionIsAJobsCreation(t *testing.T) {
	t.Parallel()
	const later = "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more"
	tracing := record(TracingConfig{})
	headers := map[string]string{"traceparent": later}
	_, parent := tracing.extract(t.Context(), headers)
	if link := tracing.creation(headers); link.SpanID().String() != "b7ad6b7169203331" || !link.Equal(parent) {
		t.Errorf("of %s the link is %v and the parent %v", later, link, parent)
	}
}
