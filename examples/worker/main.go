// Command worker is a worker for production that you can copy. It sends mail and
// resizes images, is configured from the environment, drains on SIGTERM, and serves
// probes and metrics over HTTP. Package deploy has its image, a stack for Docker
// Compose, and manifests for Kubernetes.
//
//	worker                        work until SIGTERM
//	worker enqueue TYPE PAYLOAD   enqueue one job and print its ID
//
// Its tasks:
//
//	email:send    {"to":["ada@example.com"],"subject":"…","text":"…","html":"…"}
//	image:resize  {"source":"in/a.jpg","target":"out/a.png","width":800,"height":600}
//
// It reads the environment variables of jobs.ConfigFromEnv and of type settings.
// JOBS_BROKER is required.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"

	"github.com/seed81422ce9/jobs/middleware/observe"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends"
	"github.com/seed81422ce9/jobs/middleware"
)

// version is set by the linker for binaries that are built outside of a Git repository.
var version string

func main() {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	slog.SetDefault(log)
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		log.Error("worker: " + err.Error())
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	cfg, url, err := jobs.ConfigFromEnv()
	if err != nil {
		return err
	}
	if url == "" {
		return errors.New("JOBS_BROKER is not set: say where the jobs are, redis://localhost:6379 for example")
	}
	switch {
	case len(args) == 0:
		return work(ctx, cfg, url)
	case len(args) == 3 && args[0] == "enqueue":
		return enqueue(ctx, url, args[1], args[2], stdout)
	}
	return errors.New("usage: worker, or: worker enqueue TYPE PAYLOAD")
}

// work handles jobs until ctx ends or the process is asked to end.
func work(ctx context.Context, cfg jobs.Config, url string) error {
	s, err := readSettings()
	if err != nil {
		return err
	}
	if err := backends.Migrate(ctx, url); err != nil {
		return err
	}
	b, err := backends.Open(ctx, url)
	if err != nil {
		return err
	}
	defer b.Close()
	if version != "" {
		cfg.Program = "worker " + version
	}
	metrics, err := measure(b)
	if err != nil {
		return err
	}
	defer metrics.Close()
	mux, err := s.handlers(metrics)
	if err != nil {
		return err
	}
	cfg.Hooks = metrics.Hooks()
	cfg.Middleware = []jobs.Middleware{metrics.Middleware(), observe.Logging(observe.LoggingConfig{}), middleware.Recovery(nil)}
	server, err := jobs.NewServer(metrics.Broker(), cfg)
	if err != nil {
		return err
	}
	metrics.Server(server)
	paths := http.NewServeMux()
	paths.Handle("/", server.Health())
	paths.Handle("GET /metrics", metrics.handler)
	// Serve until the drain is over. Otherwise an orchestrator would mistake the drain for
	// a crash.
	web, err := serve(s.Listen, paths)
	if err != nil {
		return err
	}
	defer web.Close()
	return server.Run(ctx, mux)
}

// enqueue enqueues one job.
func enqueue(ctx context.Context, url, typ, payload string, stdout io.Writer) error {
	if err := backends.Migrate(ctx, url); err != nil {
		return err
	}
	b, err := backends.Open(ctx, url)
	if err != nil {
		return err
	}
	defer b.Close()
	client := jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()
	info, err := client.Enqueue(ctx, jobs.NewTask(typ, []byte(payload)))
	if err == nil {
		fmt.Fprintln(stdout, info.ID)
	}
	return err
}
