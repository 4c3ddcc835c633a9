package dashboard

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

const (
	// A client that does not read an event within slowClient is disconnected.
	slowClient = 10 * time.Second
	// streamSpan is how long a page listens before it must ask again, so that the
	// application's authentication is applied again.
	streamSpan = 10 * time.Minute
)

// events sends a tick for each new snapshot, as server-sent events.
func (h *Handler) events(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return nil
	}
	news, leave, err := h.poller.listen()
	if err != nil {
		return err
	}
	defer leave()
	w.Header().Set("X-Accel-Buffering", "no") // otherwise nginx buffers the events
	out := http.NewResponseController(w)
	send := func(format string, args ...any) error {
		if err := out.SetWriteDeadline(time.Now().Add(slowClient)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
		if _, err := fmt.Fprintf(w, format, args...); err != nil {
			return err
		}
		return out.Flush()
	}
	if err := send("retry: 1000\n\n"); err != nil {
		h.log.Warn("jobs dashboard: pages cannot be kept up to date", "error", err)
		return nil // the page was closed
	}
	end := time.NewTimer(streamSpan)
	defer end.Stop()
	for {
		select {
		case <-news:
			s := h.poller.last()
			if send("id: %d\nevent: tick\ndata: %s\n\n", s.seq, s.message) != nil {
				return nil // the client is gone, or slow
			}
		case <-end.C:
			return nil
		case <-r.Context().Done():
			return nil
		case <-h.closing.Done():
			return nil
		}
	}
}
