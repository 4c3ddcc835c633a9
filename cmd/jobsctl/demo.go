package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/dashboard"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/internal/demo"
)

// tour is the configuration of a demo, by flags.
type tour struct {
	demo.Config
	span      time.Duration // zero: until interrupted
	keep      bool
	addr      string // of the dashboard
	noBrowser bool
}

func (a *app) demo() *cobra.Command {
	t := tour{Config: demo.Config{Knobs: demo.Usual()}}
	usual := t.Knobs
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run a demo with its own store and load",
		Long: `Run a demo with a store in memory and a load: emails, charges, webhooks and
thumbnails in three queues, from three tenants, some urgent, some scheduled, some
with unique keys. Some runs fail and are retried, some hang until their timeout,
some jobs end in the dead-letter queue. After four seconds, and then from time to
time, a worker is killed. Other workers reclaim its jobs when its lease of two
seconds has run out.

The terminal shows queues and events. In a browser, a page has the demo's
controls: enqueue jobs, kill a worker, change the number of workers, latency and
failures while it runs. The dashboard, with changes permitted, is beside it. The
printed address contains a secret. With --addr on a network there are no controls.

The demo ends on Ctrl-C (or q), on SIGTERM, or after --for. Then the workers
drain, and the demo accounts for every job: done, waiting, dead or lost.

--broker uses a real store, with queues of the demo's own that are removed at the
end. So you can run the other commands on them. JOBS_BROKER and the configuration
file are not read.`,
		Example: "  jobsctl demo\n  jobsctl demo --rate 500 --workers 8 --fail 0.3 --crash-every 5s\n" +
			"  jobsctl demo --broker redis://localhost:6379 --for 2m",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := t.check(); err != nil {
				return err
			}
			return a.runDemo(cmd.Context(), t)
		},
	}
	flags := cmd.Flags()
	flags.Float64Var(&t.Rate, "rate", usual.Rate, "jobs per second, at most 5000")
	flags.Float64Var(&t.Fail, "fail", usual.Fail, "share of runs that fail, 0 to 1")
	flags.Float64Var(&t.Hang, "hang", usual.Hang, "share of runs that hang until their timeout, 0 to 1")
	spanFlag(flags, &t.CrashEvery, "crash-every", 15*time.Second, "time between two kills of a worker, at least 1s; 0 for never")
	flags.IntVar(&t.Workers, "workers", usual.Workers, "number of workers with 4 slots each, at most 100")
	spanFlag(flags, &t.span, "for", 0, "end after this time (default: on Ctrl-C)")
	flags.StringVar(&t.addr, "addr", "127.0.0.1:0", "address on which the dashboard listens")
	flags.BoolVar(&t.noBrowser, "no-browser", false, "do not open the dashboard in a browser")
	flags.BoolVar(&t.keep, "keep", false, "do not remove the queues from --broker at the end")
	return cmd
}

func (t *tour) check() error {
	if err := t.Knobs.Check(); err != nil {
		return misuse("%v", err)
	}
	switch {
	case t.CrashEvery != 0 && t.CrashEvery < time.Second:
		return misuse("--crash-every must be at least 1s, or 0 for never")
	case t.Workers < 1 || t.Workers > 100:
		return misuse("--workers must be 1 to 100")
	}
	_, err := (&dashboardFlags{addr: t.addr, write: true}).gate()
	return err
}

func (a *app) runDemo(ctx context.Context, t tour) error {
	t.Broker = membroker.New()
	if a.url != "" {
		b, err := a.broker(ctx)
		if err != nil {
			return err
		}
		t.Broker, t.Prefix = b, "demo-"+strings.ToLower(rand.Text()[:4])+"-"
	}
	if t.span > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t.span)
		defer cancel()
	}
	began := time.Now()
	d, err := demo.Start(ctx, t.Config)
	if err != nil {
		return err
	}
	address, closeDashboard, err := a.demoDashboard(ctx, d, t.addr)
	if err == nil {
		if !t.noBrowser && a.interactive() {
			a.browse(address)
		}
		err = a.watchDemo(ctx, d, address)
		closeDashboard()
	}
	a.say("The workers drain. Then every job is accounted for…")
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Minute)
	defer cancel()
	accounts, stopErr := d.Stop(end)
	if err = errors.Join(err, stopErr); err != nil {
		return err
	}
	if err := a.settleDemo(accounts, time.Since(began)); err != nil {
		return err
	}
	switch {
	case a.url == "":
		return nil // the store ends with this process
	case t.keep:
		a.say("These queues were not removed: %s", strings.Join(d.Queues(), ", "))
		return nil
	}
	for _, queue := range d.Queues() {
		if err := removeWhole(end, inspect.New(t.Broker), queue); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) watchDemo(ctx context.Context, d *demo.Demo, address string) error {
	i := inspect.New(d.Broker())
	if a.interactive() && !a.structured() {
		view := newTop(ctx, i, minWatch, d.Queues())
		began := time.Now()
		view.panel = func() []string { return demoPanel(d, address, time.Since(began)) }
		return a.live(ctx, view)
	}
	a.say("%s\n\nControls and dashboard are at %s\n", demoIntro, address)
	ticker := time.NewTicker(2 * time.Second)
	defer ticker.Stop()
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		for _, e := range d.Events() {
			if e.At.After(last) {
				last = e.At
				a.say("  %s  %s", e.At.UTC().Format("15:04:05"), e.Text)
			}
		}
		n := d.Totals()
		a.say("%s  %s", time.Now().UTC().Format("15:04:05"), balance(n))
		a.say("          %s", mishaps(n))
	}
}

