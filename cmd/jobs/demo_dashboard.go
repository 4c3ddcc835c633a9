package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os/exec"
	"runtime"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/dashboard"
	"github.com/seed81422ce9/jobs/internal/demo"
)

// demoDashboard serves the dashboard of a demo, with decisions and payloads,
// until closed is called, to whoever has its address.
func (a *app) demoDashboard(ctx context.Context, d *demo.Demo, addr string) (address string, closed func(), err error) {
	listening := make(chan net.Addr, 1)
	f := dashboardFlags{addr: addr, write: true, payloads: true, listening: func(at net.Addr) { listening <- at }}
	g, err := f.gate()
	if err != nil {
		return "", nil, err
	}
	h, err := dashboard.New(jobs.NewInspector(d.Broker()), dashboard.Config{Title: "demo", Authorize: f.authorize, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return "", nil, err
	}
	quiet := *a // the terminal is full of other things
	quiet.out, quiet.err = io.Discard, io.Discard
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- quiet.serve(ctx, f, g, h) }()
	select {
	case at := <-listening:
		return fmt.Sprintf("http://%s/%s", at, g.query()), func() { stop(); <-ended }, nil
	case err := <-ended:
		stop()
		return "", nil, fmt.Errorf("the dashboard: %w", err)
	}
}

// browse opens an address in a browser, where there is one. Nobody waits for it.
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
