// Package observe lets operators see what jobs do: [Tracing] and [Metrics] by
// OpenTelemetry, [Logging] with trace IDs, and [Standard], the chain that most
// applications mount. It is apart from package middleware so that only those
// who use it compile OpenTelemetry.
package observe
