package integration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed81422ce9/jobs/middleware/observe"

	"github.com/seed81422ce9/jobs/inspect"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/testenv"
)

// tracedTree is the single trace of everything that traced.life does. Each
// delivery is a span below the span that created its job, even after a crash or a
// redrive.
const tracedTree = `
request [internal]
  send work [producer] outlives
    process work [consumer] outlives outcome=completed, links to its parent
  send work [producer] fails
    process work [consumer] fails outcome=retried error=retryable "not yet", links to its parent
    process work [consumer] fails attempt=1 outcome=completed, links to its parent
      send work [producer] follows
        process work [consumer] follows outcome=completed, links to its parent
  send work [producer] dies
    process work [consumer] dies outcome=dead error=permanent "skip retry for this job: no", links to its parent
    process work [consumer] dies outcome=completed, links to its parent
  send work [client] of 2, links to one, two
  create work [producer] one
    process work [consumer] one outcome=completed, links to its parent
  create work [producer] two
    process work [consumer] two outcome=completed, links to its parent
`

// tracedCalls shows the links of the spans of claims, reclaims and settles. Each
// of these spans has its own trace.
const tracedCalls = `
outlives: received 2 times, settled as crashed, completed
fails: received 2 times, settled as retried, completed
follows: received 1 times, settled as completed
dies: received 2 times, settled as dead, completed
one: received 1 times, settled as completed
two: received 1 times, settled as completed
`

func TestProgram_AJobsWholeLifeIsOneTraceOnEveryStore(t *testing.T) {
	t.Parallel()
	for name, place := range map[string]func(testing.TB) string{
		"memory": func(testing.TB) string { return "memory://" }, "redis": testenv.RedisPlace, "postgres": testenv.PostgresPlace,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTraced(t, place(t))
			request := s.life(t)
			spans := s.exporter.GetSpans()
			if got := drawTree(spans, request.TraceID()); got != tracedTree {
				t.Errorf("the trace\ngot:%s\nwant:%s", got, tracedTree)
			}
			if got := drawCalls(spans, request.TraceID()); got != tracedCalls {
				t.Errorf("the calls to the store\ngot:%s\nwant:%s", got, tracedCalls)
			}
			for _, text := range s.baggage {
				if text != "tenant=acme" {
					t.Errorf("a handler got the baggage %q, want that of the request", text)
				}
			}
		})
	}
}

// traced is a store with a traced client and server.
type traced struct {
	broker   broker.Broker
	exporter *tracetest.InMemoryExporter
	tracer   trace.Tracer
	tracing  *observe.Tracing
	client   *jobs.Client
	settled  chan string // type and state
	baggage  []string    // that handlers got; they run one by one
}

func newTraced(t *testing.T, url string) *traced {
	t.Helper()
	if err := backends.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	b, err := backends.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	s := &traced{broker: b, exporter: tracetest.NewInMemoryExporter(), settled: make(chan string, 100)}
	provider := sdk.NewTracerProvider(sdk.WithSyncer(s.exporter))
	s.tracer = provider.Tracer("test")
	s.tracing = observe.NewTracing(observe.TracingConfig{TracerProvider: provider})
	s.client = jobs.NewClient(b, jobs.ClientConfig{
		Defaults:   []jobs.Option{jobs.WithQueue(queue)},
		Middleware: []jobs.EnqueueMiddleware{s.tracing.Enqueue()},
	})
	t.Cleanup(func() { s.client.Close() })
	return s
}

