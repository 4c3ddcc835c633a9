package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/seed81422ce9/jobs/broker"
)

// pageError is an error with its own status and text.
type pageError struct {
	status int
	text   string
}

func (e *pageError) Error() string { return e.text }

func badRequest(format string, args ...any) error {
	return &pageError{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

func notFound(format string, args ...any) error {
	return &pageError{http.StatusNotFound, fmt.Sprintf(format, args...)}
}

var errReadOnly = &pageError{http.StatusForbidden, "This dashboard is read-only."}

// describe returns the status and the text for an error.
func describe(err error) (status int, text string) {
	var page *pageError
	var call *broker.Error
	switch {
	case errors.As(err, &page):
		return page.status, page.text
	case errors.Is(err, errClosed):
		return http.StatusServiceUnavailable, "The dashboard is closed."
	case errors.Is(err, errTooManyPages):
		return http.StatusServiceUnavailable, "Too many pages are open."
	case errors.Is(err, broker.ErrInvalid), errors.Is(err, broker.ErrTooLarge):
		return http.StatusBadRequest, err.Error()
	case errors.Is(err, broker.ErrNotFound):
		return http.StatusNotFound, "There is no such job or queue. " +
			"Records of completed and cancelled jobs are kept only as long as their retention says."
	case errors.Is(err, broker.ErrWrongState):
		return http.StatusConflict, "This is not possible now" + hinted(err) + ". Nothing was changed."
	case errors.Is(err, broker.ErrDuplicate):
		return http.StatusConflict, "Another job holds its unique key. Nothing was changed."
	case errors.Is(err, broker.ErrUnavailable) && !broker.MayHaveApplied(err), errors.Is(err, broker.ErrClosed):
		return http.StatusServiceUnavailable, "The store does not answer. Nothing was changed."
	case errors.As(err, &call) && !broker.MayHaveApplied(err):
		return http.StatusConflict, "The store refused this. Nothing was changed."
	case errors.Is(err, context.Canceled):
		return http.StatusServiceUnavailable, "The request ended before the store answered."
	}
	return http.StatusBadGateway, "The store did not answer in time. " +
		"The decision may have been carried out. You can repeat it without harm."
}

// hinted returns the reason that a refusal gives.
func hinted(err error) string {
	for refusal := new(broker.Error); errors.As(err, &refusal); err = refusal.Err {
		if refusal.Hint != "" {
			return ": " + refusal.Hint
		}
	}
	return ""
}

// fail answers with an error page. To a refresh it sends only the status, so that the
// page keeps what it shows.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	status, text := describe(err)
	if status >= 500 && !errors.Is(err, errClosed) {
		h.log.Warn("jobs dashboard: a request failed", "path", r.URL.Path, "error", err)
	}
	if r.Method != http.MethodPost && status == http.StatusBadGateway {
		text = "The store did not answer in time." // who looks at a page decides nothing
	}
	w.Header().Del("Content-Type")
	if refreshes(r) {
		w.WriteHeader(status)
		return
	}
	v := h.view(r, "", "Error")
	v.Live = r.Method == http.MethodGet && status >= 500
	v.Data = text
	if err := render(w, r, "error", v, status); err != nil {
		h.log.Warn("jobs dashboard: a page cannot be made", "error", err)
	}
}
