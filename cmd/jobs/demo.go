package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed81422ce9/jobs/inspect"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"

	"github.com/seed81422ce9/jobs/backends/membroker"
	"github.com/seed81422ce9/jobs/broker"
	"github.com/seed81422ce9/jobs/internal/demo"
)

// tour is what a demo does, by its flags.
type tour struct {
	demo.Config
	span      time.Duration // zero: until interrupted
	keep      bool
	addr      string // of the dashboard
	noBrowser bool
}

func (a *app) demo() *cobra.Command {
	var t tour
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show all of it in two minutes, with a store and load of its own",
		Long: `Show all of it in two minutes, with a store of its own in memory and a load that
it makes: emails, charges, webhooks and thumbnails in three queues, of three
tenants, some urgent, some scheduled, some with unique keys. Runs fail and are
tried again, hang until their timeout, and end in the dead-letter queue; every
now and then a worker is killed with all it holds, and others take its jobs over
when its lease of two seconds has run out.

The dashboard shows it live in a browser, with decisions, for whoever has the
address that is printed; the terminal shows queues and events.

It ends on Ctrl-C (or q), after --for, or on SIGTERM: the workers drain, and
every job that was enqueued is looked for: done, waiting, dead, or lost.

With --broker, which JOBS_BROKER does not stand for here, it uses a real store,
in queues of its own that it removes afterwards: then the other commands see
them too. The configuration is not read.`,
		Example: "  jobs demo\n  jobs demo --rate 500 --workers 8 --fail 0.3 --crash-every 5s\n  jobs demo --broker redis://localhost:6379 --for 2m",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := t.check(); err != nil {
				return err
			}
			return a.runDemo(cmd.Context(), t)
		},
	}
	flags := cmd.Flags()
	flags.Float64Var(&t.Rate, "rate", 20, "jobs a second, 5000 at most")
	flags.Float64Var(&t.Fail, "fail", 0.15, "share of the runs that fail, 0 to 1")
	flags.Float64Var(&t.Hang, "hang", 0.02, "share of the runs that hang until their timeout, 0 to 1")
	flags.DurationVar(&t.CrashEvery, "crash-every", 15*time.Second, "kill a worker so often, 1s at least; 0 for never")
	flags.IntVar(&t.Workers, "workers", 3, "workers of 4 slots each, 100 at most")
	flags.DurationVar(&t.span, "for", 0, "end after so long (default: until Ctrl-C)")
	flags.StringVar(&t.addr, "addr", "127.0.0.1:0", "address that the dashboard listens on")
	flags.BoolVar(&t.noBrowser, "no-browser", false, "do not open the dashboard in a browser, as it does where it runs in a terminal")
	flags.BoolVar(&t.keep, "keep", false, "leave the queues of --broker there")
	return cmd
}

func (t *tour) check() error {
	switch {
	case t.Rate < 0 || t.Rate > 5000:
		return &usageError{"--rate is 0 to 5000 jobs a second"}
	case t.Fail < 0 || t.Hang < 0 || t.Fail+t.Hang > 1:
		return &usageError{"--fail and --hang are shares: 0 to 1, and together 1 at most"}
	case t.CrashEvery != 0 && t.CrashEvery < time.Second:
		return &usageError{"--crash-every is 1s at least, or 0 for never"}
	case t.Workers < 1 || t.Workers > 100:
		return &usageError{"--workers is 1 to 100"}
	case t.span < 0:
		return &usageError{"--for cannot be negative"}
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
		t.Broker, t.Prefix = b, "demo-"+strings.ToLower(ulid.Make().String())+"-"
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
	a.say("The workers drain, and every job is looked for…")
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
		a.say("The queues are still there: %s", strings.Join(d.Queues(), ", "))
		return nil
	}
	return removeDemo(end, t.Broker, d.Queues())
}

func removeDemo(ctx context.Context, b broker.Broker, queues []string) error {
	i := inspect.New(b)
	for _, queue := range queues {
		if err := removeWhole(ctx, i, queue); err != nil {
			return fmt.Errorf("the queue %s may be left over: %w", queue, err)
		}
	}
	return nil
}

