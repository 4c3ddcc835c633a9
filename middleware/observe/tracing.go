package observe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/guard"
)

// TracingConfig configures Tracing. The zero value works.
type TracingConfig struct {
	// TracerProvider makes the spans. Nil means the global one,
	// otel.GetTracerProvider().
	TracerProvider trace.TracerProvider

	// Propagator writes the context of a trace to the headers of jobs and reads
	// it from there. Nil means W3C trace context and baggage, whatever the
	// global propagator is.
	Propagator propagation.TextMapPropagator

	// Links has each run begin a trace of its own (or continue that of a span in
	// the context given to Server.Run), with a link to the producer's span. By
	// default a run continues the producer's trace, as a child of the span that
	// created the job, so that a job's whole life is one trace. Links suits jobs that run days later or
	// by the thousand: nobody could read such a trace.
	Links bool

	// NoCreateSpans leaves out the span for each job of an EnqueueMany: all of
	// them continue the one span of the call.
	NoCreateSpans bool
}

// Tracing makes the spans of a job's life, by OpenTelemetry's semantic conventions
// for messaging: docs/tracing.md lists them. It is safe for concurrent use by any
// number of clients and servers.
type Tracing struct {
	cfg    TracingConfig
	tracer trace.Tracer
	w3c    bool // the propagator is the default one
	spans  spanKinds
	runs   runEnds
}

// NewTracing returns a Tracing for cfg.
func NewTracing(cfg TracingConfig) *Tracing {
	if cfg.TracerProvider == nil {
		cfg.TracerProvider = otel.GetTracerProvider()
	}
	w3c := cfg.Propagator == nil
	if w3c {
		cfg.Propagator = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
	}
	t := &Tracing{cfg: cfg, w3c: w3c, tracer: cfg.TracerProvider.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL))}
	t.spans.init()
	return t
}

// Attributes that the conventions leave to the messaging system.
const (
	attrType     = attribute.Key("messaging.jobs.type")     // of the task
	attrPriority = attribute.Key("messaging.jobs.priority") // urgent, low or bulk; absent if normal
	attrAttempt  = attribute.Key("messaging.jobs.attempt")  // failures before this run; absent if 0
	attrDelivery = attribute.Key("messaging.jobs.delivery") // deliveries before this one; absent if 0
	attrOutcome  = attribute.Key("messaging.jobs.outcome")
	attrCode     = attribute.Key("messaging.jobs.error_code")
)

// Middleware makes a span "process" of each run, as the parent of the handler's
// spans, and adds the producer's baggage to the handler's context. Use it
// outermost, so that its spans show what other middleware decides.
func (t *Tracing) Middleware() jobs.Middleware {
	return func(next jobs.Handler) jobs.Handler {
		return jobs.HandlerFunc(func(ctx context.Context, job *jobs.Job) (err error) {
			ctx, span := t.process(ctx, job.Record())
			returned := false
			defer func() {
				if returned {
					return
				}
				value := recover()
				t.ended(ctx, span, job, &jobs.PanicError{Value: value})
				if value != nil { // otherwise it was runtime.Goexit
					panic(value)
				}
			}()
			err = next.ProcessJob(ctx, job)
			returned = true
			t.ended(ctx, span, job, err)
			return err
		})
	}
}

// process begins the span of a run.
func (t *Tracing) process(ctx context.Context, j *broker.Job) (context.Context, trace.Span) {
	kind := t.spans.of(opProcess, j.Queue)
	ambient := trace.SpanFromContext(ctx)
	ctx, creation := t.extract(ctx, j.Headers)
	var span trace.Span
	switch {
	case !creation.IsValid():
		ctx, span = t.tracer.Start(ctx, kind.name, kind.options...)
	case t.cfg.Links:
		options := append(kind.options[:len(kind.options):len(kind.options)], trace.WithLinks(trace.Link{SpanContext: creation}))
		ctx, span = t.tracer.Start(trace.ContextWithSpan(ctx, ambient), kind.name, options...)
	default:
		ctx, span = t.tracer.Start(ctx, kind.name, kind.options...)
		span.AddLink(trace.Link{SpanContext: creation})
		if ambient.SpanContext().IsValid() {
			span.AddLink(trace.Link{SpanContext: ambient.SpanContext()})
		}
	}
	return ctx, span
}

