package dashboard

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/readable"
)

//go:embed templates
var templateFiles embed.FS

//go:embed static
var staticFiles embed.FS

// view is the data of every page. Live says that the page refreshes itself.
type view struct {
	Site, Page, Heading string
	URL                 string // of this page, relative to the dashboard
	Live                bool
	Charts              bool // the page has charts
	Schedules           bool // there are pages of schedules
	Workflows           bool // there are pages of workflows
	Links               []Link
	Notice              *notice
	Trouble             string // what is wrong with the store
	Data                any

	may func(Action) bool
	had map[Action]bool
}

func (h *Handler) view(r *http.Request, page, heading string) *view {
	v := &view{Site: h.cfg.Title, Page: page, Heading: heading, Live: true, Schedules: h.cfg.Schedules != nil,
		Workflows: h.cfg.Workflows != nil, Links: h.cfg.Links, had: make(map[Action]bool),
		may: func(a Action) bool { return h.may(r, a) }}
	v.URL = path.Base(r.URL.Path)
	if strings.HasSuffix(r.URL.Path, "/") {
		v.URL = "./"
	}
	query := r.URL.Query()
	v.Notice = h.notices.get(query.Get("notice"))
	query.Del("notice")
	if len(query) > 0 {
		v.URL += "?" + query.Encode()
	}
	if s := h.poller.last(); s != nil {
		v.Trouble = s.trouble()
	}
	return v
}

// still makes the view one of a page that does not refresh itself.
func (v *view) still() *view {
	v.Live = false
	return v
}

// show writes the page with its data.
func (v *view) show(w http.ResponseWriter, r *http.Request, name string, data any) error {
	v.Data = data
	return render(w, r, name, v, http.StatusOK)
}

// May reports whether to show the button of an action.
func (v *view) May(action Action) bool {
	may, asked := v.had[action]
	if !asked {
		may = v.may(action)
		v.had[action] = may
	}
	return may
}

// ReadOnly reports whether the viewer may take no action.
func (v *view) ReadOnly() bool {
	for _, action := range Actions() {
		if action != ActionPayload && v.May(action) {
			return false
		}
	}
	return true
}

// refreshes reports whether an open page asks for its new content.
func refreshes(r *http.Request) bool { return r.Header.Get("HX-Request") == "true" }

// render writes a page, or for a refresh only its live part.
func render(w http.ResponseWriter, r *http.Request, name string, v *view, status int) error {
	part := "layout"
	if refreshes(r) {
		part = "live"
	}
	var page bytes.Buffer
	if err := pages()[name].ExecuteTemplate(&page, part, v); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Add("Vary", "HX-Request")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(page.Bytes()) // it fails only if the client is gone
	}
	return nil
}

// pages are parsed when the first is shown: jobsctl imports this package for one of its commands.
var pages = sync.OnceValue(parse)

func parse() map[string]*template.Template {
	base := template.Must(template.New("").Funcs(template.FuncMap{
		"asset": asset, "text": text, "lines": readable.PlainLines, "num": num, "numi": readable.Number[int],
		"long": func(s string) bool { return len(s) > longName },
		"rate": perSecond, "rateOf": func(known bool, rate float64) shownRate { return shownRate{known, rate} },
		"span": span, "clock": readable.Clock, "hms": hms, "stamp": stamp, "ago": ago,
		"relative": relative, "short": short, "link": link, "state": broker.State.String,
		"list": func(s ...string) []string { return s }, "inc": func(n int) int { return n + 1 },
		"ref":       func(j broker.Job) string { return url.Values{"queue": {j.Queue}, "id": {j.ID}}.Encode() },
		"lastError": func(j broker.Job) string { return j.Errors.Last().Message },
	}).ParseFS(templateFiles, "templates/layout.html", "templates/parts.html"))
	files, err := fs.Glob(templateFiles, "templates/page_*.html")
	if err != nil {
		panic(err)
	}
	all := make(map[string]*template.Template)
	for _, file := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(path.Base(file), "page_"), ".html")
		all[name] = template.Must(template.Must(base.Clone()).ParseFS(templateFiles, file))
	}
	return all
}

// text returns untrusted text made safe and short enough to show.
func text(s string) string { return readable.Cut(readable.Plain(s), 300) }

// short returns text for a box of a graph.
func short(s string) string { return readable.Cut(text(s), 24) }

var num = readable.Number[int64]

func perSecond(f float64) string {
	if f >= 100 || f == 0 {
		return num(int64(f + 0.5))
	}
	if f < 1 {
		return strconv.FormatFloat(f, 'f', 2, 64)
	}
	return strconv.FormatFloat(f, 'f', 1, 64)
}

func span(d time.Duration) string {
	if d == 0 {
		return "0s"
	}
	if d > time.Second {
		d = d.Round(time.Second)
	}
	return readable.Span(d)
}

// ago returns how long before now t was, or "" for the zero time.
func ago(now, t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return span(now.Sub(t))
}

// relative returns t relative to now: "3s ago", "in 5m".
func relative(now, t time.Time) string {
	switch d := now.Sub(t); {
	case t.IsZero():
		return ""
	case d < 0:
		return "in " + span(-d)
	case d < time.Second:
		return "now"
	default:
		return span(d) + " ago"
	}
}

// stamp formats a time for people, in UTC.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000 UTC") }

func hms(t time.Time) string { return t.UTC().Format("15:04:05") + " UTC" }

type shownRate struct {
	Known bool
	Rate  float64
}

const longName = 40 // bytes that fit in two lines of a table

// about formats a duration that is known to about a tenth, with two digits.
func about(d time.Duration) string {
	for unit := time.Microsecond; unit < time.Second; unit *= 10 {
		if d < 100*unit {
			d = d.Round(unit)
			break
		}
	}
	switch {
	case d < 10*time.Millisecond:
		return strconv.FormatFloat(d.Seconds()*1000, 'g', 2, 64) + "ms"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'g', 2, 64) + "s"
	}
	return span(d)
}

// link returns the URL of a page with parameters, given as names and values. Empty
// values are left out.
func link(page string, params ...string) string {
	q := make(url.Values)
	for i := 0; i+1 < len(params); i += 2 {
		if params[i+1] != "" {
			q.Set(params[i], params[i+1])
		}
	}
	if len(q) > 0 {
		page += "?" + q.Encode()
	}
	return page
}

func jobLink(j *broker.Job) string { return link("job", "queue", j.Queue, "id", j.ID) }

// hashes change the URL of an asset when its content changes, so that browsers reload
// it.
var hashes = sync.OnceValue(hashAssets)

func hashAssets() map[string]string {
	files, err := fs.Glob(staticFiles, "static/*")
	if err != nil {
		panic(err)
	}
	m := make(map[string]string)
	for _, file := range files {
		content, err := staticFiles.ReadFile(file)
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(content)
		m[path.Base(file)] = hex.EncodeToString(sum[:6])
	}
	return m
}

// asset returns the URL of an embedded file.
func asset(name string) string { return "static/" + name + "?v=" + hashes()[name] }

func serveStatic(w http.ResponseWriter, r *http.Request, name string) error {
	if hashes()[name] == "" {
		return notFound("There is no such file.")
	}
	if r.URL.Query().Get("v") == hashes()[name] {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	http.ServeFileFS(w, r, staticFiles, "static/"+name)
	return nil
}
