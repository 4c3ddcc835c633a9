package dashboard

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/internal/guard"
)

// Handler serves the dashboard. It is safe for concurrent use.
type Handler struct {
	inspector   *inspect.Inspector
	cfg         Config
	log         *slog.Logger
	get, post   map[string]handlerFunc
	crossOrigin *http.CrossOriginProtection
	reports     guard.Reports
	poller      *poller
	shared      sharedPages
	bulk        bulkWork
	notices     notices
	pasts       pasts
	allTime     time.Duration // tests change it

	closing context.Context
	close   context.CancelFunc
	wg      sync.WaitGroup
}

// handlerFunc is an http.HandlerFunc whose error becomes an error page.
type handlerFunc func(http.ResponseWriter, *http.Request) error

var errClosed = errors.New("the dashboard was closed")

// New returns the dashboard of the store that i inspects. Close it before the broker,
// when it is no longer served.
func New(i *inspect.Inspector, cfg Config) (*Handler, error) {
	if i == nil {
		return nil, broker.Invalid("inspector", "is nil; make one with inspect.New")
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	h := &Handler{inspector: i, cfg: cfg, log: guard.Logger(cfg.Logger), crossOrigin: http.NewCrossOriginProtection(),
		allTime: allTime}
	h.closing, h.close = context.WithCancel(context.Background())
	h.poller = &poller{inspector: i, interval: cfg.Interval, log: h.log, closing: h.closing, running: h.bulk.running,
		pages: make(map[chan struct{}]struct{}), wg: &h.wg}
	h.get = map[string]handlerFunc{
		"":        h.looking(h.overview),
		"queues":  h.looking(h.queues),
		"queue":   h.looking(h.queue),
		"keys":    h.looking(h.keys),
		"jobs":    h.looking(h.jobs),
		"job":     h.looking(h.job),
		"payload": h.payload,
		"dead":    h.looking(h.dead),
		"workers": h.looking(h.workers),
		"work":    h.work,
		"events":  h.events,
		"live":    h.live,
		"stats":   h.looking(h.stats),
	}
	h.post = map[string]handlerFunc{
		"act":     h.act,
		"edit":    h.edit,
		"bulk":    h.startBulk,
		"confirm": h.confirm,
		"copy":    h.copyJob,
		"undo":    h.undo,
		"stop":    h.stopBulk,
		"pause":   h.queueDecision(ActionPause, "pause", "is paused. Running jobs continue.", (*inspect.Inspector).Pause),
		"resume":  h.queueDecision(ActionPause, "resume", "goes on.", (*inspect.Inspector).Resume),
		"remove":  h.queueDecision(ActionRemove, "remove", "is forgotten.", (*inspect.Inspector).RemoveQueue),
		"policy":  h.policy,
		"key":     h.decideKey,
	}
	if cfg.Schedules != nil {
		h.get["schedules"], h.get["schedule"], h.post["schedule"] = h.schedules, h.schedule, h.decideSchedule
	}
	if cfg.Workflows != nil {
		h.get["workflows"], h.get["workflow"], h.post["workflow"] = h.workflows, h.workflow, h.decideWorkflow
	}
	return h, nil
}

// Close ends the event streams of open pages and running bulk operations, and returns
// when they have ended; what they did so far stays done. Afterwards every request is
// refused. Closing again does nothing.
func (h *Handler) Close() error {
	h.poller.mu.Lock() // so that nothing begins between the next two lines
	h.close()
	h.poller.mu.Unlock()
	h.wg.Wait()
	return nil
}

// goWhileOpen runs f in a goroutine, unless the handler is closed. Close waits for it.
func (h *Handler) goWhileOpen(f func()) bool {
	h.poller.mu.Lock()
	defer h.poller.mu.Unlock()
	if h.closing.Err() != nil {
		return false
	}
	h.wg.Go(f)
	return true
}

// contentPolicy lets a page load only what the handler serves.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// ServeHTTP answers GET and HEAD of pages, and POST of decisions.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range map[string]string{
		"Content-Security-Policy":      contentPolicy,
		"X-Frame-Options":              "DENY",
		"X-Content-Type-Options":       "nosniff",
		"Referrer-Policy":              "same-origin", // with no-referrer, browsers send Origin: null with forms, which is refused
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin", // no page of another site can load a payload into its process
		"Cache-Control":                "no-store",
	} {
		w.Header().Set(name, value)
	}
	name, ok := strings.CutPrefix(r.URL.Path, h.cfg.Prefix)
	if ok && name == "" { // without the final slash, which relative links need
		asked, _, _ := strings.Cut(r.RequestURI, "?") // RequestURI still has a stripped prefix
		redirect(w, "./"+path.Base(asked)+"/", r.URL.RawQuery)
		return
	}
	name, slash := strings.CutPrefix(name, "/")
	if maySqueeze(r, name) {
		z := &zipped{ResponseWriter: w}
		defer z.end()
		w = z
	}
	var err error
	switch {
	case !ok || !slash:
		err = notFound("There is no such page below the dashboard's path. Mount it with http.StripPrefix, or set Config.Prefix.")
	case h.closing.Err() != nil:
		err = errClosed
	case r.Method == http.MethodPost:
		err = h.decide(w, r, name)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD, POST")
		err = &pageError{http.StatusMethodNotAllowed, "The dashboard answers GET, HEAD and POST."}
	case strings.HasPrefix(name, "static/"):
		err = serveStatic(w, r, strings.TrimPrefix(name, "static/"))
	case h.get[name] != nil:
		err = h.get[name](w, r)
	case strings.Contains(name, "/"): // relative links of such a page would be broken
		http.Error(w, "There is no such page. Pages of the dashboard are directly below its path.", http.StatusNotFound)
		return
	default:
		err = notFound("There is no such page.")
	}
	if err != nil {
		h.fail(w, r, err)
	}
}

