package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os/exec"
	"runtime"

	"github.com/seed81422ce9/jobs/dashboard"
	"github.com/seed81422ce9/jobs/inspect"
	"github.com/seed81422ce9/jobs/internal/demo"
)

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
