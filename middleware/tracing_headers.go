package middleware

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

// maxContextBytes bounds what one header of a trace may hold, in either
// direction: the limit that W3C sets to baggage.
const maxContextBytes = 8192

// outgoing carries the context of a trace into the headers of a new job. What
// is too long, or does not fit beside the job's own headers, is left out.
type outgoing struct{ o *jobs.Outgoing }

func (c outgoing) Get(key string) string { return incoming(c.o.Body.Headers).Get(key) }
func (c outgoing) Keys() []string        { return incoming(c.o.Body.Headers).Keys() }
func (c outgoing) Set(key, value string) {
	if len(key)+len(value) <= maxContextBytes {
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

// extract returns ctx with the baggage and the span that the headers name, and
// the context of that span, which is not valid if they name none.
func (t *Tracing) extract(ctx context.Context, headers map[string]string) (context.Context, trace.SpanContext) {
	if len(headers) == 0 {
		return ctx, trace.SpanContext{}
	}
	ambient := trace.SpanContextFromContext(ctx)
	ctx = t.cfg.Propagator.Extract(ctx, incoming(headers))
	if found := trace.SpanContextFromContext(ctx); !found.Equal(ambient) {
		return ctx, found
	}
	return ctx, trace.SpanContext{}
}

// custom is the context that the caller has put into a job's headers.
func (t *Tracing) custom(o *jobs.Outgoing) trace.SpanContext {
	_, found := t.extract(context.Background(), o.Body.Headers)
	return found
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