// ended ends the span of a run and records its outcome.
func (t *Tracing) ended(ctx context.Context, span trace.Span, job *jobs.Job, err error) {
	defer span.End()
	if !span.IsRecording() {
		return
	}
	j := job.Record()
	ending := jobs.EndingOf(ctx, job, err)
	// With the attributes of its kind the usual run has 8. With a ninth, the SDK would need a sixth more
	// time for the span, since it then finds duplicates with a map.
	span.SetAttributes(t.runs.of(j.Worker, ending.Outcome)...)
	attributes := describeJob(j.ID, &j.Body)
	if j.Failures > 0 {
		attributes = append(attributes, attrAttempt.Int(j.Failures))
	}
	if j.Deliveries > 0 {
		attributes = append(attributes, attrDelivery.Int(j.Deliveries))
	}
	if ending.Code != "" {
		attributes = append(attributes, attrCode.String(clean(ending.Code)))
	}
	span.SetAttributes(attributes...)
	if isFailure(ending.Outcome) {
		failed(span, ending.Class, err)
	}
}

// failed marks a span as failed.
func failed(span trace.Span, class string, err error) {
	if !span.IsRecording() {
		return
	}
	if class == "" {
		class = semconv.ErrorTypeOther.Value.AsString()
	}
	// Unlike span.RecordError, this bounds the text, which may quote a whole payload.
	text := clean(guard.Text(err))
	if len(text) > maxErrorText {
		text = strings.ToValidUTF8(text[:maxErrorText], "") + "…"
	}
	span.SetAttributes(semconv.ErrorTypeKey.String(clean(class)))
	span.AddEvent(semconv.ExceptionEventName,
		trace.WithAttributes(semconv.ExceptionType(fmt.Sprintf("%T", err)), semconv.ExceptionMessage(text)))
	span.SetStatus(codes.Error, text)
}

// describeJob returns the attributes of spans about one job. They never contain
// its payload.
func describeJob(id string, b *broker.Body) []attribute.KeyValue {
	all := []attribute.KeyValue{semconv.MessagingMessageID(clean(id)), attrType.String(clean(b.Type))}
	if b.Priority != broker.PriorityNormal {
		all = append(all, attrPriority.String(priorityName(b.Priority)))
	}
	if b.CorrelationID != "" {
		all = append(all, semconv.MessagingMessageConversationID(clean(b.CorrelationID)))
	}
	return all
}

// Enqueue makes spans of enqueueing: "send" for each call and, in an EnqueueMany,
// "create" for each job. It writes their context and the caller's baggage to the
// job's headers, unless the caller has set these headers. Headers that do not fit
// beside the job's own are left out.
func (t *Tracing) Enqueue() jobs.EnqueueMiddleware {
	return func(next jobs.EnqueueFunc) jobs.EnqueueFunc {
		return func(ctx context.Context, batch []*jobs.Outgoing) {
			if len(batch) == 1 {
				t.sendOne(ctx, batch, next)
			} else {
				t.sendMany(ctx, batch, next)
			}
		}
	}
}

// sendOne makes the span of a call with one job.
func (t *Tracing) sendOne(ctx context.Context, batch []*jobs.Outgoing, next jobs.EnqueueFunc) {
	o := batch[0]
	custom := t.creation(o.Body.Headers)
	op := opSend
	if custom.IsValid() {
		op = opSendCreated
	}
	kind := t.spans.of(op, o.Queue)
	ctx, span := t.tracer.Start(ctx, kind.name, kind.options...)
	defer span.End()
	if custom.IsValid() {
		span.AddLink(trace.Link{SpanContext: custom})
	} else {
		t.inject(ctx, o)
	}
	if span.IsRecording() {
		span.SetAttributes(describeJob(o.ID, &o.Body)...)
	}
	next(ctx, batch)
	sent(span, o)
}

