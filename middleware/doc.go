// Package middleware adds behaviour around handlers, and around enqueueing, in the part of an
// application where it is mounted: a server (jobs.Config.Middleware), a mux (jobs.ServeMux.Use), or the
// handlers of one pattern (jobs.ServeMux.Handle).
//
// Without any middleware, a server catches panics, ends the contexts of runs whose
// time is up, retries failures by its policy and logs dead jobs. Each middleware adds
// one thing and works without the others. It decides the outcome by the error that it
// returns: none sleeps, and none runs a handler twice.
//
// The recommended order, outermost first, and why:
//
//	observe.Tracing  whatever logs or calls out has the span
//	observe.Metrics  measures all the others, including refused runs
//	observe.Logging  sees the final outcome
//	RateLimit        a run that must not start yet reaches none of the following
//	Breaker          counts what Retry has classified: a bad payload is not an outage
//	Retry            says what an error means
//	Dedup            outer middleware sees its duplicates as successes
//	Timeout          bounds the handler alone, not the recording of its success
//	Recovery         makes a panic an error for all of them
//	payload.DecodePayloads  nothing is fetched or decrypted for a refused run
//	the handler
//
// Package observe has the middleware that needs OpenTelemetry, package payload the
// one that compresses, encrypts or moves payloads.
//
// A Middleware value has its own state, such as limits and breakers. If it is mounted in several places,
// they share this state. Two values have two states.
//
// Constructors panic if a field is outside its limits, since programs make their chains once, at the
// start. The error is jobs.ErrInvalid and names the field, its limit and the remedy. A duration of less
// than 1 ms is refused as a number without a unit. Several goroutines call the hooks of a middleware at
// once, so hooks must return quickly. Unless its documentation says otherwise, a hook that panics makes
// the run fail as a handler that panics does.
package middleware
