package main

import (
	"bytes"
	_ "embed"
	"errors"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/seed81422ce9/jobs/internal/demo"
)

//go:embed demo_page.html
var demoHTML string

//go:embed demo_page.js
var demoJS string

var demoTemplate = template.Must(template.New("demo").Funcs(template.FuncMap{
	"clock": func(t time.Time) string { return t.UTC().Format("15:04:05") },
}).Parse(demoHTML))

// demoPage serves the controls of a demo, next to its dashboard. The gate in front
// admits only browsers on this machine that have the secret.
type demoPage struct {
	demo        *demo.Demo
	crossOrigin *http.CrossOriginProtection
}

// newDemoPage serves the controls at /demo, and rest at every other path.
func newDemoPage(d *demo.Demo, rest http.Handler) http.Handler {
	p := &demoPage{demo: d, crossOrigin: http.NewCrossOriginProtection()}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /demo", p.show)
	mux.HandleFunc("POST /demo", p.decide)
	mux.HandleFunc("GET /demo.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
		_, _ = w.Write([]byte(demoJS))
	})
	mux.Handle("/", rest)
	return mux
}

const (
	demoPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
		"form-action 'self'; frame-ancestors 'none'; base-uri 'none'" // the same as the dashboard's
	maxDemoForm   = 4 << 10 // bytes: six numbers
	maxDemoEvents = 15      // shown
	maxDemoKills  = 10      // shown
)

// shownDemo is the data of the page.
type shownDemo struct {
	Problem string
	Totals  demo.Totals
	Ended   int // cancelled or deleted
	Runs    string
	Kills   []demo.Kill
	Events  []demo.Event
	Knobs   demo.Knobs
	Kinds   []string
}

func (p *demoPage) show(w http.ResponseWriter, _ *http.Request) { p.render(w, nil) }

func (p *demoPage) render(w http.ResponseWriter, problem error) {
	t := p.demo.Totals()
	v := shownDemo{Totals: t, Ended: t.Cancelled + t.Deleted, Runs: mishaps(t), Knobs: p.demo.Knobs(), Kinds: demo.Kinds(),
		Kills: newest(p.demo.Kills(), maxDemoKills), Events: newest(p.demo.Events(), maxDemoEvents)}
	status := http.StatusOK
	if problem != nil {
		v.Problem, status = problem.Error(), http.StatusBadRequest
	}
	var page bytes.Buffer
	if err := demoTemplate.Execute(&page, v); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", demoPolicy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(page.Bytes())
}

// newest returns the last n elements, the last one first.
func newest[T any](all []T, n int) []T {
	all = slices.Clone(all[max(len(all)-n, 0):])
	slices.Reverse(all)
	return all
}

// decide carries out what a form of the page asks for. It refuses requests from other
// sites.
func (p *demoPage) decide(w http.ResponseWriter, r *http.Request) {
	if err := p.crossOrigin.Check(r); err != nil {
		http.Error(w, "This request came from another site and was refused.", http.StatusForbidden)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxDemoForm)
	err := r.ParseForm()
	if err == nil {
		err = p.do(r)
	}
	if err != nil {
		p.render(w, err)
		return
	}
	w.Header().Set("Location", "demo")
	w.WriteHeader(http.StatusSeeOther)
}

func (p *demoPage) do(r *http.Request) error {
	var errs []error
	number := func(name string) float64 {
		f, err := strconv.ParseFloat(r.PostForm.Get(name), 64)
		if err != nil {
			errs = append(errs, errors.New(name+" must be a number"))
		}
		return f
	}
	whole := func(name string) int {
		n, err := strconv.Atoi(r.PostForm.Get(name))
		if err != nil {
			errs = append(errs, errors.New(name+" must be a whole number"))
		}
		return n
	}
	switch r.PostForm.Get("do") {
	case "enqueue":
		n := whole("n")
		if len(errs) > 0 {
			return errors.Join(errs...)
		}
		return p.demo.Enqueue(r.Context(), r.PostForm.Get("kind"), n)
	case "set":
		k := demo.Knobs{Rate: number("rate"), Fail: number("fail"), Hang: number("hang"), Latency: number("latency"),
			Workers: whole("workers")}
		if len(errs) > 0 {
			return errors.Join(errs...)
		}
		return p.demo.Set(k)
	case "kill":
		return p.demo.Kill()
	}
	return errors.New("there is no such control")
}
