// Package observe lets operators see what jobs do: [Tracing] and [Metrics] by
// OpenTelemetry, [Logging] with trace IDs, and [Standard], the chain that most
// applications mount. It is separate from package middleware so that only
// programs that use it compile OpenTelemetry.
package observe
