// Command api is an HTTP API and its workers in one binary. It answers a long request
// at once, with the address of the result.
//
//	api    serve on :8080 until SIGTERM
//
//	POST /reports         {"year": 2026}; 202 with a Location
//	GET  /reports/{id}    how far it is, and its result
//	GET  /healthz, /readyz
//
// JOBS_BROKER is the URL of the store; without it the jobs are in memory.
package main

import (
	"cmp"
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/seed81422ce9/jobs"
	"github.com/seed81422ce9/jobs/backends"
)

func main() {
	if err := run(context.Background(), cmp.Or(os.Getenv("API_LISTEN"), ":8080"), log.Printf); err != nil {
		log.Fatal("api: ", err)
	}
}

// run serves requests and handles jobs until the process is asked to end.
func run(ctx context.Context, address string, logf func(string, ...any)) error {
	cfg, _, err := jobs.ConfigFromEnv()
	if err != nil {
		return err
	}
	// begin open
	b, err := backends.Open(ctx, cmp.Or(os.Getenv("JOBS_BROKER"), "memory://"))
	if err != nil {
		return err
	}
	defer b.Close()
	client := jobs.NewClient(b, jobs.ClientConfig{})
	defer client.Close()
	// end open
	cfg.Queues = map[string]int{queue: 1}
	server, err := jobs.NewServer(b, cfg)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	logf("api: serving on http://%s", l.Addr())
	web := &http.Server{Handler: API(client, b, server.Health()), ReadHeaderTimeout: 5 * time.Second}
	if err := server.Start(context.WithoutCancel(ctx), Handlers()); err != nil { // Shutdown ends it
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	served := make(chan error, 1)
	go func() { served <- web.Serve(l) }()
	select {
	case err = <-served: // the listener failed
	case <-ctx.Done():
		return end(web.Shutdown, server.Shutdown)
	}
	return errors.Join(err, server.Shutdown(context.Background()))
}

// end ends requests and jobs side by side, so that a stop takes no longer than the
// drain: Config.ShutdownTimeout and nine seconds. Requests can enqueue until they end.
func end(requests, drain func(context.Context) error) error {
	drained := make(chan error, 1)
	go func() { drained <- drain(context.Background()) }()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(requests(ctx), <-drained)
}
