package observe

import (
	"context"
	"encoding/hex"
	"strconv"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

// maxContextBytes bounds one header of a trace, written or read: W3C's limit for
// baggage.
const maxContextBytes = 8192

// outgoing writes the context of a trace to the headers of a new job. It leaves
// out a header that is too long, does not fit beside the job's own headers, or which the job already
// has.
type outgoing struct{ o *jobs.Outgoing }

func (c outgoing) Get(key string) string { return incoming(c.o.Body.Headers).Get(key) }
func (c outgoing) Keys() []string        { return incoming(c.o.Body.Headers).Keys() }
func (c outgoing) Set(key, value string) {
	headers, size := c.o.Body.Headers, len(key)+len(value)
	if _, own := headers[key]; own || len(headers) >= broker.MaxHeaders || size > maxContextBytes {
		return
	}
	for k, v := range headers {
		size += len(k) + len(v)
	}
	if size <= broker.MaxHeaderBytes { // a job must never be refused because it is observed
		c.o.SetHeader(key, value)
	}
}

// incoming reads the context of a trace from the headers of a job. It ignores
// headers that are too long.
type incoming map[string]string

func (c incoming) Get(key string) string {
	if value := c[key]; len(value) <= maxContextBytes {
		return value
	}
	return ""
}

func (c incoming) Keys() []string {
	keys := make([]string, 0, len(c))
	for key := range c {
		keys = append(keys, key)
	}
	return keys
}

// Set does nothing: a job's headers never change.
func (c incoming) Set(string, string) {}

// inject writes the context of a trace to the headers of a new job.
func (t *Tracing) inject(ctx context.Context, o *jobs.Outgoing) {
	span := trace.SpanContextFromContext(ctx)
	if !t.w3c || !span.IsValid() || span.TraceState().Len() > 0 {
		t.cfg.Propagator.Inject(ctx, outgoing{o})
		return
	}
	outgoing{o}.Set("traceparent", formatTraceparent(span))
	propagation.Baggage{}.Inject(ctx, outgoing{o})
}

// extract returns ctx with the baggage and the span context in the headers, and
// that span context, which is not valid if the headers have none.
func (t *Tracing) extract(ctx context.Context, headers map[string]string) (context.Context, trace.SpanContext) {
	if len(headers) == 0 {
		return ctx, trace.SpanContext{}
	}
	if found, plain := t.plain(headers); plain {
		if found.IsValid() {
			ctx = trace.ContextWithRemoteSpanContext(ctx, found)
			if len(headers) == 1 {
				return ctx, found
			}
		}
		return propagation.Baggage{}.Extract(ctx, incoming(headers)), found
	}
	ambient := trace.SpanContextFromContext(ctx)
	ctx = t.cfg.Propagator.Extract(ctx, incoming(headers))
	if found := trace.SpanContextFromContext(ctx); !found.Equal(ambient) {
		return ctx, found
	}
	return ctx, trace.SpanContext{}
}

// creation returns the context of the span that created the job with these headers.
func (t *Tracing) creation(headers map[string]string) trace.SpanContext {
	found, plain := t.plain(headers)
	if !plain {
		_, found = t.extract(context.Background(), headers)
	}
	return found
}

// plain returns the span context in the headers, if it can be read without a
// propagator.
func (t *Tracing) plain(headers map[string]string) (found trace.SpanContext, plain bool) {
	parent := headers["traceparent"]
	if !t.w3c || len(headers) > 1 && headers["tracestate"] != "" {
		return trace.SpanContext{}, false
	}
	found = parseTraceparent(parent)
	return found, parent == "" || found.IsValid()
}

// formatTraceparent returns the form that parseTraceparent reads.
func formatTraceparent(span trace.SpanContext) string {
	traceID, spanID := span.TraceID(), span.SpanID()
	var text [55]byte
	copy(text[:], "00-")
	hex.Encode(text[3:], traceID[:])
	text[35] = '-'
	hex.Encode(text[36:], spanID[:])
	text[52] = '-'
	hex.Encode(text[53:], []byte{byte(span.TraceFlags() & (trace.FlagsSampled | trace.FlagsRandom))})
	return string(text[:])
}

// parseTraceparent reads version 00 of a traceparent, the only one so far. It
// avoids the allocations of a propagator, since a batch may have a thousand.
func parseTraceparent(text string) trace.SpanContext {
	if len(text) != 55 || text[:3] != "00-" || text[35] != '-' || text[52] != '-' {
		return trace.SpanContext{}
	}
	traceID, err := trace.TraceIDFromHex(text[3:35])
	if err != nil {
		return trace.SpanContext{}
	}
	spanID, err := trace.SpanIDFromHex(text[36:52])
	if err != nil {
		return trace.SpanContext{}
	}
	flags, err := strconv.ParseUint(text[53:], 16, 8)
	if err != nil || flags > uint64(trace.FlagsSampled|trace.FlagsRandom) {
		return trace.SpanContext{}
	}
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: traceID, SpanID: spanID, TraceFlags: trace.TraceFlags(flags),
		Remote: true})
}
