package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed81422ce9/jobs/dashboard"
)

const dashboardHelp = `Serve the dashboard: queues, jobs, dead letters and workers in a browser, live.

It is read-only unless --write is given, and shows no payloads unless --payloads
is. It listens on this machine alone, unless --addr says otherwise.

Who may use it: with --write or --token whoever has the address that is printed,
which holds a secret; with --user whoever knows the password in --password-file;
with --behind-proxy whoever a proxy that authenticates lets through. Read-only
and on a loopback address it needs none of these. Passwords and tokens pass over
the network as they are: put a proxy that speaks TLS before it.`

// dashboardFlags are how the dashboard is served.
type dashboardFlags struct {
	addr, title, traceURL  string
	write, payloads, token bool
	user, passwordFile     string
	behindProxy, noRates   bool
	userHeader             string
	interval               time.Duration
}

func (a *app) dashboard() *cobra.Command {
	var f dashboardFlags
	cmd := &cobra.Command{
		Use:     "dashboard",
		Short:   "Serve the dashboard for browsers",
		Long:    dashboardHelp,
		Example: "  jobs dashboard\n  jobs dashboard --write --payloads\n  jobs dashboard --addr :8383 --user ops --password-file /run/secrets/dashboard",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			gate, err := f.gate()
			if err != nil {
				return err
			}
			i, err := a.inspector(cmd.Context())
			if err != nil {
				return err
			}
			h, err := dashboard.New(i, dashboard.Config{Title: f.title, TraceURL: f.traceURL, Interval: f.interval, NoRates: f.noRates,
				Authorize: f.authorize, Logger: slog.New(slog.NewTextHandler(a.err, nil))})
			if err != nil {
				return err
			}
			return a.serve(cmd.Context(), f, gate, h)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.addr, "addr", "127.0.0.1:8383", "address to listen on")
	flags.StringVar(&f.title, "title", "jobs", "name of this store, shown on every page")
	flags.BoolVar(&f.write, "write", false, "let pages decide about jobs and queues")
	flags.BoolVar(&f.payloads, "payloads", false, "let pages show payloads and results")
	flags.BoolVar(&f.token, "token", false, "ask for a secret, which the printed address holds; --write alone implies it")
	flags.StringVar(&f.user, "user", "", "name to be given with the password in --password-file")
	flags.StringVar(&f.passwordFile, "password-file", "", "file with the password of --user")
	flags.BoolVar(&f.behindProxy, "behind-proxy", false, "a proxy that authenticates stands before it")
	flags.StringVar(&f.userHeader, "user-header", "X-Forwarded-User", "header in which that proxy says who it is")
	flags.StringVar(&f.traceURL, "trace-url", "", "where a trace can be seen; {trace} stands for its ID")
	flags.DurationVar(&f.interval, "interval", 2*time.Second, "between two looks at the store, while a page is open")
	flags.BoolVar(&f.noRates, "no-rates", false, "do not watch the store's events to show rates")
	return cmd
}

// gate checks the flags and makes what lets requests in.
func (f *dashboardFlags) gate() (*gate, error) {
	host, _, err := net.SplitHostPort(f.addr)
	if err != nil {
		return nil, &usageError{fmt.Sprintf("--addr %q is no address as 127.0.0.1:8383", f.addr)}
	}
	local := host == "localhost"
	if ip := net.ParseIP(host); ip != nil {
		local = ip.IsLoopback()
	}
	g := &gate{local: local && !f.behindProxy}
	switch {
	case (f.user == "") != (f.passwordFile == ""):
		return nil, &usageError{"--user and --password-file go together"}
	case f.user != "" && (f.behindProxy || f.token):
		return nil, &usageError{"--user, --behind-proxy and --token exclude each other"}
	case f.behindProxy && f.token:
		return nil, &usageError{"--user, --behind-proxy and --token exclude each other"}
	case f.user != "":
		password, err := os.ReadFile(f.passwordFile)
		if err != nil {
			return nil, &usageError{err.Error()}
		}
		g.user, g.password = f.user, strings.TrimRight(string(password), "\r\n")
		if len(g.password) < 8 {
			return nil, &usageError{"the password in --password-file is shorter than 8 bytes"}
		}
	case f.behindProxy:
	case f.token || f.write:
		g.newToken()
	case !local:
		return nil, &usageError{fmt.Sprintf("%s can be reached from other machines: use --user, --token or --behind-proxy", f.addr)}
	}
	return g, nil
}

// authorize permits what the flags permit, to everybody that the gate let in.
func (f *dashboardFlags) authorize(r *http.Request, action dashboard.Action) (string, error) {
	who, _, _ := r.BasicAuth()
	if f.behindProxy {
		who = r.Header.Get(f.userHeader)
	}
	if who == "" {
		who = r.RemoteAddr
	}
	switch {
	case action == dashboard.ActionPayload && !f.payloads:
		return who, errors.New("payloads are not shown; start it with --payloads")
	case action != dashboard.ActionPayload && !f.write:
		return who, errors.New("this dashboard is read-only; start it with --write")
	}
	return who, nil
}

const dashboardShutdown = 5 * time.Second

// serve serves the dashboard until ctx ends.
func (a *app) serve(ctx context.Context, f dashboardFlags, g *gate, h *dashboard.Handler) error {
	defer h.Close()
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", f.addr)
	if err != nil {
		return err
	}
	address := "http://" + l.Addr().String() + "/" + g.query()
	if a.json {
		err = a.object(map[string]any{"url": address, "write": f.write, "payloads": f.payloads})
	} else {
		mode := "read-only"
		if f.write {
			mode = "with decisions"
		}
		_, err = fmt.Fprintf(a.out, "The dashboard, %s, is at %s\n", mode, address)
	}
	if err != nil {
		return errors.Join(err, l.Close())
	}
	return a.serveOn(ctx, l, g, h)
}

// serveOn serves the dashboard on a listener until ctx ends.
func (a *app) serveOn(ctx context.Context, l net.Listener, g *gate, h *dashboard.Handler) error {
	server := &http.Server{Handler: g.guard(h), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: time.Minute,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(slog.NewTextHandler(a.err, nil), slog.LevelWarn)}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	_ = h.Close() // or open pages would hold the server up
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), dashboardShutdown)
	defer cancel()
	if err := server.Shutdown(ending); err != nil {
		return errors.Join(err, server.Close())
	}
	return nil
}
