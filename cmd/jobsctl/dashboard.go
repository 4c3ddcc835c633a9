package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/dashboard"
	"github.com/seed81422ce9/jobs/schedule"
)

const dashboardHelp = `Serve the dashboard: queues, jobs, dead jobs and workers, live in a browser.

The dashboard is read-only; --write permits changes. It shows no payloads;
--payloads shows them. It listens on 127.0.0.1; --addr changes that.

Access control:

  --write, --token   a secret, which is part of the printed address
  --user             a name, and the password in --password-file
  --behind-proxy     a proxy in front of it authenticates users, and names them in
                     the header --user-header; requests without it are refused

A read-only dashboard on a loopback address needs none of these. Passwords and
tokens are sent in clear text: on a network, put a proxy with TLS in front.

On a loopback address it answers only to localhost and 127.0.0.1, so that no web
site can point its own name at it. If browsers open it under another name, as
through a proxy, give that name with --host. On other addresses it answers to any
name, unless --host is given.`

type dashboardFlags struct {
	addr, title, traceURL  string
	write, payloads, token bool
	user, passwordFile     string
	behindProxy            bool
	userHeader             string
	hosts                  []string
	interval               time.Duration
}

func (a *app) dashboard() *cobra.Command {
	var f dashboardFlags
	cmd := &cobra.Command{
		Use:   "dashboard",
		Short: "Serve the dashboard in a browser",
		Long:  dashboardHelp,
		Example: "  jobsctl dashboard\n  jobsctl dashboard --write --payloads\n" +
			"  jobsctl dashboard --addr :8383 --user ops --password-file /run/secrets/dashboard",
		RunE: func(cmd *cobra.Command, _ []string) error {
			gate, err := f.gate()
			if err != nil {
				return err
			}
			i, err := a.inspector(cmd.Context())
			if err != nil {
				return err
			}
			client := jobs.NewClient(a.store, jobs.ClientConfig{})
			defer client.Close()
			h, err := dashboard.New(i, dashboard.Config{Title: f.title, TraceURL: f.traceURL, Interval: f.interval,
				Schedules: schedule.New(a.store, ""), Workflows: client, Authorize: f.authorize,
				Logger: slog.New(slog.NewTextHandler(a.err, nil))})
			if err != nil {
				return err
			}
			return a.serve(cmd.Context(), f, gate, h)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.addr, "addr", "127.0.0.1:8383", "address to listen on")
	flags.StringVar(&f.title, "title", "jobs", "name of this store, shown on each page")
	flags.BoolVar(&f.write, "write", false, "permit changes of jobs and queues")
	flags.BoolVar(&f.payloads, "payloads", false, "show payloads and results")
	flags.BoolVar(&f.token, "token", false, "require a secret, which is part of the printed address; --write implies it")
	flags.StringVar(&f.user, "user", "", "require this user name, and the password in --password-file")
	flags.StringVar(&f.passwordFile, "password-file", "", "file with the password of --user")
	flags.BoolVar(&f.behindProxy, "behind-proxy", false, "a proxy in front of it authenticates users")
	flags.StringVar(&f.userHeader, "user-header", "X-Forwarded-User", "header in which that proxy names the user")
	flags.StringSliceVar(&f.hosts, "host", nil, "name under which browsers open it, without scheme and port; repeat it for several")
	flags.StringVar(&f.traceURL, "trace-url", "", "URL of a trace, with {trace} in place of its ID")
	spanFlag(flags, &f.interval, "interval", 2*time.Second, "time between two queries of the store, while a page is open")
	return cmd
}

// gate checks the flags and returns the gate that they ask for.
func (f *dashboardFlags) gate() (*gate, error) {
	host, _, err := net.SplitHostPort(f.addr)
	if err != nil {
		return nil, misuse("--addr %q is not an address like 127.0.0.1:8383", f.addr)
	}
	local := host == "localhost"
	if ip := net.ParseIP(host); ip != nil {
		local = ip.IsLoopback()
	}
	g := &gate{local: local, hosts: f.hosts}
	for _, h := range f.hosts {
		if h == "" || strings.ContainsAny(h, "/: ") {
			return nil, misuse("--host %q is not a name like ops.example; leave out scheme, port and path", h)
		}
	}
	switch {
	case (f.user == "") != (f.passwordFile == ""):
		return nil, misuse("give --user and --password-file together")
	case f.user != "" && (f.behindProxy || f.token), f.behindProxy && f.token:
		return nil, misuse("give only one of --user, --behind-proxy and --token")
	case f.user != "":
		password, err := os.ReadFile(f.passwordFile)
		if err != nil {
			return nil, misuse("%v", err)
		}
		g.user, g.password = f.user, strings.TrimRight(string(password), "\r\n")
		if len(g.password) < 8 {
			return nil, misuse("the password in --password-file is shorter than 8 bytes")
		}
	case f.behindProxy && f.userHeader == "":
		return nil, misuse("--user-header is empty; name the header in which the proxy names the user")
	case f.behindProxy:
		g.userHeader = f.userHeader
	case f.token || f.write:
		g.newToken()
	case !local:
		return nil, misuse("other machines can reach %s; give --user, --token or --behind-proxy", f.addr)
	}
	return g, nil
}

// authorize permits what the flags permit, for every request that the gate admitted.
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
		return who, errors.New("payloads are not shown; start the dashboard with --payloads")
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
	address := "http://" + openAt(l.Addr()) + "/" + g.query()
	mode := "read-only"
	if f.write {
		mode = "with changes permitted"
	}
	err = a.answer(map[string]any{"url": address, "write": f.write, "payloads": f.payloads}, "The dashboard, %s, is at %s", mode, address)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	return a.serveOn(ctx, l, g.guard(h), h)
}

// openAt returns the host and port under which a browser on this machine opens what
// listens on an address. No browser opens 0.0.0.0 or [::], which stand for all addresses.
func openAt(l net.Addr) string {
	if tcp, ok := l.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return net.JoinHostPort("localhost", strconv.Itoa(tcp.Port))
	}
	return l.String()
}

// serveOn serves the handler all, which includes the dashboard h, until ctx ends.
func (a *app) serveOn(ctx context.Context, l net.Listener, all http.Handler, h *dashboard.Handler) error {
	server := &http.Server{
		Handler: all, MaxHeaderBytes: 64 << 10,
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(slog.NewTextHandler(a.err, nil), slog.LevelWarn),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	_ = h.Close() // otherwise open pages would delay the shutdown
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), dashboardShutdown)
	defer cancel()
	if err := server.Shutdown(ending); err != nil {
		return errors.Join(err, server.Close())
	}
	return nil
}