// watchDemo shows the demo until it is to end.
func (a *app) watchDemo(ctx context.Context, d *demo.Demo, address string) error {
	i := inspect.New(d.Broker())
	if a.interactive() && !a.json {
		view := newTop(ctx, i, minWatch, d.Queues())
		view.panel = func() []string { return demoPanel(d, address) }
		return a.live(ctx, view)
	}
	a.say("%s\n\nThe dashboard is at %s\n", demoIntro, address)
	ticker := time.NewTicker(2 * time.Second)
	defer ticker.Stop()
	var told time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		for _, e := range d.Events() {
			if e.At.After(told) {
				told = e.At
				a.say("  %s  %s", e.At.UTC().Format("15:04:05"), e.Text)
			}
		}
		a.say("%s  %s", time.Now().UTC().Format("15:04:05"), totals(d.Totals()))
	}
}

const demoIntro = `A load of emails, charges, webhooks and thumbnails runs; Ctrl-C ends it with
accounts of every job. What to look for: failed runs are tried again, later and
later; hung ones are ended by their timeout; what fails too often is dead, and
stays until somebody decides; a worker that is killed loses nothing, since others
take its jobs over when its lease of two seconds has run out.`

func totals(t demo.Totals) string {
	return fmt.Sprintf("%d enqueued  %d done  %d runs failed  %d hung  %d dead  %d workers killed  %d jobs taken over",
		t.Enqueued, t.Done, t.Failed, t.Hung, t.Dead, t.Crashes, t.Reclaimed)
}

// demoPanel is what stands under the queues: totals, what to try, events.
func demoPanel(d *demo.Demo, address string) []string {
	lines := []string{"", bold.Render(totals(d.Totals())), "", "Dashboard: " + address,
		"Try: p on a queue, and it backs up; p again, and it drains; a and w show what",
		"runs. Redrive the dead in the dashboard. q ends it with accounts of every job.", ""}
	events := d.Events()
	for i := len(events) - 1; i >= 0; i-- {
		lines = append(lines, faint.Render(events[i].At.UTC().Format("15:04:05"))+"  "+events[i].Text)
	}
	return lines
}

// settleDemo tells where every job is.
func (a *app) settleDemo(t demo.Accounts, took time.Duration) error {
	if a.json {
		if err := a.object(map[string]any{"seconds": took.Seconds(), "enqueued": t.Enqueued, "duplicates": t.Duplicates, "refused": t.Refused,
			"done": t.Done, "waiting": t.Left, "dead": t.DLQ, "cancelled": t.Cancelled, "deleted": t.Deleted, "lost": t.Lost,
			"failed_runs": t.Failed, "hung_runs": t.Hung, "redriven": t.Redriven, "crashes": t.Crashes, "reclaimed": t.Reclaimed}); err != nil {
			return err
		}
	}
	a.say("\nAfter %s:", span(took.Round(time.Second)))
	line := func(name string, n int, format string, args ...any) {
		a.say("%s", strings.TrimRight(fmt.Sprintf("%-10s %7d  "+format, append([]any{name, n}, args...)...), " "))
	}
	line("enqueued", t.Enqueued, "and %d not, because another job held the unique key", t.Duplicates)
	line("done", t.Done, "")
	line("waiting", t.Left, "scheduled, to be tried again, or not begun")
	line("dead", t.DLQ, "in the dead-letter queue; %d were redriven", t.Redriven)
	if t.Cancelled+t.Deleted > 0 {
		line("cancelled", t.Cancelled, "and %d deleted, by you", t.Deleted)
	}
	line("lost", t.Lost, "")
	a.say("%d runs failed, %d of them hung; %d workers were killed, and %d jobs taken over from them.", t.Failed, t.Hung, t.Crashes, t.Reclaimed)
	if !t.Balanced() {
		return errors.New("the accounts do not balance; did another program decide about jobs of the demo?")
	}
	return nil
}