// sendMany makes the spans of a call with several jobs.
func (t *Tracing) sendMany(ctx context.Context, batch []*jobs.Outgoing, next jobs.EnqueueFunc) {
	op := opSendCreated
	if t.cfg.NoCreateSpans {
		op = opSend
	}
	kind := t.spans.of(op, commonQueue(len(batch), func(i int) string { return batch[i].Queue }))
	sending, send := t.tracer.Start(ctx, kind.name, kind.options...)
	defer send.End()
	if send.IsRecording() {
		send.SetAttributes(semconv.MessagingBatchMessageCount(len(batch)))
	}
	creates := make([]trace.Span, len(batch))
	defer func() { // also after a panic
		for _, create := range creates {
			if create != nil {
				create.End()
			}
		}
	}()
	for i, o := range batch {
		created := t.creation(o.Body.Headers)
		switch {
		case created.IsValid():
		case t.cfg.NoCreateSpans:
			t.inject(sending, o)
			continue
		default:
			kind := t.spans.of(opCreate, o.Queue)
			var creating context.Context
			creating, creates[i] = t.tracer.Start(ctx, kind.name, kind.options...)
			t.inject(creating, o)
			if created = creates[i].SpanContext(); creates[i].IsRecording() {
				creates[i].SetAttributes(describeJob(o.ID, &o.Body)...)
			}
		}
		if i < maxLinks && send.IsRecording() {
			send.AddLink(trace.Link{SpanContext: created, Attributes: []attribute.KeyValue{semconv.MessagingMessageID(clean(o.ID))}})
		}
	}
	next(sending, batch)
	var refused *jobs.Outgoing
	for i, o := range batch {
		if creates[i] != nil {
			sent(creates[i], o)
		}
		if refused == nil && o.Err != nil && !errors.Is(o.Err, jobs.ErrDuplicate) {
			refused = o
		}
	}
	if refused != nil {
		sent(send, refused)
	}
}

// sent records the store's answer for a job.
func sent(span trace.Span, o *jobs.Outgoing) {
	switch {
	case o.Err == nil || !span.IsRecording():
	case errors.Is(o.Err, jobs.ErrDuplicate): // an answer, not a failure
		span.SetAttributes(attrOutcome.String("duplicate"))
	default:
		failed(span, refusal(o.Err), o.Err)
	}
}

// Hooks makes spans of servers' calls to the store: "receive" for each claim and
// reclaim that returned jobs or failed, "settle" for each attempt to settle. A
// call is about many jobs, so its span is in a separate trace and links to the spans that created the
// jobs.
func (t *Tracing) Hooks() jobs.Hooks {
	return jobs.Hooks{
		Claim:   func(e jobs.ClaimEvent) { t.received(e.Jobs, e.Took, e.Err) },
		Reclaim: func(e jobs.ReclaimEvent) { t.received(e.Jobs, e.Took, e.Err) },
		Settle:  t.settled,
	}
}

func (t *Tracing) received(list []broker.Job, took time.Duration, err error) {
	if len(list) == 0 && err == nil {
		return
	}
	span, end := t.batch(opReceive, took, len(list), func(i int) *broker.Job { return &list[i] }, nil)
	if err != nil {
		failed(span, storeError(err), err)
	}
	end()
}

func (t *Tracing) settled(e jobs.SettleEvent) {
	span, end := t.batch(opSettle, e.Took, len(e.Items), func(i int) *broker.Job { return e.Items[i].Job }, func(i int) attribute.KeyValue {
		if i < len(e.Verdicts) {
			return attrOutcome.String(settledAs(e.Items[i].Outcome, &e.Verdicts[i]))
		}
		return attrOutcome.String("unsettled")
	})
	if e.Err != nil {
		failed(span, storeError(e.Err), e.Err)
	}
	end()
}

// batch makes the span of a call that is over, with links to its jobs.
func (t *Tracing) batch(op operation, took time.Duration, n int, job func(int) *broker.Job,
	outcome func(int) attribute.KeyValue) (trace.Span, func()) {
	kind := t.spans.of(op, commonQueue(n, func(i int) string { return job(i).Queue }))
	now := time.Now()
	_, span := t.tracer.Start(context.Background(), kind.name,
		append(kind.options[:len(kind.options):len(kind.options)], trace.WithTimestamp(now.Add(-took)))...)
	end := func() { span.End(trace.WithTimestamp(now)) }
	if !span.IsRecording() {
		return span, end
	}
	span.SetAttributes(semconv.MessagingBatchMessageCount(n))
	each := 1
	if outcome != nil {
		each++
	}
	attributes := make([]attribute.KeyValue, 0, each*min(n, maxLinks)) // one allocation for all links
	for i := range min(n, maxLinks) {
		j := job(i)
		creation := t.creation(j.Headers)
		if !creation.IsValid() {
			continue
		}
		first := len(attributes)
		attributes = append(attributes, semconv.MessagingMessageID(clean(j.ID)))
		if outcome != nil {
			attributes = append(attributes, outcome(i))
		}
		span.AddLink(trace.Link{SpanContext: creation, Attributes: attributes[first:len(attributes):len(attributes)]})
	}
	return span, end
}

// storeError returns the error type of a failed call to the store.
func storeError(err error) string {
	switch {
	case broker.MayHaveApplied(err):
		return failureNames[failedUnknown]
	case errors.Is(err, broker.ErrUnavailable):
		return failureNames[failedUnavailable]
	}
	return failureNames[failedRefused]
}