const demoIntro = `Emails, charges, webhooks and thumbnails are enqueued and handled. Ctrl-C ends
the demo and accounts for every job. What to look for: failed runs are retried
with growing delays; timeouts end runs that hang; jobs that fail too often are
dead, and stay until somebody decides; a worker that is killed loses no job:
other workers reclaim its jobs when its lease of two seconds has run out.`

// balance returns how many jobs are in which state. The numbers add up.
func balance(t demo.Totals) string {
	line := fmt.Sprintf("%d enqueued = %d done + %d waiting or running + %d dead", t.Enqueued, t.Done, t.Waiting, t.DeadNow)
	if t.Cancelled+t.Deleted > 0 {
		line += fmt.Sprintf(" + %d cancelled + %d deleted", t.Cancelled, t.Deleted)
	}
	return line
}

// mishaps returns a line with the failures that the demo provoked.
func mishaps(t demo.Totals) string {
	return fmt.Sprintf("runs failed: %d, of them hung: %d; workers killed: %d; jobs reclaimed: %d", t.Failed, t.Hung, t.Crashes, t.Reclaimed)
}

// introduction is how long the panel explains the screen before it suggests what to
// try.
const introduction = 10 * time.Second

// demoPanel returns the lines below the queues: totals, an explanation or later
// suggestions, and events.
func demoPanel(d *demo.Demo, address string, since time.Duration) []string {
	n := d.Totals()
	lines := []string{"", bold.Render(balance(n)), mishaps(n), ""}
	if since < introduction {
		lines = append(lines, strings.Split(demoIntro, "\n")...)
	} else {
		lines = append(lines, "Try: p pauses a queue, and it backs up; p again resumes it. a and w show what",
			"runs. Redrive dead jobs and turn the knobs in the browser. q ends the demo.")
	}
	lines = append(lines, "", "Dashboard: "+address, "")
	events := d.Events()
	for i := len(events) - 1; i >= 0; i-- {
		lines = append(lines, faint.Render(events[i].At.UTC().Format("15:04:05"))+"  "+events[i].Text)
	}
	return lines
}

// settleDemo reports at the end which state each job is in.
func (a *app) settleDemo(t demo.Accounts, took time.Duration) error {
	if err := a.object(map[string]any{
		"seconds": took.Seconds(), "enqueued": t.Enqueued, "duplicates": t.Duplicates, "refused": t.Refused,
		"done": t.Done, "waiting": t.Left, "dead": t.DLQ, "cancelled": t.Cancelled, "deleted": t.Deleted, "lost": t.Lost,
		"failed_runs": t.Failed, "hung_runs": t.Hung, "redriven": t.Redriven, "crashes": t.Crashes, "reclaimed": t.Reclaimed,
	}); err != nil {
		return err
	}
	a.say("\nAfter %s:", span(took.Round(time.Second)))
	line := func(name string, n int, format string, args ...any) {
		a.say("%s", strings.TrimRight(fmt.Sprintf("%-10s %7d  "+format, append([]any{name, n}, args...)...), " "))
	}
	line("enqueued", t.Enqueued, "%d more were refused, because another job held their unique key", t.Duplicates)
	line("done", t.Done, "")
	line("waiting", t.Left, "scheduled, to be retried, or not started")
	line("dead", t.DLQ, "in the dead-letter queue; %d were redriven", t.Redriven)
	if t.Cancelled+t.Deleted > 0 {
		line("cancelled", t.Cancelled, "and %d deleted, by you", t.Deleted)
	}
	line("lost", t.Lost, "")
	a.say("%s", mishaps(t.Totals))
	if !t.Balanced() {
		return errors.New("the numbers of jobs do not add up; did another program change jobs of the demo?")
	}
	return nil
}

// demoDashboard serves the dashboard of a demo, with decisions and payloads, until
// closed is called. On a loopback address it also serves the demo's controls. Only
// browsers that open the printed address, with its secret, get in.
func (a *app) demoDashboard(ctx context.Context, d *demo.Demo, addr string) (address string, closed func(), err error) {
	f := dashboardFlags{addr: addr, write: true, payloads: true}
	g, err := f.gate()
	if err != nil {
		return "", nil, err
	}
	cfg := dashboard.Config{Title: "demo", Authorize: f.authorize, Logger: slog.New(slog.DiscardHandler)}
	if g.local {
		cfg.Links = []dashboard.Link{{Text: "Demo controls", URL: "demo"}}
	}
	h, err := dashboard.New(inspect.New(d.Broker()), cfg)
	if err != nil {
		return "", nil, err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("the dashboard: %w", err), h.Close())
	}
	all, first := http.Handler(h), "/"
	if g.local {
		all, first = newDemoPage(d, h), "/demo"
	}
	quiet := *a
	quiet.err = io.Discard // the demo's own view fills the terminal
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = quiet.serveOn(ctx, l, g.guard(all), h) // the browser shows that the server is gone
	}()
	return fmt.Sprintf("http://%s%s%s", openAt(l.Addr()), first, g.query()), func() { stop(); <-ended }, nil
}

// browse opens an address in a browser, if there is one. It does not wait for the browser.
func (a *app) browse(address string) {
	name, args := "xdg-open", []string{address}
	switch {
	case runtime.GOOS == "darwin":
		name = "open"
	case runtime.GOOS == "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", address}
	case a.getenv("DISPLAY") == "" && a.getenv("WAYLAND_DISPLAY") == "":
		return
	}
	cmd := exec.Command(name, args...)
	if cmd.Start() == nil {
		go func() { _ = cmd.Wait() }()
	}
}
