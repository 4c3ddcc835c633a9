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

// maxContextBytes bounds what one header of a trace may hold, in either
// direction: the limit that W3C sets to baggage.
const maxContextBytes = 8192

// outgoing carries the context of a trace into the headers of a new job. What
// is too long, does not fit beside the job's own headers, or is one of those
// already, is left out.
type outgoing struct{ o *jobs.Outgoing }

func (c outgoing) Get(key string) string { return incoming(c.o.Body.Headers).Get(key) }
func (c outgoing) Keys() []string        { return incoming(c.o.Body.Headers).Keys() }
func (c outgoing) Set(key, value string) {
	if _, own := c.o.Body.Headers[key]; !own && len(key)+len(value) <= maxContextBytes {
		addHeader(c.o, key, value)
	}
}

// incoming reads the context of a trace from the headers of a job. What is too
// long is not looked at.
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

// extract returns ctx with the baggage and the span that the headers name, and
// the context of that span, which is not valid if they name none.
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

// creation is the context of the span that created the job of these headers.
func (t *Tracing) creation(headers map[string]string) trace.SpanContext {
	found, plain := t.plain(headers)
	if !plain {
		_, found = t.extract(context.Background(), headers)
	}
	return found
}

// plain returns the span that the headers name, if it can be told without a
// propagator.
func (t *Tracing) plain(headers map[string]string) (found trace.SpanContext, plain bool) {
	parent := headers["traceparent"]
	if !t.w3c || len(headers) > 1 && headers["tracestate"] != "" {
		return trace.SpanContext{}, false
	}
	found = parseTraceparent(parent)
	return found, parent == "" || found.IsValid()
}

// formatTraceparent writes the form that parseTraceparent reads.
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

// parseTraceparent reads the one form of a traceparent that there is so far,
// without the allocations of a propagator: a batch has a thousand of them.
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

// addHeader adds a header of telemetry's own, unless the job then had more
// headers than it may have: to observe a job must never make it refused.
func addHeader(o *jobs.Outgoing, key, value string) {
	headers := o.Body.Headers
	if _, there := headers[key]; !there && len(headers) >= broker.MaxHeaders {
		return
	}
	size := len(key) + len(value)
	for k, v := range headers {
		if k != key {
			size += len(k) + len(v)
		}
	}
	if size <= broker.MaxHeaderBytes {
		o.SetHeader(key, value)
	}
}
