package middleware

import (
	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/broker"
)

// addHeader adds a header of telemetry's own, unless the job then had more
// headers than it may have: to observe a job must never make it refused. It
// reports whether it did.
func addHeader(o *jobs.Outgoing, key, value string) bool {
	headers := o.Body.Headers
	if _, there := headers[key]; !there && len(headers) >= broker.MaxHeaders {
		return false
	}
	size := len(key) + len(value)
	for k, v := range headers {
		if k != key {
			size += len(k) + len(v)
		}
	}
	if size > broker.MaxHeaderBytes {
		return false
	}
	o.SetHeader(key, value)
	return true
}