// redirect redirects to a URL relative to the request's, which works under any prefix.
func redirect(w http.ResponseWriter, to, query string) {
	if query != "" {
		to += "?" + query
	}
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}

// maxForm limits the size of a form: enough for the checked rows of a page.
const maxForm = 1 << 20

func (h *Handler) decide(w http.ResponseWriter, r *http.Request, name string) error {
	action := h.post[name]
	if action == nil {
		return notFound("There is no such action.")
	}
	if err := h.crossOrigin.Check(r); err != nil {
		h.log.Warn("jobs dashboard: a request from another site was refused", "path", name, "origin", r.Header.Get("Origin"))
		return &pageError{http.StatusForbidden, "This request came from another site and was refused."}
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	var large *http.MaxBytesError
	if err := r.ParseForm(); errors.As(err, &large) {
		return &pageError{http.StatusRequestEntityTooLarge, "The form is too large. Check fewer jobs."}
	} else if err != nil {
		return badRequest("The form cannot be read: %s", err.Error())
	}
	return action(w, r)
}

// authorize asks the application whether a request may take an action.
func (h *Handler) authorize(r *http.Request, action Action) (who string, err error) {
	if h.cfg.Authorize == nil {
		return "", errReadOnly
	}
	who, err = h.ask(r, action)
	if err != nil {
		h.log.Warn("jobs dashboard: refused", "who", who, "action", string(action), "error", err)
		return who, &pageError{http.StatusForbidden, "Not permitted: " + err.Error()}
	}
	return who, nil
}

// may reports whether a page shows the button of an action.
func (h *Handler) may(r *http.Request, action Action) bool {
	if h.cfg.Authorize == nil {
		return false
	}
	_, err := h.ask(r, action)
	return err == nil
}

// ask calls Authorize; if it is nil or panics, nothing is permitted.
func (h *Handler) ask(r *http.Request, action Action) (who string, err error) {
	failed := guard.Call(func() {
		who, err = h.cfg.Authorize(r, action)
		err = guard.Error(err)
	})
	if failed != nil {
		h.reports.Report(h.log, "Authorize", slog.LevelError, "jobs dashboard: Authorize failed", "action", string(action), "error",
			failed, "stack", failed.Stack)
		return "", errors.New("the program that shows this page failed to decide")
	}
	return who, err
}
