package middleware

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs"
)

// HTTPError is the error of an HTTP response with a status of 400 or more. It holds
// neither the URL nor the body, which may contain secrets.
type HTTPError struct {
	StatusCode int
	RetryAfter time.Duration // from the header Retry-After; zero without the header
}

func (e *HTTPError) Error() string {
	s := fmt.Sprintf("HTTP status %d", e.StatusCode)
	if text := http.StatusText(e.StatusCode); text != "" {
		s += " " + text
	}
	if e.RetryAfter > 0 {
		s += fmt.Sprintf(", retry after %v", e.RetryAfter)
	}
	return s
}

// CheckResponse returns nil for a response with a status below 400, and otherwise an
// *HTTPError, which Retry classifies. It does not read or close the body.
func CheckResponse(resp *http.Response) error {
	if resp.StatusCode < http.StatusBadRequest {
		return nil
	}
	return &HTTPError{StatusCode: resp.StatusCode, RetryAfter: retryAfter(resp.Header, time.Now())}
}

// FindingOfHTTP classifies the status and the headers of a response, for a Classifier
// that adapts the errors of a client library. header may be nil.
func FindingOfHTTP(status int, header http.Header) Finding {
	return findingOf(status, retryAfter(header, time.Now()))
}

// ClassifyHTTP classifies errors that wrap an *HTTPError, or an error with a method
// HTTPStatusCode() int, as those of the AWS SDK have. The code is "HTTP_" with the
// status. 429, and 503 with Retry-After, are RateLimited. Statuses that a repetition would not change
// are Permanent: 400 to 403, 405, 406, 410, 411, 413 to 417, 422, 426, 428, 431, 451, 501 and 505. All
// others are Retryable, including 404: what was written just now may not be readable yet.
func ClassifyHTTP(err error, _ *jobs.Job) Finding {
	var answer *HTTPError
	if errors.As(err, &answer) {
		return findingOf(answer.StatusCode, answer.RetryAfter)
	}
	var other interface{ HTTPStatusCode() int }
	if errors.As(err, &other) {
		return findingOf(other.HTTPStatusCode(), 0)
	}
	return Finding{}
}

func findingOf(status int, after time.Duration) Finding {
	f := Finding{Kind: Retryable, Code: "HTTP_" + strconv.Itoa(status), RetryAfter: after}
	switch status {
	case http.StatusTooManyRequests:
		f.Kind = RateLimited
	case http.StatusServiceUnavailable:
		if after > 0 {
			f.Kind = RateLimited
		}
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden,
		http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusGone, http.StatusLengthRequired,
		http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong, http.StatusUnsupportedMediaType,
		http.StatusRequestedRangeNotSatisfiable, http.StatusExpectationFailed, http.StatusUnprocessableEntity,
		http.StatusUpgradeRequired, http.StatusPreconditionRequired, http.StatusRequestHeaderFieldsTooLarge,
		http.StatusUnavailableForLegalReasons, http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		f.Kind = Permanent
	}
	return f
}

// retryAfter reads the header Retry-After, which is a number of seconds or a date. A
// date counts from the header Date, if there is one, so that the two clocks need not
// agree.
func retryAfter(h http.Header, now time.Time) time.Duration {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if seconds, err := strconv.ParseUint(value, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(seconds, math.MaxInt64/uint64(time.Second))) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return max(at.Sub(now), 0)
}
