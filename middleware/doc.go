// Package middleware refines what happens around handlers, and around
// enqueueing, for the part of an application where it is mounted: a server
// (jobs.Config.Middleware), a mux (jobs.ServeMux.Use), or the handlers of one
// pattern (jobs.ServeMux.Handle).
//
// A server without any of it catches panics, ends runs whose time is up,
// retries failures by its policy and logs jobs that died. Each middleware works
// on its own and adds one thing. It decides outcomes, by the error that it
// returns: none sleeps, and none runs a handler twice.
//
// The order that makes sense, outermost first, and why:
//
//	observe.Tracing the span is there for whatever logs or calls out
//	observe.Metrics measures all that is below it, refusals too
//	observe.Logging sees what really becomes of the job
//	RateLimit       a run that must not start yet takes no part in what follows
//	Breaker         counts what Retry has classified: a bad payload is no outage
//	Retry           says what an error means
//	Dedup           its answers are successes for everybody outside
//	Timeout         bounds the handler alone, not the recording of its success
//	Recovery        makes a panic an error for all of them
//	payload.DecodePayloads  nothing is fetched or decrypted for a run that is refused
//	the handler
//
// Package observe has what needs OpenTelemetry, package payload what compresses,
// encrypts or moves payloads.
//
// A Middleware value has its state (limits, breakers) in itself: mounted in
// several places it is shared between them, and made twice it is two.
//
// Constructors panic for a field that is outside its limits, with an error that
// is jobs.ErrInvalid and names field, limit and remedy: like patterns, chains
// are written down once, where a program starts. Hooks given to a middleware
// are called by several goroutines at once and must be quick. A hook that
// panics makes the run fail like a handler that does, except where it is said
// otherwise.
package middleware