// life runs jobs for one request: they outlive their worker, fail and are retried,
// enqueue others, die and are redriven.
func (s *traced) life(t *testing.T) trace.SpanContext {
	t.Helper()
	bag, err := baggage.Parse("tenant=acme")
	if err != nil {
		t.Fatal(err)
	}
	ctx, request := s.tracer.Start(baggage.ContextWithBaggage(t.Context(), bag), "request")
	s.enqueue(t, ctx, "outlives")
	s.claimAndDie(t)

	server, err := jobs.NewServer(s.broker, jobs.Config{
		Queues: map[string]int{queue: 1}, Concurrency: 1, Lease: 3 * time.Second, // a loaded machine renews late
		RetryPolicy: jobs.Constant(time.Millisecond),
		Middleware:  []jobs.Middleware{s.tracing.Middleware()},
		Hooks:       jobs.JoinHooks(s.tracing.Hooks(), jobs.Hooks{Settle: s.noteSettled}),
		Logger:      slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(context.Background(), jobs.HandlerFunc(s.handle)); err != nil {
		t.Fatal(err)
	}
	defer server.Shutdown(context.Background())
	s.await(t, "outlives completed")

	s.enqueue(t, ctx, "fails")
	s.await(t, "fails completed", "follows completed")

	id := s.enqueue(t, ctx, "dies")
	s.await(t, "dies dead")
	report, err := inspect.New(s.broker).Select(inspect.Query{Queue: queue, IDs: []string{id}}).Redrive(t.Context())
	if err != nil || report.Done != 1 {
		t.Fatalf("redrive: %+v, %v", report, err)
	}
	s.await(t, "dies completed")

	if _, err := s.client.EnqueueMany(ctx, []*jobs.Task{jobs.NewTask("one", nil), jobs.NewTask("two", nil)}); err != nil {
		t.Fatal(err)
	}
	s.await(t, "one completed", "two completed")
	request.End()
	if err := server.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	return request.SpanContext()
}

func (s *traced) enqueue(t *testing.T, ctx context.Context, typ string) string {
	t.Helper()
	info, err := s.client.Enqueue(ctx, jobs.NewTask(typ, nil))
	if err != nil {
		t.Fatal(err)
	}
	return info.ID
}

// claimAndDie registers a worker that claims the only job and then does nothing
// more.
func (s *traced) claimAndDie(t *testing.T) {
	t.Helper()
	_, err := s.broker.Renew(t.Context(), broker.RenewRequest{Worker: "victim", Queues: []string{queue}, Lease: 100 * time.Millisecond,
		Register: true})
	var claimed broker.Claimed
	if err == nil {
		claimed, err = s.broker.Claim(t.Context(), broker.ClaimRequest{Worker: "victim", Queues: []broker.Share{{Queue: queue, Max: 1}}, Max: 1})
	}
	if err != nil || len(claimed.Jobs) != 1 {
		t.Fatalf("claimed %d jobs, %v", len(claimed.Jobs), err)
	}
}

func (s *traced) handle(ctx context.Context, job *jobs.Job) error {
	s.baggage = append(s.baggage, baggage.FromContext(ctx).String())
	switch {
	case job.Type() == "fails" && job.Attempt() == 0:
		return errors.New("not yet")
	case job.Type() == "fails":
		_, err := s.client.Enqueue(ctx, jobs.NewTask("follows", nil))
		return err
	case job.Type() == "dies" && job.Delivery() == 0:
		return fmt.Errorf("%w: no", jobs.SkipRetry)
	}
	return nil
}

func (s *traced) noteSettled(e jobs.SettleEvent) {
	for i, v := range e.Verdicts {
		s.settled <- e.Items[i].Job.Type + " " + v.State.String()
	}
}

// await waits until all these jobs are settled, in any order.
func (s *traced) await(t *testing.T, all ...string) {
	t.Helper()
	left := slices.Clone(all)
	timer := time.NewTimer(soon)
	defer timer.Stop()
	for len(left) > 0 {
		select {
		case got := <-s.settled:
			left = slices.DeleteFunc(left, func(want string) bool { return want == got })
		case <-timer.C:
			t.Fatalf("these were not settled: %q", left)
		}
	}
}

// attributesOf returns the attributes of a span or a link, by name.
func attributesOf(list []attribute.KeyValue) map[string]string {
	all := make(map[string]string)
	for _, a := range list {
		all[strings.TrimPrefix(string(a.Key), "messaging.")] = a.Value.String()
	}
	return all
}

// drawTree formats a trace, with its spans in the order of their starts.
func drawTree(spans tracetest.SpanStubs, of trace.TraceID) string {
	types := make(map[trace.SpanID]string)
	for _, span := range spans {
		types[span.SpanContext.SpanID()] = attributesOf(span.Attributes)["jobs.type"]
	}
	slices.SortStableFunc(spans, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
	var b strings.Builder
	b.WriteByte('\n')
	var draw func(parent trace.SpanID, indent string)
	draw = func(parent trace.SpanID, indent string) {
		for _, span := range spans {
			if span.SpanContext.TraceID() != of || span.Parent.SpanID() != parent {
				continue
			}
			fmt.Fprintf(&b, "%s%s%s\n", indent, drawSpan(&span), drawLinks(&span, types))
			draw(span.SpanContext.SpanID(), indent+"  ")
		}
	}
	draw(trace.SpanID{}, "")
	return b.String()
}

func drawSpan(span *tracetest.SpanStub) string {
	a := attributesOf(span.Attributes)
	text := fmt.Sprintf("%s [%v]", span.Name, span.SpanKind)
	if typ := a["jobs.type"]; typ != "" {
		text += " " + typ
	}
	if n := a["batch.message_count"]; n != "" {
		text += " of " + n
	}
	if a["operation.type"] == "process" {
		if attempt, again := a["jobs.attempt"]; again {
			text += " attempt=" + attempt
		}
		text += " outcome=" + a["jobs.outcome"]
	}
	if span.Status.Code == codes.Error || a["error.type"] != "" {
		text += fmt.Sprintf(" error=%s %q", a["error.type"], span.Status.Description)
	}
	return text
}

func drawLinks(span *tracetest.SpanStub, types map[trace.SpanID]string) string {
	var to []string
	for _, link := range span.Links {
		if link.SpanContext.Equal(span.Parent) {
			to = append(to, "its parent")
		} else {
			to = append(to, types[link.SpanContext.SpanID()])
		}
	}
	if len(to) == 0 {
		return ""
	}
	return ", links to " + strings.Join(to, ", ")
}

// drawCalls formats for each job, in the order of creation, which spans outside of
// the trace link to it.
func drawCalls(spans tracetest.SpanStubs, except trace.TraceID) string {
	slices.SortStableFunc(spans, func(a, b tracetest.SpanStub) int {
		return cmp.Or(a.EndTime.Compare(b.EndTime), a.StartTime.Compare(b.StartTime))
	})
	received := make(map[string]int)
	settled := make(map[string][]string)
	for _, span := range spans {
		if span.SpanContext.TraceID() == except {
			continue
		}
		for _, link := range span.Links {
			id := attributesOf(link.Attributes)["message.id"]
			switch span.Name {
			case "receive " + queue:
				received[id]++
			case "settle " + queue:
				settled[id] = append(settled[id], attributesOf(link.Attributes)["jobs.outcome"])
			}
		}
	}
	var b strings.Builder
	b.WriteByte('\n')
	slices.SortStableFunc(spans, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
	for _, span := range spans {
		if a := attributesOf(span.Attributes); span.SpanKind == trace.SpanKindProducer {
			id := a["message.id"]
			fmt.Fprintf(&b, "%s: received %d times, settled as %s\n", a["jobs.type"], received[id], strings.Join(settled[id], ", "))
		}
	}
	return b.String()
}
